"""Draws docs/which.svg, "which dynamics should I use?", from the questions below.

python docs/which.py
"""

from __future__ import annotations

from html import escape
from pathlib import Path

# A question, and the answers that lead on: to the dynamics of this name, or to the next question.
QUESTIONS: tuple[tuple[str, tuple[tuple[str, str | None], ...]], ...] = (
    ("Do you know what kind of system it is?", (("no", "auto"), ("yes", None))),
    ("Does it change between regimes?",
     (("yes: each lasts for many steps", "switching"),
      ("yes: the state decides which", "gated"), ("no", None))),
    ("Is one linear map enough?", (("yes, or not known: try it first", "linear"), ("no", None))),
    ("What form do its dynamics have?",
     (("a polynomial field, sampled finely", "flow"), ("a polynomial map", "polynomial"),
      ("unknown, but the noise can be seen", "mlp"), ("unknown: local linear pieces", "tiles"))),
)  # fmt: skip

# Okabe and Ito: told apart with any colour vision. Words say all that colours say.
INK, GREY, LINE, ASK, TAKE, PAPER = "#1a1a1a", "#555555", "#0072b2", "#e3f0f8", "#fdf0d5", "#ffffff"
EDGE = "#e69f00"
WIDTH, ROW, GAP, BOX, LEFT, RIGHT = 760, 34, 34, 300, 20, 620


def draw() -> str:
    """The picture: questions on the left, from top to bottom; what to take on the right."""
    parts, y = [], 24
    for question, answers in QUESTIONS:
        middle = y + ROW / 2
        parts.append(box(LEFT, y, BOX, question, ASK, LINE))
        taken = [(said, name) for said, name in answers if name]
        for i, (said, name) in enumerate(taken):
            at = middle + i * (ROW + 10)
            parts.append(
                arrow(
                    f"M{LEFT + BOX} {middle} C{LEFT + BOX + 30} {middle} "
                    f"{LEFT + BOX + 10} {at} {LEFT + BOX + 36} {at} L{RIGHT - 8} {at}"
                )
            )
            parts.append(text(LEFT + BOX + 42, at - 6, said, GREY, 13))
            parts.append(box(RIGHT, at - ROW / 2, 120, name, TAKE, EDGE, mono=True))
        below = y + max(len(taken), 1) * (ROW + 10) - 10 + GAP
        for said, name in answers:
            if name is None:
                x = LEFT + BOX / 2
                parts.append(arrow(f"M{x} {y + ROW} L{x} {below - 8}"))
                parts.append(text(x + 8, below - 14, said, GREY, 13))
        y = below
    height = y - GAP + 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" '
        'font-family="Helvetica, Arial, sans-serif">\n'
        "<title>Which dynamics should I use?</title>\n"
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}"/>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{GREY}"/>'
        "</marker></defs>\n"
        + "\n".join(parts) + "\n</svg>\n"
    )  # fmt: skip


def box(
    x: float, y: float, wide: float, said: str, fill: str, edge: str, mono: bool = False
) -> str:
    frame = (f'<rect x="{x}" y="{y}" width="{wide}" height="{ROW}" rx="6" fill="{fill}" '
             f'stroke="{edge}" stroke-width="1.5"/>')  # fmt: skip
    return frame + text(x + wide / 2, y + ROW / 2 + 5, said, INK, 14, "middle", mono)


def text(
    x: float, y: float, said: str, colour: str, size: int, anchor: str = "start", mono: bool = False
) -> str:
    family = ' font-family="Menlo, Consolas, monospace" font-weight="bold"' if mono else ""
    return (f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}" text-anchor="{anchor}"'
            f"{family}>{escape(said)}</text>")  # fmt: skip


def arrow(path: str) -> str:
    return (
        f'<path d="{path}" fill="none" stroke="{GREY}" stroke-width="1.4" marker-end="url(#tip)"/>'
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw())
