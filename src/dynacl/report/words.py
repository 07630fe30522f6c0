"""What a report says in words and numbers: pure functions of a portrait."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dynacl import facts
from dynacl.behaviour import LATENTS, Decoded
from dynacl.dynamics import BY_NAME
from dynacl.portrait import Portrait
from dynacl.prediction import MODEL, HeldOut
from dynacl.signs import signs
from dynacl.spectrum import Spectrum

MOST = 5  # labels of which the first section speaks
GROWS = 1.005  # |λ|, from which a roll-out leaves the data within a few hundred steps
TRUTH = {
    "r2": "R² of the latent state",
    "r2_train_map": "R² of the latent state, by the affine map of the training data",
    "dyn_r2_1": "dynR², 1 step ahead",
    "dyn_r2_1_control": "dynR² of the identity control, 1 step ahead",
    "dyn_r2_10": "dynR², 10 steps ahead",
    "dyn_r2_10_control": "dynR² of the identity control, 10 steps ahead",
    "mode_accuracy": "modes right, step by step",
    "mode_accuracy_sequence": "modes right, decoded",
    "lds_error": "error of the matrix A",
    "control_error": "error of the input map B",
    "mcc": "mean correlation of single components (MCC)",
}


class Card(NamedTuple):
    """A figure for the top of the page."""

    name: str
    value: str
    note: str = ""


class Sentence(NamedTuple):
    """One finding; a doubt is marked."""

    text: str
    doubt: bool = False


def number(value: Any) -> str:
    """Three digits, or four before the point; a dash for what is not there."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    said = f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
    return said.replace("-", "−")


def percent(share: float) -> str:
    """With one digit after the point; what is not quite all is not called all."""
    if not np.isfinite(share):
        return "−∞"
    said = f"{100 * share:.1f}\u202f%".replace("-", "−")
    return ">\u202f99.9\u202f%" if said.startswith("100.0") and share < 1 else said


def fixed(value: float | None) -> str:
    """Three digits after the point, to be read in a column; a dash for what is not there."""
    there = value is not None and np.isfinite(value)
    return f"{value:.3f}".replace("-", "−") if there else "–"


def kind(seen: Portrait) -> str:
    """Of dynamics: the name it is asked for by, also where "auto" chose it; else its class."""
    of = seen.model.run_.dynamics.given_name
    return next((name for name, (_, found) in BY_NAME.items() if found == of), of)


# -- at the top ------------------------------------------------------------------------------------


def cards(seen: Portrait) -> list[Card]:
    model = seen.model
    behind = f"behind {several(model.n_features_in_, 'channel')}"
    found = [Card("latent dimensions", str(model.n_components), behind)]
    if K := model.run_.dynamics.n_modes:
        used = K - len(model.unused_modes_ or [])
        found.append(Card("modes", str(K), "all in use" if used == K else f"{used} of them in use"))
    else:
        found.append(Card("dynamics", kind(seen)))
    truth = seen.against_truth or {}
    if truth.get("r2") is not None:
        found.append(Card("R² beside the truth", f"{truth['r2']:.3f}", "up to an affine map"))
    if truth.get("mode_accuracy_sequence") is not None:
        found.append(Card("modes right", percent(truth["mode_accuracy_sequence"]),
                          "of the steps, decoded"))  # fmt: skip
    if (judged := seen.judged) is not None:
        for i in sorted({0, len(judged.horizons) - 1}):
            h = judged.horizons[i]
            other, share = best_other(judged, i)
            found.append(Card(f"explained, {steps(h)} ahead", percent(float(judged.r2()[i])),
                              f"{other}: {percent(share)}" if other else ""))  # fmt: skip
    return found


def best_other(judged: HeldOut, i: int) -> tuple[str, float]:
    """The baseline that explains most at this horizon, and how much."""
    others = {name: float(judged.r2(name)[i]) for name in judged.missed if name != MODEL}
    name = max(others, key=lambda k: others[k], default="")
    return name, others.get(name, float("nan"))


def steps(n: int) -> str:
    return several(n, "step")


