"""What latents and modes say about labels, such as a position, a stimulus or an action.

Decoders of scikit-learn are fitted to some trials and scored on others. The latents are compared
with as many principal components of what the encoder sees, with the observations themselves, and
with chance: the latents again, with labels that were shifted in a circle against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.metrics import accuracy_score, adjusted_rand_score, r2_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from dynacl import assembly, metrics
from dynacl.data import Array, InputError, TimeSeries, is_categorical, is_missing
from dynacl.estimator import DCL
from dynacl.surrogates import shifted

ROWS = 4_000  # that a decoder is fitted to, and scored on, at most
WIDE = 1_000  # numbers in a window, above which single frames are decoded
FOLDS = 5
NEIGHBOURS = 15
SHIFTS = 5  # of labels, over which chance is the mean
PENALTIES = np.logspace(-3, 5, 9)
LATENTS, COMPONENTS, OBSERVATIONS = "latents", "principal components", "observations"
DECODERS: dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]] = {
    # of a quantity, and of categories; from so many rows
    "ridge": (lambda n: RidgeCV(PENALTIES), lambda n: RidgeClassifierCV(PENALTIES)),
    "neighbours": (
        lambda n: KNeighborsRegressor(min(n, NEIGHBOURS)),
        lambda n: KNeighborsClassifier(min(n, NEIGHBOURS)),
    ),
}


@dataclass(frozen=True)
class Decoded:
    """How well one label is told: by accuracy if it names categories, else by R².

    figures: by what it is decoded from, then by decoder. chance: from latents, of shifted labels.
    mode_accuracy, adjusted_rand: of modes against categories, if the model has modes: the share of
    steps that agree under the best matching, and the agreement beyond chance (1: the same).
    """

    categorical: bool
    figures: dict[str, dict[str, float]]
    chance: dict[str, float]
    mode_accuracy: float | None = None
    adjusted_rand: float | None = None

    @property
    def measure(self) -> str:
        return "accuracy" if self.categorical else "R²"

    def as_dict(self) -> dict[str, Any]:
        return {
            "measure": "accuracy" if self.categorical else "r2",
            **self.figures,
            "chance": self.chance,
            "mode_accuracy": self.mode_accuracy,
            "adjusted_rand": self.adjusted_rand,
        }


class _Part(NamedTuple):
    """Some rows: what is decoded from, by name, the labels, and where trials begin."""

    features: dict[str, Array]
    labels: Mapping[str, Array]
    bounds: Array


def decode_labels(
    model: DCL, data: Any, *, labels: Any = None, u: Any = None, seed: int = 0
) -> dict[str, Decoded]:
    """Decode each label of the data from latents, principal components and observations.

    Of the data that the model was fitted to, decoders are fitted to what it trained on and scored
    on what it held out. Of others, they are fitted to four fifths of the trials and scored on the
    rest, in turn; where trials are few, to the first and last part of each. labels: arrays by name,
    one entry per step; those that the data carry, if it is not given.

    Examples
    --------
    >>> import numpy as np
    >>> from dynacl import DCL, decode_labels, simulate
    >>> data = simulate.lds(rng=np.random.default_rng(0), trials=10, steps=100)
    >>> model = DCL(n_components=3, max_iter=10, random_state=0).fit(data)
    >>> found = decode_labels(model, data, labels={"first": data.truth.latents[:, 0]})
    >>> list(found["first"].figures)
    ['latents', 'principal components', 'observations']
    """
    check_is_fitted(model, "encoder_")
    series = model._driven(TimeSeries.of(data, u, labels=labels))
    if not series.labels:
        raise InputError("labels: missing; wanted arrays with one entry per step, by name")
    parts = [(_part(model, a), _part(model, b)) for a, b in _folds(model, series)]
    rng = np.random.default_rng(seed)
    return {name: _decoded(model, series, parts, name, rng) for name in series.labels}


def table(found: Mapping[str, Decoded]) -> str:
    """As text: a line for each label and what it is decoded from."""
    width = max(len(f"{name} (accuracy)") for name in found) + 2
    lines = ["label".ljust(width) + "from".ljust(22) + "".join(f"{d:>12}" for d in DECODERS)]
    for name, one in found.items():
        rows = {**one.figures, "chance (shifted)": one.chance}
        for i, (source, figures) in enumerate(rows.items()):
            head = f"{name} ({one.measure})" if i == 0 else ""
            cells = "".join(f"{_said(figures.get(d)):>12}" for d in DECODERS)
            lines.append(head.ljust(width) + source.ljust(22) + cells)
        if one.mode_accuracy is not None:
            lines.append(" " * width + f"modes: {one.mode_accuracy:.3f} of the steps agree, "
                         f"adjusted Rand index {one.adjusted_rand:.3f}")  # fmt: skip
    return "\n".join(lines)


def _folds(model: DCL, series: TimeSeries) -> Iterator[tuple[TimeSeries, TimeSeries]]:
    """What decoders are fitted to, and what they are scored on."""
    if model.data_ == series.fingerprint():
        seen, held = assembly.held_out(model.run_, series)
        if held is not None:
            yield seen, held
            return
    if series.n_trials >= FOLDS:
        trials = np.arange(series.n_trials)
        for fold in range(FOLDS):
            mine = trials % FOLDS == fold
            yield series.select(trials[~mine].tolist()), series.select(trials[mine].tolist())
        return
    at = (series.lengths * (FOLDS - 1)) // FOLDS
    yield series.cut(at), series.cut(at, last=True)


def _part(model: DCL, series: TimeSeries) -> _Part:
    s = model.settings_
    cut, x, _ = model._latents(series)
    lags = s.time_lags if len(s.time_lags) * series.n_features <= WIDE else (0,)
    windows = series.windows(series.with_past(s.past), lags)
    return _Part({LATENTS: x, OBSERVATIONS: windows}, cut.labels, cut.bounds)


def _decoded(
    model: DCL,
    series: TimeSeries,
    parts: list[tuple[_Part, _Part]],
    name: str,
    rng: np.random.Generator,
) -> Decoded:
    kind = is_categorical(series.labels[name])
    by_fold = [_of_fold(train, test, name, kind, rng) for train, test in parts]
    sources = (LATENTS, COMPONENTS, OBSERVATIONS)
    figures = {source: _mean([fold[source] for fold in by_fold]) for source in sources}
    chance = _mean([fold["chance"] for fold in by_fold])
    if not (kind and model.run_.dynamics.n_modes):
        return Decoded(kind, figures, chance)
    return Decoded(kind, figures, chance, *against_modes(model, series, series.labels[name]))


def against_modes(model: DCL, series: TimeSeries, label: Array) -> tuple[float, float]:
    """Modes beside categories: the share that agrees under the best matching; adjusted Rand."""
    past = model.settings_.past
    modes = model.modes(series)
    mine = [values[past : past + len(k)]
            for values, k in zip(series.split(label), modes, strict=True)]  # fmt: skip
    known, found = np.concatenate(mine), np.concatenate(modes)
    there = ~is_missing(known)
    names = np.unique(known[there], return_inverse=True)[1]
    accuracy = metrics.mode_accuracy(names, found[there])
    return accuracy, float(adjusted_rand_score(names, found[there]))


def _of_fold(
    train: _Part, test: _Part, name: str, kind: bool, rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Figures by what is decoded from, then by decoder; and what chance gives."""
    y, y_test = train.labels[name], test.labels[name]
    t, t_test = _spread(~is_missing(y)), _spread(~is_missing(y_test))
    if len(t) < 2 or len(np.unique(y[t])) < 2 or len(t_test) == 0:
        raise InputError(f"labels: {name!r} has too few steps, or one value, in the trials that "
                         "its decoders are fitted to or scored on")  # fmt: skip
    seen, new = ({k: v[rows] for k, v in part.features.items()}
                 for part, rows in ((train, t), (test, t_test)))  # fmt: skip
    few = min(seen[LATENTS].shape[1], *seen[OBSERVATIONS].shape)
    pca = PCA(few, random_state=0).fit(seen[OBSERVATIONS])
    seen[COMPONENTS], new[COMPONENTS] = (pca.transform(p[OBSERVATIONS]) for p in (seen, new))
    found = {k: _figures(seen[k], y[t], new[k], y_test[t_test], kind) for k in seen}
    by_chance = []
    for _ in range(SHIFTS):
        a, b = (shifted(p.labels[name], p.bounds, rng) for p in (train, test))
        rows = [_spread(~is_missing(values)) for values in (a, b)]
        if len(np.unique(a[rows[0]])) > 1:
            x, z = train.features[LATENTS][rows[0]], test.features[LATENTS][rows[1]]
            by_chance.append(_figures(x, a[rows[0]], z, b[rows[1]], kind))
    return {**found, "chance": _mean(by_chance)}


def _figures(x: Array, y: Array, new: Array, true: Array, kind: bool) -> dict[str, float]:
    """Of each decoder, fitted to x and y; of a label that does not vary, R² is not defined: NaN."""
    found = {}
    for name, (quantity, categories) in DECODERS.items():
        decoder = make_pipeline(StandardScaler(), (categories if kind else quantity)(len(x)))
        told = decoder.fit(x, y).predict(new)
        if kind:
            found[name] = float(accuracy_score(true, told))
        else:
            found[name] = float(r2_score(true, told)) if np.ptp(true) > 0 else float("nan")
    return found


def _mean(figures: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in figures])) for name in DECODERS if figures}


def _spread(there: Array) -> Array:
    """Rows, evenly spread, at most ROWS of them."""
    rows = np.flatnonzero(there)
    some: Array = rows[:: max(1, -(-len(rows) // ROWS))]
    return some


def _said(figure: float | None) -> str:
    return "–" if figure is None or figure != figure else f"{figure:.3f}"
