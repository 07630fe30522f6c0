"""`select`: every choice fitted on the sweep's engine, and the one to take.

A choice is fitted once per fold, each time with another fifth of the data held out and another
seed. Held-out data judge it; how well its embeddings agree between folds is its consistency.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dynacl import metrics, parameters
from dynacl.choosing.folds import HELD, fold, span, steps_ahead
from dynacl.choosing.judged import Judged, judge, together
from dynacl.choosing.rule import Row, Selection, said, select_among
from dynacl.data import Array, InputError, TimeSeries
from dynacl.dynamics import BY_NAME
from dynacl.dynamics.naming import options as dynamics_options
from dynacl.estimator import DCL
from dynacl.experiments import engines, plan
from dynacl.experiments.plan import CODE, Config, Fit
from dynacl.experiments.runner import missing, sweep
from dynacl.experiments.store import Store
from dynacl.parameters import PARAMETERS
from dynacl.settings import tuples
from dynacl.values import Whole, plain

ROWS = 2_000  # of each embedding, between which consistency is measured
CHOSEN = ("n_components", "dynamics", "n_modes")
OWN = (*CHOSEN, "random_state", "verbose", "encoder")  # what `select` says of a model, or cannot


def select(
    data: Any,
    components: Sequence[int] = (2, 4, 8),
    modes: Sequence[int] = (5,),
    dynamics: Sequence[str] = ("linear",),
    *,
    u: Any = None,
    folds: int = 2,
    seed: int = 0,
    engine: str = "local",
    jobs: int | None = 1,
    threads: int = 1,
    scheduler: str | None = None,
    out: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    **model: Any,
) -> Selection:
    """Which number of latents, which dynamics and how many modes to take, and why.

    Every combination is fitted `folds` times and judged by the prediction of held-out observations,
    one to several steps ahead. The simplest that is behind the best by at most 1 dB, or by one
    standard error where that is more, is recommended. modes: for dynamics that have any.

    engine, jobs, threads, scheduler: where fits run, as in `dynacl reproduce`; jobs=None takes one
    per core. out: a folder that
    keeps each result as it comes; started again, what is there is not fitted again. model: further
    parameters of DCL, the same for every choice.

    Examples
    --------
    >>> import numpy as np
    >>> from dynacl import DCL, select, simulate
    >>> data = simulate.lds(rng=np.random.default_rng(0), trials=20, steps=60, observed=6)
    >>> found = select(data, components=(1, 3), folds=1, max_iter=20)
    >>> found.parameters
    {'n_components': 3, 'dynamics': 'linear'}
    >>> model = DCL(**found.parameters, max_iter=20, random_state=0).fit(data)
    """
    series, shared = TimeSeries.of(data, u), _shared(model)
    choices = _choices(components, modes, dynamics)
    if not isinstance(folds, int) or not 1 <= folds <= HELD:
        raise InputError(f"folds: got {folds!r}; wanted a whole number from 1 to {HELD}")
    ahead = steps_ahead(series, _all(shared))
    fold(series, 0, span(_all(shared), ahead))  # data that are too short say so now
    with _folder(out) as folder:
        path = folder / f"data-{series.fingerprint():08x}.npz"
        if not path.exists():
            series.write(path)
        fits = [_planned(series, path, choice, shared, ahead, k, seed, threads)
                for choice in choices for k in range(folds)]  # fmt: skip
        store, jobs = Store(folder), jobs or engines.jobs_for(threads)
        run = engines.named(engine, jobs=jobs, scheduler=scheduler)
        sweep(missing(fits, store, again=True), store, run, quiet=not verbose)
        tried, failed = [], []
        for choice in choices:
            mine = [f for f in fits if f.row.model == choice]
            errors = [r["error"] for f in mine if (r := store.get(f.name)) and "error" in r]
            if errors:
                failed.append(Row(choice, failed=errors[0].splitlines()[0]))
            else:
                tried.append(judged(choice, mine, store))
    return select_among(tried, failed)


def fit(config: Config) -> tuple[dict[str, Any], dict[str, Array]]:
    """One choice on one fold: what a worker does."""
    series, k = _series(config["where"]["path"]), config["fold"]
    given, horizons = tuples(config["model"]) | config["choice"], tuple(config["horizons"])
    seen, held = fold(series, k, span(_all(given), horizons))
    model = DCL(**given, random_state=config["seed"] + k).fit(seen)
    if model.run_.interrupted:
        raise KeyboardInterrupt
    found = judge(config["choice"], model.run_, model._driven(held), horizons)
    x = model._latents(model._driven(series))[1]
    numbers = {
        "r2": float((1 - found.share()).mean()),
        "score": model.score(held),
        "size": found.size,
        "steps": model.n_iter_,
        "fit_seconds": model.run_.seconds,
    }
    arrays = {f"missed.{name}": values for name, values in found.missed.items()}
    return numbers, arrays | {"counts": found.counts, "latents": x[:: max(1, len(x) // ROWS)]}


def judged(choice: Mapping[str, Any], fits: Sequence[Fit], store: Store) -> Judged:
    """The folds of a choice, as its results say."""
    each, embeddings = [], []
    records = [store.get(f.name) or {} for f in fits]
    for f, record in zip(fits, records, strict=True):
        arrays, numbers = store.arrays(f.name), record["metrics"]
        missed = {name.removeprefix("missed."): values for name, values in arrays.items()
                  if name.startswith("missed.")}  # fmt: skip
        latents, size = numbers["size"]
        horizons = tuple(f.config["horizons"])
        each.append(Judged(choice, (latents, size), horizons, arrays["counts"], missed))
        embeddings.append(arrays["latents"])
    about = {
        "score": float(np.mean([r["metrics"]["score"] for r in records])),
        "consistency": _consistency(embeddings),
        "seconds": float(sum(r["fit_seconds"] for r in records)),
    }
    return together(each, **about)


def _consistency(embeddings: Sequence[Array]) -> float | None:
    """Mean R² of the affine maps between embeddings of the same rows; None of a single one."""
    n = len(embeddings)
    if n < 2:
        return None
    return float(metrics.consistency(embeddings)[~np.eye(n, dtype=bool)].mean())


def _choices(
    components: Sequence[int], modes: Sequence[int], dynamics: Sequence[str]
) -> list[dict[str, Any]]:
    """Every combination; the number of modes only where there are any."""
    whole = Whole()
    _check_listed("components", components, whole.accepts, whole.wanted)
    _check_listed("modes", modes, whole.accepts, whole.wanted)
    _check_listed("dynamics", dynamics, BY_NAME.__contains__, f"one of {', '.join(BY_NAME)}")
    found = [
        {"n_components": int(d), "dynamics": f} | ({} if k is None else {"n_modes": int(k)})
        for f in dynamics
        for d in components
        for k in (modes if "n_modes" in dynamics_options(f) else (None,))
    ]
    return [choice for i, choice in enumerate(found) if choice not in found[:i]]


def _check_listed(name: str, values: Any, accepts: Callable[[Any], bool], wanted: str) -> None:
    listed = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    if not listed or len(values) == 0 or not all(map(accepts, values)):
        raise InputError(f"{name}: got {values!r}; wanted a list, each {wanted}")


def _shared(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of DCL that all choices share, as JSON holds them."""
    for name in given:
        if name not in PARAMETERS or name in OWN:
            able = ", ".join(n for n in PARAMETERS if n not in OWN)
            raise InputError(f"{name}: is no parameter that all choices can share; wanted some of "
                             f"{able}")  # fmt: skip
    parameters.check(_all(given))
    try:
        shared: dict[str, Any] = json.loads(json.dumps({k: plain(v) for k, v in given.items()}))
    except TypeError as error:
        raise InputError("select: fits run in processes of their own; wanted parameters by name "
                         f"or number ({error})") from error  # fmt: skip
    return shared


def _all(given: Mapping[str, Any]) -> dict[str, Any]:
    """With the defaults of DCL for what is not given."""
    return {name: p.default for name, p in PARAMETERS.items()} | dict(given)


def _planned(
    series: TimeSeries,
    path: Path,
    choice: dict[str, Any],
    shared: dict[str, Any],
    ahead: Sequence[int],
    k: int,
    seed: int,
    threads: int,
) -> Fit:
    config = {
        "code": CODE,
        "data": {"fingerprint": series.fingerprint(), "samples": len(series)},
        "choice": choice,
        "model": shared,
        "horizons": list(ahead),
        "fold": k,
        "seed": seed,
        "threads": threads,
        "where": {"path": str(path)},
    }
    return Fit(plan.Row(said(choice), {}, choice, ()), k, seed, config)


@lru_cache(maxsize=1)
def _series(path: str) -> TimeSeries:
    return TimeSeries.read(path)


@contextmanager
def _folder(out: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Where results are kept: as named, or until all is done."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="dynacl-select-") as made:
            yield Path(made)
        return
    folder = Path(out).resolve()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"out: {out} is a file; wanted a folder")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