def several(n: int, what: str) -> str:
    """A number of things: "1 trial", "2,000 trials"."""
    return f"{n:,} {what}{'s' if n != 1 else ''}"


# -- sentences -------------------------------------------------------------------------------------


def sentences(seen: Portrait) -> list[Sentence]:
    """What was learned, how good it is, and what casts doubt on it."""
    found = [*_prediction(seen), *_truth(seen), *_labels(seen), *_modes(seen), *_movement(seen),
             *_still(seen)]  # fmt: skip
    found += [Sentence(whole(text), doubt=True) for text in facts.sentences(seen.model)]
    found += [Sentence(whole(text), doubt=True) for text in warnings(seen)]
    return found


def warnings(seen: Portrait) -> list[str]:
    """Signs of a bad fit, on the data at hand."""
    if seen.series is None or "training" not in seen.model.scores_:
        return []
    some = seen.series.head(10_000)
    series, x, now = seen.model._latents(some)
    return signs(seen.model.run_, series, now, x, seen.model.scores_["training"])


def _prediction(seen: Portrait) -> list[Sentence]:
    judged = seen.judged
    if judged is None:
        return [Sentence("Nothing was held out, so it is not known how well the model predicts "
                         "data that it has not seen.", doubt=True)]  # fmt: skip
    last = len(judged.horizons) - 1
    near, far = float(judged.r2()[0]), float(judged.r2()[last])
    held = "new" if seen.series is not None and not seen.trained_on else "held-out"
    said = (
        f"Of {held} observations, the model explains {percent(near)} of the variance one step ahead"
    )
    if last:
        ahead = f"{steps(judged.horizons[last])} ahead"
        said += f", and {percent(far)} {ahead}" if far > 0 else f", and nothing {ahead}"
    found = [Sentence(f"{said}.")]
    other, share = best_other(judged, last)
    if other:
        where = steps(judged.horizons[last])
        name = f"the best baseline there ({other})"
        if far <= 0 and share <= 0:
            found.append(Sentence(f"At {where} the mean predicts better, and no baseline beats it.",
                                  doubt=True))  # fmt: skip
        elif far > share + 0.01:
            found.append(Sentence(f"That is more than {name}, which explains {percent(share)} at "
                                  f"{where}."))  # fmt: skip
        else:
            found.append(Sentence(f"It is not clearly better than {name}, which explains "
                                  f"{percent(share)} at {where}.", doubt=True))  # fmt: skip
    if seen.model.verdict_ and "linear start is handed out" in seen.model.verdict_:
        found.append(Sentence(whole(seen.model.verdict_), doubt=True))
    return found


def _truth(seen: Portrait) -> list[Sentence]:
    truth = seen.against_truth
    if not truth or truth.get("r2") is None:
        return []
    said = f"The true state is known here: R² is {truth['r2']:.3f} after the best affine map"
    if truth.get("mode_accuracy_sequence") is not None:
        said += (
            f", and the mode is right at {percent(truth['mode_accuracy_sequence'])} of the steps"
        )
    return [Sentence(f"{said}.")]


def _labels(seen: Portrait) -> list[Sentence]:
    """How well latents tell each label, by the better decoder; a doubt where others tell it so."""
    said = []
    for name, found in list(seen.decoded.items())[:MOST]:
        best = {source: max(told.values()) for source, told in found.figures.items()}
        latents = best.pop(LATENTS)
        beside = " and ".join(f"{fixed(best[source])} from {source}" for source in best)
        said.append(Sentence(f"{name} is decoded from the latents with {found.measure} "
                             f"{fixed(latents)}; with {beside}.",
                             doubt=latents <= max(best.values())))  # fmt: skip
        if found.mode_accuracy is not None:
            said.append(Sentence(f"{agreement(name, found)}."))
    return said


def agreement(name: str, found: Decoded) -> str:
    """How modes go with the categories of a label."""
    return (f"Modes, matched one to one with the categories of {name}, agree with it at "
            f"{percent(found.mode_accuracy or 0.0)} of the steps (adjusted Rand index "
            f"{fixed(found.adjusted_rand)}; 0 is chance)")  # fmt: skip


