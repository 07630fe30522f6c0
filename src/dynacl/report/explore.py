"""The section with the embedding and the timeline: what the scripts of the page draw into."""

from __future__ import annotations

from dynacl.portrait import Portrait
from dynacl.report.about import About, section
from dynacl.report.markup import Html, joined, tag
from dynacl.report.points import chosen


def embedding(seen: Portrait, about: About) -> Html | None:
    if seen.series is None:
        return None
    _, trials, stride = chosen([len(x) for x in seen.latents])
    part = []
    if len(trials) < len(seen.latents):
        part.append(f"{len(trials)} of {len(seen.latents)} trials")
    if stride > 1:
        part.append(f"one step in {stride}")
    shown = f"Shown: {' and '.join(part)}. " if part else ""
    several = seen.model.n_components > 3
    choices = [
        tag("select", data_axis=k, aria_label=f"{name} axis")
        for k, name in enumerate(("horizontal", "upright", "depth"))
    ]
    controls = tag(
        "div",
        tag("fieldset", tag("legend", "Colour by"), id="colour"),
        tag("label", "Trial ", tag("select", id="trial")),
        tag("span", "Axes ", *choices, hidden=not several),
        tag(
            "button",
            "Whiten",
            id="whiten",
            type="button",
            aria_pressed="false",
            title="The same spread along each axis: latents are known up to an affine map",
        ),
        tag("button", "Lines", id="lines", type="button", aria_pressed="false"),
        tag("button", "Play", id="play", type="button", aria_pressed="false"),
        class_="controls",
    )
    picture = tag(
        "canvas",
        id="embedding",
        tabindex="0",
        role="img",
        aria_label="Latent states in three dimensions. Arrow keys turn the picture, plus and minus "
        "zoom, 0 resets it.",
    )
    timeline = tag(
        "canvas",
        id="timeline",
        tabindex="0",
        role="img",
        aria_label="Trials over time, in the same colours. Left and right move along a trial, up "
        "and down change the trial, Escape shows all.",
    )
    return section(
        "embedding-section",
        "Embedding and timeline",
        tag(
            "p",
            "Each point is the hidden state at one step, known up to an affine map"
            f"{' and shown in principal components' if several else ''}. {shown}"
            "Below it, the same steps over time: lines are the coordinates of one trial, rows are "
            "trials.",
        ),
        tag("noscript", tag("p", "This picture needs JavaScript; everything else does not.")),
        tag(
            "div",
            controls,
            tag("div", picture, tag("div", id="tip", hidden=True), class_="stage"),
            tag("div", id="key"),
            timeline,
            tag("output", id="here", aria_live="polite"),
            class_="explore",
        ),
        tag(
            "p",
            "Drag to turn, or focus the picture: ",
            _keys("← ↑ → ↓"),
            " turn, ",
            _keys("+ −"),
            " zoom (or the wheel), ",
            _keys("0"),
            " resets. On the timeline ",
            _keys("← →"),
            " move in time (",
            _keys("Shift"),
            " faster), ",
            _keys("↑ ↓"),
            " change the trial, ",
            _keys("Esc"),
            " shows all; a click chooses a trial.",
            class_="hint",
        ),
    )


def _keys(names: str) -> Html:
    return joined(tag("kbd", name) for name in names.split())
