"""What it cost: fits and their time, ours beside the paper's. It fits nothing itself."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from dynacl.experiments.plan import SCALES, TRAINING, Experiment, name, plan


def summary(store: Any) -> tuple[str, list[dict[str, Any]]]:
    """Of each experiment: fits in the paper, in our full grid, done here, and their time.

    Time is that of cores: seconds of a fit times its threads, so that runs with different numbers
    of threads add up.
    """
    from dynacl.experiments.catalogue import EXPERIMENTS

    paper = json.loads((files("dynacl.experiments") / "paper" / "compute.json").read_text())
    done: dict[str, list[tuple[int, float]]] = {}  # name with one thread: (threads, seconds)
    for r in store.records():
        if r["state"] == "done":
            alike = done.setdefault(name(r["config"] | {"threads": 1}), [])
            alike.append((r["config"]["threads"], r["seconds"]))
    datasets, seeds = store.repeats()
    lines = []
    for experiment in EXPERIMENTS.values():
        # The names of fits of recordings depend on files.
        if experiment.needs_data or experiment is EXPERIMENT:
            continue
        full = {f.name for f in plan(experiment, scale="paper")}
        names = {f.name for scale in SCALES if scale != "smoke" for protocol in TRAINING
                 for f in plan(experiment, scale=scale, protocol=protocol, datasets=datasets,
                               seeds=seeds)}  # fmt: skip
        runs = [run for n in names for run in done.get(n, ())]
        seconds = [threads * seconds for threads, seconds in runs]
        lines.append({
            "experiment": experiment.name,
            "paper_fits": paper["fits"].get(experiment.name),
            "our_fits": len(full),
            "done": len(runs),
            "threads": sorted({threads for threads, _ in runs}),
            "mean_core_seconds": sum(seconds) / len(seconds) if seconds else None,
            "core_hours": sum(seconds) / 3600,
        })  # fmt: skip
    columns = ("", "fits in the paper", "in our full grid", "done here", "threads of a fit",
               "mean [core s]", "total [core h]")  # fmt: skip
    head = f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"
    body = [
        f"| {e['experiment']} | {e['paper_fits'] or '–'} | {e['our_fits']} | {e['done']} "
        f"| {', '.join(map(str, e['threads'])) or '–'} "
        f"| {'–' if e['mean_core_seconds'] is None else round(e['mean_core_seconds'])} "
        f"| {e['core_hours']:.2f} |"
        for e in lines
    ]
    every = [threads * seconds for runs in done.values() for threads, seconds in runs]
    if every:
        body.append(f"| all, each fit once | {sum(paper['fits'].values()):,} | – | {len(every)} "
                    f"| – | {sum(every) / len(every):.0f} | {sum(every) / 3600:.2f} |")  # fmt: skip
    low, high = paper["minutes_per_training"]
    tail = (
        f"The paper: {sum(paper['fits'].values()):,} fits in {paper['gpu_days']} GPU days, {low}–"
        f"{high} minutes per training. It counts `lorenz` and `lorenz_modes` together: "
        f"{paper['fits']['lorenz + lorenz_modes']}. Experiments share fits: the same configuration "
        "is fitted once. Here: quick and paper scale, both protocols; without smoke and `allen`. "
        "Core seconds are the seconds of a fit times its threads."
    )
    return "\n".join([head, *body]) + "\n\n" + tail, lines


EXPERIMENT = Experiment(
    name="compute",
    title="Number of fits and their cost",
    source="app:compute_breakdown",
    rows=lambda scale: [],
    summary=summary,
)
