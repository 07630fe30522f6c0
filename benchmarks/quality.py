"""Time to quality: default settings of DCL on data of the paper's size, seeds 0, 1, 2.

Wall-clock of `fit` from call to return, and processor time, which other work on the machine changes
less. Metrics on the training data, as in the paper, and on fresh
trials beside it. `--curve` follows R² over the seconds for three ways to train.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.step import begun, plain_step
from dynacl import DCL, TimeSeries, equations, evaluate, metrics, simulate
from dynacl.settings import PROTOCOLS

CURVES = Path(__file__).with_name("curves.json")
COLORS = ("#d95f02", "#1b9e77", "#999999")
# name: (simulator, DCL arguments, targets)
CASES: dict[str, tuple[Any, dict[str, Any], dict[str, tuple[str, float]]]] = {
    "slds": (
        simulate.slds,
        {"n_components": 6, "dynamics": "switching", "n_modes": 5},
        {
            "seconds": ("<=", 180),
            "r2": (">=", 0.995),
            "mode_accuracy": (">=", 0.99),  # each step alone, as in the paper
            "mode_accuracy_sequence": (">=", 0.99),  # what DCL.modes gives
            "dyn_r2_1": (">=", 0.999),
            "dyn_r2_10": (">=", 0.955),
        },
    ),
    "slds40": (
        partial(simulate.slds, modes=40, trials=200, steps=1000, d=6),
        {"n_components": 6, "dynamics": "switching", "n_modes": 40},
        {"mode_accuracy_sequence": (">=", 0.95)},
    ),
    "lds": (
        simulate.lds,
        {"n_components": 3, "dynamics": "linear"},
        {"seconds": ("<=", 60), "r2": (">=", 0.990), "lds_error": ("<=", 0.0077)},
    ),
    "lorenz": (
        simulate.lorenz,
        {"n_components": 3, "dynamics": "tiles", "n_modes": 200},
        {"seconds": ("<=", 300)},
    ),
    "lorenz_polynomial": (
        simulate.lorenz,
        {"n_components": 3, "dynamics": "polynomial"},
        {
            "seconds": ("<=", 300),
            "r2": (">=", 0.97),
            "dyn_r2_10": (">=", 0.90),
            "dyn_r2_10_gain": (">=", 0.3),  # above its control
        },
    ),
}


def run(case: str, seed: int) -> dict[str, Any]:
    simulator, arguments, _ = CASES[case]
    data = simulator(rng=np.random.default_rng(seed))
    model = DCL(**arguments, random_state=seed)
    started, worked = time.perf_counter(), time.process_time()
    model.fit(data.observations if data.n_trials == 1 else data.split(data.observations))
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    return {"processor_seconds": processor} | judged(case, seed, model, data, seconds)


def judged(case: str, seed: int, model: DCL, data: TimeSeries, seconds: float) -> dict[str, Any]:
    """What a fit of so many seconds has on its data and on fresh trials, and what it passes."""
    _, arguments, targets = CASES[case]
    fresh = simulate.again(
        data, rng=np.random.default_rng(seed + 500), steps=min(len(data) // data.n_trials, 100_000)
    )
    row = {"what": f"{case}, seed {seed}", "seconds": seconds} | evaluate(model, data)
    row["dyn_r2_10_gain"] = row["dyn_r2_10"] - row["dyn_r2_10_control"]
    row["fresh"] = evaluate(model, fresh)
    if arguments["dynamics"] == "polynomial":
        flow = equations(model, data)
        row["equations"] = {"found": flow["recovered_text"], "true": flow["true_text"]}
    passed = {
        name: row[name] <= limit if sign == "<=" else row[name] >= limit
        for name, (sign, limit) in targets.items()
    }
    return row | {"passed": passed, "steps": model.n_iter_}


def measure(cases: list[str], seeds: list[int]) -> list[dict[str, Any]]:
    rows = []
    for case in cases:
        for seed in seeds:
            rows.append(run(case, seed))
            show(rows[-1])
    return rows


def show(row: dict[str, Any]) -> None:
    names = ("r2", "mode_accuracy", "mode_accuracy_sequence", "lds_error", "dyn_r2_1",
             "dyn_r2_1_control", "dyn_r2_10", "dyn_r2_10_control")  # fmt: skip
    numbers = "  ".join(
        f"{name} {row[name]:.4f} (fresh {row['fresh'][name]:.4f})"
        for name in names
        if row[name] is not None
    )
    failed = [name for name, ok in row["passed"].items() if not ok]
    verdict = "passes" if not failed else f"MISSES {', '.join(failed)}"
    print(f"{row['what']:<16} {row['seconds']:6.1f} s  {numbers}  {verdict}", flush=True)
    for side, lines in row.get("equations", {}).items():
        print(f"  {side:<6}" + "\n        ".join(lines), flush=True)


def curve(case: str, seed: int, seconds: float) -> dict[str, list[tuple[float, float]]]:
    """R² on 100k rows against seconds of training: our default, the paper's protocol on our
    kernel, and the plain eager step."""
    simulator, arguments, _ = CASES[case]
    data = simulator(rng=np.random.default_rng(seed))
    part = data.select(range(100)) if data.n_trials > 100 else data
    paper = next(name for name in PROTOCOLS if case.startswith(name.removeprefix("paper-")))

    def judge(encoder: torch.nn.Module) -> float:
        with torch.inference_mode():
            x = encoder(torch.from_numpy(part.observations[:100_000])).numpy()
        return metrics.r2(part.truth.latents[:100_000], x)

    curves: dict[str, list[tuple[float, float]]] = {}
    # The paper's rates are constant, so fewer steps change only how often the callback is called.
    often = {"protocol": paper, "max_iter": 2000}
    for name, changed in (("ours", {}), ("paper protocol, our kernel", often)):
        model = DCL(**arguments, **changed, random_state=seed)
        points = [(0.0, judge(begun(model, data).encoder))]
        judging = 0.0

        def watch(run: Any, record: dict[str, float], points: Any = points) -> bool:
            nonlocal judging
            started = time.perf_counter()
            points.append((record["seconds"] - judging, judge(run.encoder)))
            judging += time.perf_counter() - started
            return record["seconds"] - judging > seconds

        model.fit(data, callback=watch)
        curves[name] = points
    curves["plain eager step"] = plain_curve(data, arguments, paper, judge, seconds)
    return curves


def plain_curve(
    data: TimeSeries, arguments: dict[str, Any], protocol: str, judge: Any, seconds: float
) -> list[tuple[float, float]]:
    model = DCL(**arguments, protocol=protocol, random_state=0)
    run = begun(model, data)
    y = torch.from_numpy(data.observations)
    s = run.settings
    adam = torch.optim.Adam(
        [
            {"params": run.encoder.parameters(), "lr": s.learning_rate},
            {"params": list(run.dynamics.parameters()), "lr": s.dynamics_learning_rate},
        ]
    )
    points, spent = [(0.0, judge(run.encoder))], 0.0
    while spent < seconds:
        started = time.perf_counter()
        plain_step(run.encoder, run.dynamics, adam, y)
        spent += time.perf_counter() - started
        points.append((spent, judge(run.encoder)))
    return points


def measure_curves(
    cases: Sequence[str] = ("slds", "lds"), seed: int = 0, seconds: float = 150
) -> list[dict[str, Any]]:
    """Each way to train for so many seconds, or to the case's target; draws docs/curves.png."""
    found = {}
    for case in cases:
        _, limit = CASES[case][2].get("seconds", ("<=", seconds))
        found[case] = curve(case, seed, min(seconds, limit))
        CURVES.write_text(json.dumps(found) + "\n")
    draw_curves(found)
    return [
        {"what": f"{case}, {name}", "seconds": points[-1][0], "r2": points[-1][1]}
        for case, curves in found.items()
        for name, points in curves.items()
    ]


def draw_curves(found: dict[str, Any], out: str = "docs/curves.png") -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(found), 3.6), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for panel, (case, curves) in zip(panels, found.items(), strict=True):
        for (name, points), color in zip(curves.items(), COLORS, strict=True):
            seconds, r2 = zip(*points, strict=True)
            panel.plot(seconds, np.maximum(r2, 0), color=color, label=name)
        panel.set(title=case.upper(), xlabel="seconds of training", ylim=(0, 1.02))
    panels[0].set_ylabel("R²")
    panels[0].legend(frameon=False)
    figure.savefig(out, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--curve", type=float, metavar="SECONDS", help="of each way to train, to the case's target"
    )
    options = parser.parse_args()
    from benchmarks.__main__ import store, table

    if options.curve:
        rows = measure_curves(options.cases, options.seeds[0], options.curve)
        store("curves", rows)
        table(rows)
        return
    for case in options.cases:
        store("quality", measure([case], options.seeds))


if __name__ == "__main__":
    main()
