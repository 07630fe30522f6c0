"""The page of the flows: shares that reach the goals, and a table per regime."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.flows.judging import MODELS
from benchmarks.flows.systems import REGIMES

Row = dict[str, Any]
HEAD = """# Chaotic flows, from fifty channels

    pip install --no-deps dysts==0.96
    python -m benchmarks.flows

Flows of three dimensions from the `dysts` collection (Gilpin 2021, *NeurIPS Datasets and
Benchmarks*), seen through the paper's mixing of four layers to 50 channels: 100 trials of 2,000
samples, fitted with default settings, seed 0, one thread; judged on 20 fresh trials. Names from A
to M, SprottB, Rössler and Thomas were used to tune and are not shown. The ceiling is the same
encoder, trained as long on the true states; the start is linear. Forecasts begin at fresh states.
"""
WORDS = {
    "quiet": "75 samples per period, noise of 0.0002 of the spread at each. The noise is far "
    "below the distance between samples, so only structure in the dynamics identifies the state.",
    "noisy": "20 samples per period, noise of 0.03 of the spread at each. The noise can be seen, "
    "so the state can be told for any dynamics (Theorem 1).",
}


def page(rows: list[Row], names: list[str], recipe: str) -> str:
    by = {(r["name"], r["regime"], r["model"]): r for r in rows if r["name"] in names}
    begun = {name for name, _, _ in by}
    said = f"Rows of {len(begun)} of {len(names)} names."
    old = {r["recipe"] for r in by.values()} - {recipe}
    if old:
        said += f" Some are of an older recipe ({', '.join(sorted(old))}), to be measured again."
    parts = [HEAD, *_wrapped(said + " Seconds depend on what else the machine did."), ""]
    parts += [_regime(by, names, regime) for regime in REGIMES]
    return "\n".join(parts)


def _regime(by: dict[tuple[str, str, str], Row], names: list[str], regime: str) -> str:
    known = {n: by[n, regime, "bounds"] for n in names if (n, regime, "bounds") in by}
    left = [n for n, r in known.items() if r["leaves"]]
    kept = [n for n, r in known.items() if not r["leaves"]]
    lines = [f"## {regime.capitalize()}", "", *_wrapped(WORDS[regime]), ""]
    if left:
        lines += [*_wrapped(f"Left out, as the noise drives them off: {', '.join(left)}."), ""]
    lines += ["| | flows | median of ceiling − R² | R² ≥ 0.97 | the same, polynomial flows "
              "| below the start | forecast after 10 samples ≥ 0.95 |", "|---" * 7 + "|",
              ]  # fmt: skip
    for model in MODELS:
        fits = {n: by[n, regime, model] for n in kept if (n, regime, model) in by}
        if fits:
            lines.append(_shares(model, fits, known))
    lines += ["", *_wrapped("R², and forecasts: R² after 10 samples; R² after one period; Lyapunov "
              "times that they hold. Degree: of the field, where it is a polynomial up to 3."), ""
              ]  # fmt: skip
    heads = [f"{m}: R² | forecasts | s" for m in MODELS]
    lines += [f"| | degree | start | ceiling | true map | {' | '.join(heads)} |",
              "|---|---|---|---|---|" + "---|---|---|" * len(MODELS)]  # fmt: skip
    lines += [_line(n, known[n], [by.get((n, regime, m)) for m in MODELS]) for n in kept]
    return "\n".join(lines) + "\n"


def _shares(model: str, fits: dict[str, Row], known: dict[str, Row]) -> str:
    gaps = [known[n]["ceiling"] - r["r2"] for n, r in fits.items()]
    polynomial = [r["r2"] for n, r in fits.items() if known[n]["degree"] is not None]
    below = [n for n, r in fits.items() if r["r2"] < known[n]["start"]]
    cells = [
        model,
        str(len(fits)),
        f"{np.median(gaps):.3f}",
        f"{np.mean([r['r2'] >= 0.97 for r in fits.values()]):.0%}",
        f"{np.mean(np.array(polynomial) >= 0.97):.0%} of {len(polynomial)}" if polynomial else "–",
        str(len(below)) + (f" ({', '.join(below)})" if below else ""),
        f"{np.mean([r['r2_10'] >= 0.95 for r in fits.values()]):.0%}",
    ]
    return f"| {' | '.join(cells)} |"


def _line(name: str, known: Row, fits: list[Row | None]) -> str:
    cells = [name, str(known["degree"] or "–"), f"{known['start']:.3f}", f"{known['ceiling']:.4f}",
             _forecast(known)]  # fmt: skip
    for fit in fits:
        cells += ["–", "–", "–"] if fit is None else [
            f"{fit['r2']:.3f}" + " (start)" * (fit["handed_out"] == "start"),
            _forecast(fit), f"{fit['seconds']:.0f}",
        ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _forecast(row: Row) -> str:
    return f"{_short(row['r2_10'])}; {_short(row['r2_period'])}; {row['valid']:.1f}"


def _short(r2: float) -> str:
    return f"{r2:.2f}" if r2 > -10 else "< −10"


def _wrapped(text: str, width: int = 100) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) + 1 > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]
