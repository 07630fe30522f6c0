"""Every picture that applies to a model and data, by name: what `dynacl plot` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from dynacl.plots.eigenvalues import eigenvalues, time_constants
from dynacl.plots.embedding import embedding
from dynacl.plots.flow import flow_field
from dynacl.plots.forecasts import forecast, held_out
from dynacl.plots.matrices import canonical_correlations
from dynacl.plots.modes import mode_durations, mode_raster, transitions
from dynacl.plots.observations import observations
from dynacl.plots.style import in_time
from dynacl.plots.training import held_out_curve, training
from dynacl.portrait import Portrait

Drawing = Callable[[], Axes]


def gallery(model: Any, X: Any = None, *, u: Any = None) -> Iterator[tuple[str, Axes]]:
    """Name and axes of each picture; without data, those that need none.

    Examples
    --------
    >>> import numpy as np
    >>> from dynacl import DCL, plots, simulate
    >>> data = simulate.lds(rng=np.random.default_rng(0), trials=10, steps=100)
    >>> model = DCL(n_components=3, max_iter=10, random_state=0).fit(data)
    >>> [name for name, ax in plots.gallery(model)]
    ['training', 'held-out-curve', 'held-out', 'eigenvalues', 'time-constants', 'correlations']
    """
    yield from drawn(Portrait.of(model, X, u=u))


def drawn(seen: Portrait) -> Iterator[tuple[str, Axes]]:
    """The same, of a portrait."""
    for name, draw in {
        **_of_model(seen),
        **(_of_data(seen) if seen.series is not None else {}),
    }.items():
        yield name, draw()


def _of_model(seen: Portrait) -> dict[str, Drawing]:
    model = seen.model
    found: dict[str, Drawing] = {}
    if history := model.history_:
        several = model.settings_.several_from
        found["training"] = lambda: training(history, model.run_.chance, several_from=several)
        if any("held_out" in record for record in history):
            found["held-out-curve"] = lambda: held_out_curve(history)
    if (judged := model.held_out_) is not None:
        found["held-out"] = lambda: held_out(judged)
    if (spectrum := model.spectrum_) is not None:
        found["eigenvalues"] = lambda: eigenvalues(spectrum)
        found["time-constants"] = lambda: time_constants(spectrum)
    if (values := model.canonical_correlations_) is not None and len(values):
        found["correlations"] = lambda: canonical_correlations(values, model.n_components)
    if (chain := model.transitions_) is not None:
        found["transitions"] = lambda: transitions(chain)
    return found


def _of_data(seen: Portrait) -> dict[str, Drawing]:
    model, seconds = seen.model, seen.seconds
    found: dict[str, Drawing] = {
        "observations": lambda: observations(seen.example, seen.names, interval=seconds)
    }
    colours: dict[str, tuple[Any, str]] = {"time": ("time", in_time(seconds)[1])}
    if len(seen.latents) > 1:
        colours["trial"] = ("trial", "trial")
    if seen.modes is not None:
        colours["mode"] = (seen.modes, "mode")
    for name, values in seen.cut.labels.items():
        colours[f"label-{name}"] = (seen.cut.split(values), name)
    for key, (by, name) in colours.items():
        for n in (2, 3) if model.n_components > 2 else (2,):
            found[f"embedding-{n}d-{key}"] = partial(
                embedding, seen.latents, by, dimensions=n, name=name, interval=seconds
            )
    if (modes := seen.modes) is not None and any(len(m) for m in modes):
        K = model.run_.dynamics.n_modes
        found["modes"] = lambda: mode_raster(modes, n_modes=K, interval=seconds)
        found["durations"] = lambda: mode_durations(modes, n_modes=K, interval=seconds)
    if model.run_.encoder.symmetric and not seen.regimes:
        found["flow"] = lambda: flow_field(seen.latents, seen.predicted, seen.fixed)
    if (shown := seen.forecast) is not None:
        for i, channel in enumerate(shown.channels):
            found[f"forecast-{channel}"] = partial(
                forecast,
                shown.predicted[:, i],
                shown.observed[:, i],
                past=shown.past[:, i],
                interval=shown.interval and (shown.interval[0][:, i], shown.interval[1][:, i]),
                beside={name: line[:, i] for name, line in shown.beside.items()},
                stride=model.settings_.time_offset,
                step=seconds,
                name=seen.names[channel],
            )
    return found
