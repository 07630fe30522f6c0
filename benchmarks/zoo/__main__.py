"""The zoo: 60 systems drawn from a seed, fitted by default, beside what their encoder can do.

python -m benchmarks.zoo                              seed 0, which is reported, into docs/zoo.md
python -m benchmarks.zoo --seed 1000                  a seed to tune on, into runs/zoo
python -m benchmarks.zoo --tasks 0-19                 some of them; the others stay as they were
python -m benchmarks.zoo --report                     no fit: the page from what there is
python -m benchmarks.zoo --scale quick --tasks 0-7    few samples: a try of it all in a minute

Rows are kept in runs/zoo, one line per task, those of seed 0 beside this file. A task that has a
row of the present recipe is not run again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.zoo import keeping, tasks
from benchmarks.zoo.judging import judge
from benchmarks.zoo.keeping import REPORTED
from benchmarks.zoo.summary import APART, gap, page, shares

PAGE = Path(__file__).parents[2] / "docs" / "zoo.md"


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    if not options.report:
        run(options.seed, options.tasks, options.scale)
    print(report(options.seed, options.scale))


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        "python -m benchmarks.zoo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--seed", type=int, default=REPORTED, help="tune on 1000 and above")
    found.add_argument("--tasks", type=chosen, default=list(range(tasks.N_TASKS)),
                       help="such as 0-19 or 3,7,9", metavar="0-19")  # fmt: skip
    found.add_argument("--threads", type=int, default=1)
    found.add_argument("--scale", choices=tuple(tasks.SAMPLES), default="full")
    found.add_argument("--report", action="store_true", help="only write the page again")
    return found


def chosen(text: str) -> list[int]:
    """Task numbers from text: 0-19, or 3,7,9, in this order."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        try:
            found += range(int(first), int(last or first) + 1)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"got {text!r}; wanted 0-19 or 3,7,9") from error
    if not found or not all(0 <= i < tasks.N_TASKS for i in found):
        raise argparse.ArgumentTypeError(f"got {text!r}; wanted 0 to {tasks.N_TASKS - 1}")
    return found


def run(seed: int, indices: list[int], scale: str = "full") -> None:
    """Those that have no row of the present recipe yet."""
    recipes = present()
    done = {r["index"] for r in keeping.read(seed, scale) if r["recipe"] == recipes[r["kind"]]}
    left = [index for index in indices if index not in done]
    started = time.perf_counter()
    for n, index in enumerate(left):
        task = tasks.draw(seed, index, scale)
        print(f"{n + 1}/{len(left)}  task {index}: {task.words()}", flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = judge(task)
        row = {"index": index, "kind": task.kind, "group": task.group, "words": task.words(),
               "recipe": recipes[task.kind]} | found  # fmt: skip
        keeping.add(row, seed, scale)
        spent = time.perf_counter() - started
        minutes = spent / (n + 1) * (len(left) - n - 1) / 60
        print(f"      R² {row['r2']:.4f} of {row['ceiling']:.4f}, start {row['start']:.4f}, "
              f"{gap(row):.4f} below ({row['group']}), {row['seconds']:.0f} + "
              f"{row['ceiling_seconds']:.0f} s; {minutes:.0f} min left",
              flush=True)  # fmt: skip


def present() -> dict[str, str]:
    """The recipe of each kind of task: of the code that a fit of it passes through."""
    return {kind: keeping.recipe(dynamics) for kind, dynamics in tasks.DYNAMICS.items()}


def measure() -> list[dict[str, Any]]:
    """The seed that is reported, on one thread: a row for each group, and the page."""
    torch.set_num_threads(1)
    run(REPORTED, list(range(tasks.N_TASKS)))
    report(REPORTED)
    rows = keeping.newest(keeping.read(REPORTED, "full"))
    return [
        {"what": f"zoo, seed {REPORTED}, {group}", "tasks": len(part)} | shares(part)
        for group in ("goal", *APART)
        if (part := [row for row in rows if row["group"] == group])
    ]


def report(seed: int, scale: str = "full") -> str:
    """The page, written to docs where the seed is the one that is reported."""
    rows = keeping.newest(keeping.read(seed, scale))
    flags = "" if seed == REPORTED else f" --seed {seed}"
    flags += "" if scale == "full" else f" --scale {scale}"
    text = page(rows, f"python -m benchmarks.zoo{flags}", present(), keeping.reasons(seed))
    out = PAGE if seed == REPORTED and scale == "full" else keeping.path(seed, scale, "md")
    out.write_text(text)
    return f"{text}\n{out}"


if __name__ == "__main__":
    main()
