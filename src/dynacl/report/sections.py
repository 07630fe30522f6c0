"""The sections of a report, each from what a portrait knows; None where there is nothing to say."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from dynacl import plots
from dynacl._version import __version__
from dynacl.flows import FixedPoints
from dynacl.plots.style import axes
from dynacl.portrait import Portrait
from dynacl.report import words
from dynacl.report.about import About, section
from dynacl.report.drawing import figure
from dynacl.report.explore import embedding
from dynacl.report.markup import Html, joined, table, tag
from dynacl.report.words import number, percent

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "matplotlib")
LISTED = 40  # rows of a spectrum that are listed


def result(seen: Portrait, about: About) -> Html:
    said = [tag("li", s.text, class_="doubt" if s.doubt else None) for s in words.sentences(seen)]
    return section("result", "Result", tag("ul", *said, class_="said"))


def modes(seen: Portrait, about: About) -> Html | None:
    usage, K = seen.model.mode_usage_, seen.model.run_.dynamics.n_modes
    if not K:
        return None
    drawn = []
    if seen.series is not None and seen.modes and any(len(m) for m in seen.modes):
        drawn.append(figure(plots.mode_durations(seen.modes, n_modes=K, interval=seen.seconds),
                            "durations", "How long each mode lasts: a dot per visit, the median as "
                            "a bar. An open dot is cut off by its trial."))  # fmt: skip
    if seen.model.transitions_ is not None:
        drawn.append(figure(plots.transitions(seen.model.transitions_), "transitions",
                            "How often one mode follows another. The diagonal, where it "
                            "stays, has no colour."))  # fmt: skip
    if seen.segments is not None and K <= LISTED:
        listed = _by_mode(seen)
    elif usage is not None and K <= LISTED:
        rows = [(str(k), percent(float(share))) for k, share in enumerate(usage)]
        listed = table(("mode", "share of the steps"), rows)
    else:
        listed = None
    return section("modes-section", "Modes", tag("div", *drawn, class_="figures"), listed)


def _by_mode(seen: Portrait) -> Html:
    """Each mode in figures, on the data at hand."""
    assert seen.segments is not None
    found, step = seen.segments.by_mode, seen.seconds or 1
    unit = "s" if seen.seconds else "steps"
    head = ("mode", "share of the steps", "visits", f"median duration ({unit})",
            f"longest ({unit})", "certainty")  # fmt: skip
    rows = [
        (str(k), percent(float(found["share"][k])), number(int(found["segments"][k])),
         number(float(found["median"][k]) * step), number(float(found["longest"][k]) * step),
         f"{found['certainty'][k]:.3f}")
        for k in range(len(found["mode"]))
    ]  # fmt: skip
    return joined([
        table(head, rows),
        tag("p", "Certainty: the mean posterior of the mode where it is decoded. Visits that "
            "a trial cuts off count as long as they were seen.", class_="hint"),
    ])  # fmt: skip


def dynamics(seen: Portrait, about: About) -> Html | None:
    model, drawn = seen.model, []
    spectrum = model.spectrum_
    listed = None
    if spectrum is not None:
        time, frequency = spectrum.units
        drawn.append(figure(plots.eigenvalues(spectrum), "eigenvalues", "Eigenvalues of one step. "
                            "Inside the circle a part decays, on it it lasts; its angle is how far "
                            "it turns."))  # fmt: skip
        drawn.append(figure(plots.time_constants(spectrum), "constants", "The same as time "
                            "constants and frequencies. A triangle at the top grows, or does not "
                            "decay."))  # fmt: skip
        rows = words.spectrum_rows(spectrum)
        head = ("mode", "|λ|", f"time constant ({time})", f"frequency ({frequency})",
                f"period ({time})")  # fmt: skip
        listed = tag("details", tag("summary", "All eigenvalues"), table(head, rows[:LISTED]),
                     open=len(rows) <= 8)  # fmt: skip
    if seen.series is not None and model.run_.encoder.symmetric and not seen.regimes:
        drawn.append(figure(plots.flow_field(seen.latents, seen.predicted, seen.fixed), "flow",
                            "Where one step of the dynamics leads, in the plane of the first two "
                            "components: the mean over the states in each cell."))  # fmt: skip
        if seen.fixed is not None and len(seen.fixed.points):
            drawn.append(_fixed(seen.fixed))
    values = model.canonical_correlations_
    if values is not None and len(values):
        drawn.append(figure(plots.canonical_correlations(values, model.n_components),
                            "correlations", "Canonical correlations of a window with the window "
                            "after it. Those that are not near 0 bound the dimensions of the state "
                            "from above."))  # fmt: skip
    if not drawn:
        return None
    return section("dynamics-section", "Dynamics", tag("div", *drawn, class_="figures"), listed)


def _fixed(fixed: FixedPoints) -> Html:
    rows = [
        (str(i + 1), "yes" if stable else "no", f"{abs(values[0]):.4f}",
         number(float(abs(np.angle(values[0])) / (2 * np.pi))))
        for i, (stable, values) in enumerate(zip(fixed.stable, fixed.eigenvalues, strict=True))
    ]  # fmt: skip
    head = ("fixed point", "attracts", "largest |λ|", "its frequency (per step)")
    return table(head, rows[:LISTED])


def forecasts(seen: Portrait, about: About) -> Html | None:
    parts: list[Any] = []
    if (judged := seen.judged) is not None:
        rows = [(name, *(percent(float(v)) for v in judged.r2(name))) for name in judged.missed]
        head = ("variance explained", *(f"{words.steps(h)} ahead" for h in judged.horizons))
        parts.append(tag("p", "From the past alone: the state is rolled out and read back as "
                         "observations. All baselines were fitted to the same training data. Below "
                         "0, the mean would have been the better prediction."))  # fmt: skip
        curve = figure(plots.held_out(judged), "held-out", "What each misses of observations that "
                       "the training has not seen; lower is better.")  # fmt: skip
        parts.append(tag("div", table(head, rows), curve, class_="figures"))
    drawn = []
    if (shown := seen.forecast) is not None:
        kept = "held out" if seen.trained_on and seen.unseen is not None else (
            "of the training data" if seen.trained_on else "of new data")  # fmt: skip
        for i, channel in enumerate(shown.channels):
            ax = plots.forecast(
                shown.predicted[:, i],
                shown.observed[:, i],
                past=shown.past[:, i],
                interval=shown.interval and (shown.interval[0][:, i], shown.interval[1][:, i]),
                beside={name: line[:, i] for name, line in shown.beside.items()},
                stride=seen.model.settings_.time_offset,
                step=seen.seconds,
                name=seen.names[channel],
            )
            band = " Nine of ten values should lie in the band." if shown.interval else ""
            drawn.append(figure(ax, f"forecast{i}", f"{seen.names[channel]}, {kept}.{band}"))
    if not parts and not drawn:
        return None
    return section("forecasts-section", "Forecasts", *parts, tag("div", *drawn, class_="figures"))


def labels(seen: Portrait, about: About) -> Html | None:
    """How well each label is told by the latents, beside other ways to tell it."""
    if not seen.decoded:
        return None
    parts: list[Any] = []
    for name, found in seen.decoded.items():
        ways = list(found.chance) or list(next(iter(found.figures.values())))
        rows = [(source, *(words.fixed(told.get(way)) for way in ways))
                for source, told in {**found.figures, "chance": found.chance}.items()]  # fmt: skip
        parts.append(table((f"{found.measure} from", *ways), rows, caption=name))
        if found.mode_accuracy is not None:
            parts.append(tag("p", f"{words.agreement(name, found)}."))
    said = ("Decoded on trials that the decoder has not seen, by ridge regression and by nearest "
            "neighbours. Chance: the same with labels shifted in a circle.")  # fmt: skip
    return section("labels-section", "Labels", tag("p", said), *parts)


def truth(seen: Portrait, about: About) -> Html | None:
    if not seen.against_truth:
        return None
    found = {said: seen.against_truth.get(key) for key, said in words.TRUTH.items()}
    rows = [(k, f"{v:.4f}".replace("-", "−")) for k, v in found.items() if v is not None]
    said = "The hidden state of these data is known. It is compared after the best affine map."
    return section("truth-section", "Beside the truth", tag("p", said), table(("", ""), rows))


def data(seen: Portrait, about: About) -> Html | None:
    series = seen.series
    if series is None:
        return section("data-section", "Data", tag("p", "This report was made without data. With "
                        "the file, it shows the embedding, modes over time and forecasts."),
                        )  # fmt: skip
    lengths = series.lengths
    long = number(int(lengths[0])) if len(set(lengths.tolist())) == 1 else (
        f"{number(int(lengths.min()))} to {number(int(lengths.max()))}")  # fmt: skip
    rows: list[tuple[str, Any]] = [
        ("source", about.source or "–"),
        ("trials", number(series.n_trials)),
        ("samples per trial", long),
        ("samples in all", number(len(series))),
        ("observed channels", number(series.n_features)),
        ("control inputs", ", ".join(series.control_names or ()) or
         (number(series.n_controls) if series.n_controls else "none")),
        ("labels", ", ".join(series.labels) or "none"),
        ("sampling interval", f"{seen.seconds:g} s" if seen.seconds else "not given"),
        ("seen in training", "yes; a part was held out" if seen.trained_on and
         seen.unseen is not None else "yes" if seen.trained_on else "no"),
    ]  # fmt: skip
    doubts = [tag("li", words.whole(text), class_="doubt") for text in about.doubts] or [
        tag("li", "Nothing stands out.")
    ]
    wide = axes(None, 1.8, width=7.2)
    picture = plots.observations(seen.example, seen.names, interval=seen.seconds, ax=wide)
    return section(
        "data-section",
        "Data",
        tag("div", table(("", ""), rows), class_="words"),
        tag("h3", "What looks wrong"),
        tag("ul", *doubts, class_="said"),
        tag("div", figure(picture, "observations", "The first trial, each channel in units of its "
                          "own spread.", wide=True), class_="figures"),
    )  # fmt: skip


def training(seen: Portrait, about: About) -> Html:
    model, drawn = seen.model, []
    if history := model.history_:
        drawn.append(figure(plots.training(history, model.run_.chance,
                                           several_from=model.settings_.several_from),
                            "training", "The loss of the training data."))  # fmt: skip
        if any("held_out" in record for record in history):
            drawn.append(figure(plots.held_out_curve(history), "curve", "What the model missed "
                                "of held-out observations, at each look."))  # fmt: skip
    rows = [("steps", f"{number(model.n_iter_)} of {number(model.settings_.max_iter)}"),
            *((f"score, {name.replace('_', '-')} data", f"{value:.2f} bits")
              for name, value in model.scores_.items())]  # fmt: skip
    if model.run_.seconds:
        rows.insert(1, ("seconds", number(model.run_.seconds)))
    verdict = tag("p", words.whole(model.verdict_)) if model.verdict_ else None
    return section("training-section", "Training", verdict, tag("div", *drawn, class_="figures"),
                    table(("", ""), rows))  # fmt: skip


def settings(seen: Portrait, about: About) -> Html:
    model = seen.model
    rows = [(name, _said(value), model.reasons_.get(name, ""))
            for name, value in asdict(model.settings_).items()]  # fmt: skip
    tools = [("dynacl", __version__), ("Python", sys.version.split()[0]),
             *((name, _version(name)) for name in PACKAGES),
             ("system", f"{platform.system()} {platform.machine()}")]  # fmt: skip
    commands = tag("pre", tag("code", *map(_whole_words, about.commands)))
    return section(
        "settings-section",
        "Settings and versions",
        tag("h3", "How this is made again"),
        commands if about.commands else None,
        tag("pre", tag("code", " ".join(repr(model).split()))),
        tag("details", tag("summary", "Settings of the training, and why"),
            tag("div", table(("setting", "value", "reason"), rows), class_="words")),
        tag("div", table(("", ""), tools), class_="words"),
    )  # fmt: skip


def _whole_words(line: str) -> Html:
    """A command, each of its words in one piece: a line would break after the dashes of one."""
    parts = re.split(r"(\s+)", line)
    return joined([*(part if part.isspace() else tag("span", part) for part in parts), "\n"])


SECTIONS = {
    "Result": result,
    "Embedding": embedding,
    "Modes": modes,
    "Dynamics": dynamics,
    "Forecasts": forecasts,
    "Labels": labels,
    "Truth": truth,
    "Data": data,
    "Training": training,
    "Settings": settings,
}


def _said(value: Any) -> str:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value))
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
