"""Are there dynamics in these data, and does this model have them? It never needs the truth.

Predictions of observations that the model was not trained on, beside those of models that know
less; the same of refits to data that lost their order or all that is not linear; and how alike
refits from other random numbers are.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dynacl import assembly, metrics
from dynacl.choosing.dynamics import settled
from dynacl.comparing import HORIZONS, LINEAR, MEAN, Comparison, compared, horizons_in
from dynacl.data import Array, InputError, TimeSeries
from dynacl.estimator import DCL
from dynacl.prediction import MODEL, PERSISTENCE, WIDTH, HeldOut, listed
from dynacl.progress import Progress
from dynacl.surrogates import NULLS
from dynacl.values import Whole

MORE = 1.1  # times what is missed, from which a refit predicts worse than another
SAID = {
    "shuffle": "shuffled time",
    "phase": "random phases",
    "shift": "shifted input u",
}


class Consistency(NamedTuple):
    """How alike runs from different random numbers are, up to an affine map."""

    r2: Array  # (n, n), on held-out data, of the map from one run to another, fitted elsewhere
    embedding: list[Array]  # of each trial: the mean of all runs, aligned to the one nearest to all

    def pairs(self) -> Array:
        """R² of all pairs of different runs."""
        found: Array = self.r2[~np.eye(len(self.r2), dtype=bool)]
        return found


@dataclass(frozen=True)
class Evidence:
    """What speaks for a model. `str` shows a table and a sentence.

    on: what data the predictions are of. nulls: the same of refits to surrogates of the data.
    """

    on: str
    real: Comparison
    reference: Comparison | None = None  # what nulls are held against: the model, or a refit
    nulls: dict[str, Comparison] = field(default_factory=dict)
    consistency: Consistency | None = None

    @property
    def prediction(self) -> HeldOut:
        return self.real.squares.held_out()

    @property
    def sentence(self) -> str:
        """Are there dynamics here, and does this model have them?"""
        return f"{_verdict(self.real)}{''.join(f'; {s}' for s in self._of_nulls())}."

    def _of_nulls(self) -> Iterator[str]:
        """What refits to surrogates add, where there is something to doubt."""
        if self.reference is None or not self.reference.over_trivial[MODEL].clear:
            return
        for name, null in self.nulls.items():
            found = [c.squares.held_out() for c in (null, self.reference)]
            at = _furthest_apart(*found) if name == "shift" else 0
            r2, own = (held.r2()[at] for held in found)
            said = f"R² {r2:.2f} in place of {own:.2f}, {listed([found[0].horizons[at]])} ahead"
            if name == "phase":
                yield from _of_phases(null, self.reference)
            elif name == "shift":
                tells = "tells something" if _ratio(*found) > MORE else "tells nothing"
                yield f"the control input {tells} (shifted against the observations: {said})"
            elif null.over_trivial[MODEL].clear:
                yield f"but a refit to shuffled time predicts, too ({said}), which it should not"
            else:
                yield f"a refit to shuffled time predicts nothing ({said})"

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        found: dict[str, Any] = {"on": self.on, "sentence": self.sentence}
        found["prediction"] = _figures(self.prediction)
        found["nulls"] = {name: _figures(c.squares.held_out()) for name, c in self.nulls.items()}
        found["consistency"] = None
        if self.consistency is not None:
            pairs = self.consistency.pairs()
            found["consistency"] = {
                "runs": len(self.consistency.r2),
                "mean": float(pairs.mean()),
                "least": float(pairs.min()),
                "r2": self.consistency.r2.tolist(),
            }
        return found

    def __str__(self) -> str:
        held = self.prediction
        lines = [f"prediction of observations: {self.on}"]
        lines.append("steps ahead".ljust(WIDTH) + "".join(f"{h:>16}" for h in held.horizons))
        lines.append(" " * WIDTH + "      R²   NRMSE" * len(held.horizons))
        rows = dict(held.missed)
        for name, null in self.nulls.items():
            rows[SAID[name]] = null.squares.held_out().missed[MODEL]
        for name, missed in rows.items():
            cells = (f"{_short(1 - m):>8}{_short(np.sqrt(m)):>8}" for m in missed)
            lines.append(name.ljust(WIDTH) + "".join(cells))
        if self.consistency is not None:
            n, pairs = len(self.consistency.r2), self.consistency.pairs()
            lines.append(f"consistency of {n} runs: R² {pairs.mean():.3f} between pairs, "
                         f"{pairs.min():.3f} at least")  # fmt: skip
        return "\n".join([*lines, self.sentence])


def evidence(
    model: DCL,
    data: Any,
    *,
    u: Any = None,
    nulls: Sequence[str] = (),
    seeds: int = 1,
    horizons: Sequence[int] = HORIZONS,
    refit_iter: int | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> Evidence:
    """Judge a model by data without truth.

    Of the data that it was fitted to, those that `fit` held out are predicted; of others, all.
    nulls: "shuffle", "phase" and, with a control input, "shift": surrogates of `data` that the
    model is refitted to. seeds: runs whose consistency is told, if more than 1. refit_iter:
    training steps of a refit; None: as many as the model had.

    Examples
    --------
    >>> import numpy as np
    >>> from dynacl import DCL, evidence, simulate
    >>> data = simulate.lds(rng=np.random.default_rng(0), trials=10, steps=100)
    >>> model = DCL(n_components=3, max_iter=10, random_state=0).fit(data)
    >>> found = evidence(model, data, horizons=(1, 5))
    >>> found.on
    '1 of 10 trials, which fit held out'
    """
    check_is_fitted(model, "encoder_")
    _check(model, nulls, seeds, refit_iter)
    series = model._driven(data, u)
    own, held, on = _judged_on(model, series)
    ahead = horizons_in(model.run_, held, horizons)
    found = Evidence(on, compared(model.run_, held, ahead))
    # The model itself is one of the runs, if it was trained as they are.
    same = own and refit_iter in (None, model.settings_.max_iter)
    runs_wanted = seeds if seeds > 1 else int(len(nulls) > 0)
    refits = len(nulls) + max(0, runs_wanted - same)
    if not refits:
        return found
    rng, done = np.random.default_rng(seed), 0
    with Progress(refits, enabled=verbose) as bar, _hushed():

        def refit(what: TimeSeries, said: str, random_state: int) -> DCL:
            nonlocal done
            bar.say(f"refit {done + 1} of {refits}: {said}{_about(model)}")
            made = _refitted(model, what, random_state, refit_iter)
            done += 1
            bar.tell(done, said)
            return made

        runs = [model] if same else []
        if nulls and not same:
            runs = [refit(series, "the data as they are", seed)]
        reference, judged = None, {}
        if nulls:
            reference = _judged(runs[0], series, ahead)
            for name in nulls:
                surrogate = NULLS[name](series, rng)
                judged[name] = _judged(refit(surrogate, SAID[name], seed), surrogate, ahead)
        if seeds > 1:
            while len(runs) < seeds:
                runs.append(refit(series, f"seed {seed + len(runs)}", seed + len(runs)))
        alike = consistency(runs, series) if seeds > 1 else None
    return Evidence(on, found.real, reference, judged, alike)


def consistency(runs: Sequence[DCL], data: Any) -> Consistency:
    """Of models that were fitted to the same data: affine maps fitted to what they trained on, and
    scored on what they held out; on all, where nothing was held out."""
    series = runs[0]._driven(data)
    seen, held = assembly.held_out(runs[0].run_, series)

    def of(part: TimeSeries) -> list[Array]:
        return [np.concatenate(run.transform(part)) for run in runs]

    found = metrics.consistency(of(seen), None if held is None else of(held))
    centre = int(found.mean(1).argmax())
    everywhere, target = of(series), of(seen)[centre]
    aligned = []
    for x, whole in zip(of(seen), everywhere, strict=True):
        L, b = metrics.affine(x, target)
        aligned.append(whole @ L.T + b)
    cut = series.trimmed(runs[0].settings_.past)
    return Consistency(found, cut.split(np.mean(aligned, axis=0)))


def _judged_on(model: DCL, series: TimeSeries) -> tuple[bool, TimeSeries, str]:
    """Whether the model was fitted to these data; what of them judges it; how that is said."""
    if model.data_ != series.fingerprint():
        return False, series, f"all of these data, {_size(series)}, new to the model"
    seen, held = assembly.held_out(model.run_, series)
    if held is None:
        return True, series, f"{_size(series)} that the model was trained on: nothing was held out"
    if held.n_trials + seen.n_trials == series.n_trials:
        return True, held, f"{held.n_trials} of {series.n_trials} trials, which fit held out"
    return True, held, f"the last {len(held)} of {len(series)} steps, which fit held out"


def _size(series: TimeSeries) -> str:
    trials = f" in {series.n_trials} trials" if series.n_trials > 1 else ""
    return f"{len(series)} steps{trials}"


def _refitted(model: DCL, series: TimeSeries, seed: int, steps: int | None) -> DCL:
    made: DCL = clone(model)
    if model.choice_ is not None:  # a refit has the dynamics that was chosen
        made.set_params(**settled(made.get_params(deep=False), model.choice_))
    made.set_params(random_state=seed, verbose=False)
    if steps is not None:
        made.set_params(max_iter=steps)
    return made.fit(copy.copy(series))


def _judged(model: DCL, data: TimeSeries, horizons: Sequence[int]) -> Comparison:
    """On what the model held out of its own data."""
    series = model._driven(data)
    held = assembly.held_out(model.run_, series)[1]
    if held is None:
        raise InputError("nulls: a refit holds nothing out that it could be judged by; wanted more "
                         "data, or a model with validation")  # fmt: skip
    return compared(model.run_, held, horizons_in(model.run_, held, horizons))


def _check(model: DCL, nulls: Sequence[str], seeds: Any, refit_iter: Any) -> None:
    for name in nulls:
        if name not in NULLS:
            raise InputError(f"nulls: got {name!r}; wanted some of {', '.join(NULLS)}")
    if "shift" in nulls and not model.n_controls_in_:
        raise InputError('nulls: "shift" is of the control input, which this model has not')
    if nulls and model.run_.dynamics.needs_system:
        raise InputError("nulls: this model has the true dynamics, which surrogates have not")
    for name, value in (("seeds", seeds), ("refit_iter", refit_iter)):
        if value is not None and not Whole().accepts(value):
            raise InputError(f"{name}: got {value!r}; wanted {Whole().wanted}")


def _verdict(found: Comparison) -> str:
    """Without a full stop: what comes of surrogates is added."""
    gains = found.over_trivial
    able = [name for name, gain in gains.items() if gain.clear]
    if not able and found.gain(PERSISTENCE, (MEAN,)).clear:
        return ("No dynamics beyond identity dynamics: these observations change slowly, and "
                "nothing beats standing still, or their mean further on, clearly")  # fmt: skip
    if not able:
        return ("No dynamics beyond noise: nothing predicts these observations clearly better than "
                "their mean")  # fmt: skip
    if MODEL not in able:
        best = max(able, key=lambda name: gains[name].mean)
        return (f"There are dynamics here, but this model does not have them: {_the(best)} "
                "predicts clearly better than standing still or the mean, the model does not"
                )  # fmt: skip
    said = ("There are dynamics here and this model has them, beyond identity dynamics (it misses "
            f"{gains[MODEL].share:.0%} less than standing still or the mean)")  # fmt: skip
    gain = found.over_linear
    if gain is None:
        return said
    linear = " or ".join(_the(name) for name in found.has(*LINEAR))
    if gain.clear:
        return f"{said} and beyond what is linear ({gain.share:.0%} less than {linear})"
    if gain._replace(mean=-gain.mean).clear:
        return f"{said}, but {linear} predicts clearly better"
    return f"{said}, but not beyond what is linear: {linear} predicts as well"


def _of_phases(null: Comparison, real: Comparison) -> Iterator[str]:
    """Whether what is gained over linear models is lost with what is not linear."""
    without, own = null.over_linear, real.over_linear
    if without is None or own is None or not own.clear:
        return
    if not without.clear:
        yield "a refit to random phases gains nothing over what is linear"
    elif without.mean < own.mean / 2:
        yield f"a refit to random phases gains only {without.share:.0%} over what is linear"
    else:
        yield (f"but a refit to random phases gains {without.share:.0%} over what is linear, too, "
               "so that need not be more than linear")  # fmt: skip


def _ratio(one: HeldOut, other: HeldOut) -> float:
    """How much more one misses than another, over the steps ahead that both have."""
    return float(np.exp(_logarithms(one, other).mean()))


def _furthest_apart(one: HeldOut, other: HeldOut) -> int:
    """At which of the steps ahead one misses most beside another, or least."""
    return int(np.abs(_logarithms(one, other)).argmax())


def _logarithms(one: HeldOut, other: HeldOut) -> Array:
    n = min(len(one.horizons), len(other.horizons))
    found: Array = np.log(one.missed[MODEL][:n] / other.missed[MODEL][:n])
    return found


def _figures(held: HeldOut) -> dict[str, Any]:
    return {
        "horizons": list(held.horizons),
        "r2": {name: held.r2(name).tolist() for name in held.missed},
        "nrmse": {name: np.sqrt(missed).tolist() for name, missed in held.missed.items()},
    }


def _about(model: DCL) -> str:
    """How long a fit took, where it is known."""
    took = model.history_[-1]["seconds"] if model.history_ else 0
    return f" (the model took {took:.0f} s)" if took >= 1 else ""


def _the(name: str) -> str:
    return f"the {name}" if name.islower() else {"VAR": "a vector autoregression"}.get(name, name)


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else "far off"


@contextmanager
def _hushed() -> Iterator[None]:
    """Refits warn of what the model has warned of, and of surrogates as they should."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
