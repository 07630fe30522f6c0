"""Many modes: SLDS with K true modes, fitted with the right K, with too many and with too few.

Fits and their figures are kept in results/modes, so a run that is started again goes on where it
stopped. The table goes into docs/many_modes.md, the rows into benchmarks/results.json.

python -m benchmarks modes                          all of it (hours on one core)
python -m benchmarks.modes --true 5 --seeds 0       only this
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dynacl import DCL, TimeSeries, decoding, evaluate, metrics, simulate
from dynacl.dynamics import SwitchingLinear
from dynacl.writing import write

FOLDER = Path("results/modes")
PAGE = Path("docs/many_modes.md")
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"
D, TRIALS, STEPS = 6, 200, 1000
# (true modes, modes of the model)
CASES = [(K, K) for K in (2, 5, 10, 20, 40, 60)]
CASES += [(K, K + more) for K in (5, 20) for more in (3, -1)]
SEEDS = (0, 1, 2)


def simulated(true: int, seed: int) -> TimeSeries:
    rng = np.random.default_rng(seed)
    return simulate.slds(rng=rng, d=D, modes=true, trials=TRIALS, steps=STEPS)


def fitted(true: int, given: int, seed: int, data: TimeSeries) -> tuple[DCL, float]:
    """The model and the seconds of its fit, from the folder if it is there."""
    folder = FOLDER / f"true{true}_given{given}_seed{seed}"
    clock = folder / "seconds.json"
    if clock.exists():
        return DCL.load(folder).settle(data), json.loads(clock.read_text())
    started = time.perf_counter()
    model = DCL(D, "switching", given, random_state=seed).fit(data)
    seconds = time.perf_counter() - started
    model.save(folder)
    write(clock, json.dumps(seconds).encode())  # last: what has no clock is fitted again
    return model, seconds


def run(true: int, given: int, seed: int) -> dict[str, Any]:
    data = simulated(true, seed)
    model, seconds = fitted(true, given, seed, data)
    found, t = evaluate(model, data), data.steps(1)
    told = data.truth.modes[t]
    matrices = torch.from_numpy(data.truth.system["matrices"])
    x = np.concatenate(model.transform(data))
    steps, decoded = accuracy(matrices, data.truth.latents, data)
    return {
        "what": f"{true} modes, {given} given, seed {seed}",
        "true": true,
        "given": given,
        "seed": seed,
        "seconds": seconds,
        "r2": found["r2"],
        "decoded": found["mode_accuracy_sequence"],
        "steps": found["mode_accuracy"],
        "truth_decoded": decoded,
        "truth_steps": steps,
        "latents_steps": accuracy(least_squares(x, told, t, true), x, data)[0],
        "named": float(np.sort(np.bincount(told))[-given:].sum() / len(told)),
        "usage": model.mode_usage_.tolist(),
        "unused": model.unused_modes_,
        "alike": model.alike_modes_,
    }


def accuracy(matrices: torch.Tensor, x: np.ndarray, data: TimeSeries) -> tuple[float, float]:
    """Mode accuracy of these maps on these latents: step by step, and decoded."""
    t, states = data.steps(1), torch.from_numpy(x).double()
    f = SwitchingLinear(D, len(matrices)).double()
    f.matrices.data = matrices.double()
    errors = np.concatenate(
        [f.errors(states[rows], states[rows + 1]).numpy() for rows in np.array_split(t, 50)]
    )
    starts = np.flatnonzero(np.diff(t, prepend=-2) != 1)
    decoded = decoding.decode(errors, np.append(starts, len(t)), D)
    told = data.truth.modes[t]
    return metrics.mode_accuracy(told, errors.argmin(1)), metrics.mode_accuracy(told, decoded)


def least_squares(x: np.ndarray, told: np.ndarray, t: np.ndarray, K: int) -> torch.Tensor:
    """The best map of each true mode on the latents that were found."""
    maps = [np.linalg.lstsq(x[t[told == k]], x[t[told == k] + 1])[0].T for k in range(K)]
    return torch.from_numpy(np.stack(maps))


def measure(
    cases: Iterable[tuple[int, int]] = CASES, seeds: Iterable[int] = SEEDS
) -> list[dict[str, Any]]:
    rows, cases = [], list(cases)
    for seed in seeds:
        for true, given in cases:
            kept = FOLDER / f"true{true}_given{given}_seed{seed}.json"
            if not kept.exists():
                row = run(true, given, seed)
                write(kept, (json.dumps(row, indent=1) + "\n").encode())
            rows.append(json.loads(kept.read_text()))
            show(rows[-1])
    write_page(rows)
    return rows


def show(row: dict[str, Any]) -> None:
    print(f"{row['what']:<32} {row['seconds']:6.0f} s  R² {row['r2']:.4f}  decoded "
          f"{row['decoded']:.4f}  steps {row['steps']:.4f} (truth {row['truth_steps']:.4f})  "
          f"unused {row['unused']}  alike {row['alike']}", flush=True)  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| K true | K given | seed | R² | decoded | steps | true modes told | the truth | unused | "
        "alike | most that can be named | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda r: (r["true"] != r["given"], r["true"], -r["given"])):
        lines.append(
            f"| {row['true']} | {row['given']} | {row['seed']} | {row['r2']:.4f} | "
            f"{row['decoded']:.4f} | {row['steps']:.4f} | {row['latents_steps']:.4f} | "
            f"{row['truth_steps']:.4f} | {len(row['unused'])} | {len(row['alike'])} | "
            f"{row['named']:.3f} | {row['seconds']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def write_page(rows: Sequence[dict[str, Any]]) -> None:
    """Put the table into its page, between the marks; what is written around it stays."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + "\n" + table(rows) + "\n" + END + after)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--true", type=int, nargs="+", help="only these numbers of true modes")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options = parser.parse_args()
    from benchmarks.__main__ import store

    cases = [case for case in CASES if options.true is None or case[0] in options.true]
    store("modes", measure(cases, options.seeds))


if __name__ == "__main__":
    main()
