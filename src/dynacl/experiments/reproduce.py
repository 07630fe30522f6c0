"""`dynacl reproduce`: plan, run what is missing, render."""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from dynacl.data import InputError
from dynacl.experiments import engines
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.plan import SCALES, TRAINING, Experiment, Fit, name, plan
from dynacl.experiments.render import View, render
from dynacl.experiments.runner import expected, missing, span, sweep
from dynacl.experiments.store import Store


def reproduce(o: argparse.Namespace) -> int:
    if o.list:
        return _list()
    if o.status is not None:
        return _status(Path(o.status))
    if o.experiment is None:
        raise InputError("NAME: missing; --list names every table and figure")
    if o.experiment not in EXPERIMENTS:
        raise InputError(f"NAME: got {o.experiment!r}; wanted one of {', '.join(EXPERIMENTS)}")
    if o.scheduler is not None and o.engine != "dask":
        raise InputError("--scheduler: is for --engine dask")
    out = Path(o.out)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: {out} is a file; wanted a folder")
    experiment, store = EXPERIMENTS[o.experiment], Store(out)
    fits = _plan(experiment, o, o.protocol, o.only, o.datasets, o.seeds)
    todo = missing(fits, store, again=o.force_failed)
    jobs = o.jobs or engines.jobs_for(o.threads)
    if o.dry_run:
        return _dry_run(fits, todo, store, jobs)

    print(f"{experiment.name}: {_to_run(fits, todo)}, {jobs} at a time", file=sys.stderr)
    folder = out / f"{experiment.name}-{o.scale}-{o.protocol}"
    view = partial(_render, experiment, store, o, folder)
    try:
        sweep(todo, store, engines.named(o.engine, jobs=jobs, scheduler=o.scheduler))
    except KeyboardInterrupt:
        view()
        print(f"kept in {store.runs}; the same command goes on from here", file=sys.stderr)
        raise
    written = view()
    print((folder / "table.md").read_text())
    print("written: " + ", ".join(map(str, written)), file=sys.stderr)
    return int(any(store.state(f.name) == "failed" for f in fits))


def _render(
    experiment: Experiment, store: Store, o: argparse.Namespace, folder: Path
) -> list[Path]:
    """All that is there, also what --only, --datasets and --seeds left out: a table grows."""
    order = {row.name: i for i, row in enumerate(experiment.rows(o.scale))}
    datasets, seeds = store.repeats()
    if experiment.needs_data:
        datasets = o.datasets  # a number is that of a file, which may not be there

    def view(protocol: str) -> View:
        default = _plan(experiment, o, protocol)
        chosen = _plan(experiment, o, protocol, o.only, o.datasets, o.seeds)
        there = [f for f in _plan(experiment, o, protocol, (), datasets, seeds)
                 if store.state(f.name) != "missing"]  # fmt: skip
        fits = {(f.row.name, f.name): f for f in (*default, *chosen, *there)}
        return View(experiment, sorted(fits.values(), key=lambda f: order[f.row.name]), store)

    ours = view(o.protocol)
    twins = view("paper" if o.protocol == "ours" else "ours")
    twins.fits = [f for f in twins.fits if f.row.model.get("dynamics") == "identity"]
    default = _plan(experiment, o, o.protocol)
    command = _command(o, [f for f in ours.fits if ours.state(f) != "missing"], default)
    about = {"scale": o.scale, "protocol": o.protocol, "command": command}
    return render(ours, folder, about, twins)


def _plan(
    experiment: Experiment,
    o: argparse.Namespace,
    protocol: str,
    only: Sequence[str] = (),
    datasets: Sequence[int] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Fit]:
    """The fits of a scale and protocol, by default all rows with the usual repeats."""
    return plan(
        experiment,
        scale=o.scale,
        protocol=protocol,
        only=only,
        datasets=datasets,
        seeds=seeds,
        threads=o.threads,
        data_dir=None if o.data_dir is None else Path(o.data_dir),
    )


def _list() -> int:
    for e in EXPERIMENTS.values():
        counts = "  ".join(f"{scale} {count(e, scale):>4}" for scale in SCALES)
        print(f"{e.name:<16} {e.title}  [{e.source}]\n{'':<16} fits: {counts}")
    return 0