def _modes(seen: Portrait) -> list[Sentence]:
    usage = seen.model.mode_usage_
    if usage is None:
        return []
    said = (f"The {len(usage)} modes take between {percent(float(usage.min()))} and "
            f"{percent(float(usage.max()))} of the steps")  # fmt: skip
    if seen.segments is not None:
        # What a trial cuts off counts as long as it was seen, and lasts longer: "at least".
        middle = float(np.median(seen.segments.segments["duration"])) * (seen.seconds or 1)
        unit = "s" if seen.seconds else "steps"
        said += f"; half of the visits last {number(middle)} {unit} at least"
    return [Sentence(f"{said}.")]


def _movement(seen: Portrait) -> list[Sentence]:
    spectrum = seen.model.spectrum_
    if spectrum is None:
        return []
    found = []
    time = "s" if spectrum.seconds else "samples"
    found_at = spectrum.eigenvalues
    # What shrinks to 1/e before it has turned by a radian is not seen to turn.
    far = np.angle(found_at) >= -np.log(np.maximum(np.abs(found_at), 1e-300))
    turns = spectrum.frequencies[(found_at.imag > 1e-9) & far]
    if len(turns):
        periods = np.sort(1 / turns)
        between = number(float(periods[0]))
        if periods[-1] > 1.05 * periods[0]:
            between = f"between {between} and {number(float(periods[-1]))}"
        many = "periods" if "between" in between else "a period"
        found.append(Sentence(f"The state turns, with {many} of {between} {time}."))
    top = float(np.abs(spectrum.eigenvalues).max())
    if top > GROWS:
        found.append(Sentence(f"A part of the state grows: its largest eigenvalue is {top:.4f}. "
                              "Long forecasts leave the data behind.", doubt=True))  # fmt: skip
    else:
        found.append(_lasting(spectrum, time))
    return found


def _lasting(spectrum: Spectrum, time: str) -> Sentence:
    tau = spectrum.time_constants[np.isfinite(spectrum.time_constants)]
    tau = tau[tau > 0]
    radius = float(np.abs(spectrum.eigenvalues).max())
    if radius > 0.999 or not len(tau):
        return Sentence("Its slowest part neither grows nor decays within the length of the data: "
                        f"the largest |λ| is {radius:.4f}.")  # fmt: skip
    return Sentence(f"What lasts longest shrinks to 1/e in {number(float(tau.max()))} {time}.")


def _still(seen: Portrait) -> list[Sentence]:
    fixed = seen.fixed
    if fixed is None or not seen.curved:
        return []
    n, stable = len(fixed.points), int(fixed.stable.sum())
    if n == 0:
        return [Sentence("The flow has no fixed point among or near the states of the data.")]
    one = n == 1
    that = {0: "none attracts", n: "it attracts" if one else "all attract"}.get(
        stable, f"{stable} of them attract{'s' if stable == 1 else ''}"
    )
    that = "it does not attract" if one and not stable else that
    return [Sentence(f"The flow has {n} fixed point{'' if one else 's'} among or near the states "
                     f"of the data; {that}.")]  # fmt: skip


def whole(text: str) -> str:
    """With a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def spectrum_rows(spectrum: Spectrum) -> list[tuple[str, ...]]:
    """One for each real eigenvalue and each conjugate pair: mode, |λ|, time constant, frequency."""
    rows: list[tuple[str, ...]] = []
    for k, values in enumerate(spectrum.eigenvalues):
        for i in np.flatnonzero(values.imag >= 0):
            tau = float(spectrum.time_constants[k, i])
            lasts = f"grows, ×e in {number(-tau)}" if tau < 0 else number(tau)
            frequency = float(spectrum.frequencies[k, i])
            period = "–" if frequency < 1e-9 else number(1 / frequency)
            rows.append((str(k), f"{abs(values[i]):.4f}", lasts, number(frequency), period))
    return rows