def count(e: Experiment, scale: str) -> int:
    """Fits of an experiment with the default repeats, without looking at any data."""
    fits: dict[str, int] = {}
    for row in e.rows(scale):
        key = json.dumps(
            [
                row.data,
                row.model,
                row.control,
                row.post_hoc,
                row.fresh,
                scale == "standard" and row.sized,
            ],
            sort_keys=True,
        )
        datasets, seeds = row.repeats(scale)
        fits[key] = datasets * seeds
    return sum(fits.values())


def _dry_run(fits: list[Fit], todo: list[Fit], store: Store, jobs: int) -> int:
    seconds = expected(fits, store)
    for fit in reversed({f.name: f for f in reversed(fits)}.values()):
        took = f"{span(seconds[fit.name])} last time" if fit.name in seconds else "never run"
        print(f"{fit.name[:10]}  {store.state(fit.name):<8} {fit.label} ({took})")
    known = [seconds[f.name] for f in todo if f.name in seconds]
    about = (
        f"about {span(sum(known) / jobs)} for {len(known)} of them" if known else "time not known"
    )
    print(_to_run(fits, todo) + (f": {about}, {jobs} at a time" if todo else ""))
    return 0


def _to_run(fits: list[Fit], todo: list[Fit]) -> str:
    return f"{len({f.name for f in fits})} fits, {len(todo)} to run"


def _status(out: Path) -> int:
    store = Store(out)
    if not store.runs.is_dir():
        raise InputError(f"--status: {out} holds no results; wanted a folder that --out named")
    found = list(store.records())
    states = Counter(r["state"] for r in found)
    seconds = sum(r["seconds"] for r in found)
    print(
        f"{out}: {states['done']} fits done, {states['failed']} failed, {span(seconds)} of fitting"
    )
    # The number of threads is part of a name: a table is of one number, and so is a line here.
    known: dict[int, dict[str, str]] = {}  # threads: name with one thread: state
    for r in found:
        alike = known.setdefault(r["config"]["threads"], {})
        alike[name(r["config"] | {"threads": 1})] = r["state"]
    one_thread = {n for alike in known.values() for n in alike}
    datasets, seeds = store.repeats()
    for e in EXPERIMENTS.values():
        if e.needs_data:  # its names depend on files that are not here
            continue
        for scale, protocol in itertools.product(SCALES, TRAINING):
            names = {f.name for f in plan(e, scale=scale, protocol=protocol)}
            also = plan(e, scale=scale, protocol=protocol, datasets=datasets, seeds=seeds)
            names |= {f.name for f in also if f.name in one_thread}
            for threads, alike in sorted(known.items()):
                _status_line(f"{e.name:<16} {scale:<8} {protocol:<6}", names, threads, alike)
    for record in found:
        if record["state"] == "failed":
            what = f"{record['name'][:10]}  {record.get('label', '')}"
            print(f"failed  {what}: {record['error'].partition(chr(10))[0]}")
    for damaged in store.names():
        if why := store.damage(damaged):
            print(f"damaged {damaged}.json: {why}; it is run again when it is needed")
    return 0


def _status_line(what: str, names: set[str], threads: int, known: dict[str, str]) -> None:
    states = Counter(known.get(n, "missing") for n in names)
    if states["missing"] < len(names):
        with_threads = "" if threads == 1 else f", {threads} threads per fit"
        print(
            f"  {what} {states['done']} done, {states['failed']} failed, {states['missing']} "
            f"missing of {len(names)}{with_threads}"
        )


def _command(o: argparse.Namespace, there: Sequence[Fit], default: Sequence[Fit]) -> str:
    """What makes the results that are there, as far as one command can say it."""
    words = ["dynacl", "reproduce", o.experiment, "--scale", o.scale, "--protocol", o.protocol]
    if o.only and all(any(fnmatchcase(f.row.name, p) for p in o.only) for f in there):
        words += [w for pattern in o.only for w in ("--only", pattern)]
    for option in ("dataset", "seed"):
        found, usual = (sorted({getattr(fit, option) for fit in fits}) for fits in (there, default))
        if there and found != usual:
            words += [f"--{option}s", *map(str, found)]
    if o.threads != 1:
        words += ["--threads", str(o.threads)]
    return shlex.join(words) + (" --data-dir …" if EXPERIMENTS[o.experiment].needs_data else "")
