"""Chaotic flows, each recovered from 50 channels by the default, beside floor and ceiling.

python -m benchmarks.flows                            the reported names, into docs/flows.md
python -m benchmarks.flows --names Halvorsen,Dadras   some of them
python -m benchmarks.flows --letters A-M              the names to tune on
python -m benchmarks.flows --report                   no fit: the page from what there is
python -m benchmarks.flows --picture                  the first three reported names, side by side

Rows are kept beside this file, one line per fit. A fit that has a row of the present recipe is not
run again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.flows import pictures
from benchmarks.flows.judging import MODELS, bounds, judge
from benchmarks.flows.summary import page
from benchmarks.flows.systems import REGIMES, Attractor, names, reported
from benchmarks.zoo import keeping

ROWS = Path(__file__).with_name("rows.jsonl")
PAGE = Path(__file__).parents[2] / "docs" / "flows.md"
BOUNDS = "bounds"


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    chosen = options.names.split(",") if options.names else None
    if options.letters:
        chosen = names(*options.letters.split("-"))
    if options.picture:
        pictures.draw(chosen or reported()[:3])
        return
    if not options.report:
        run(chosen or reported(), options.regimes.split(","), options.models.split(","))
    if chosen is None:
        PAGE.write_text(page(read(), reported(), keeping.recipe()))
        print(PAGE)


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        "python -m benchmarks.flows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--names", help="such as Halvorsen,Dadras")
    found.add_argument("--letters", help="all names from one letter to another, such as A-M")
    found.add_argument("--regimes", default=",".join(REGIMES), help="quiet, noisy or both")
    found.add_argument("--models", default=",".join(MODELS), help="some of them, such as mlp")
    found.add_argument("--threads", type=int, default=1)
    found.add_argument("--report", action="store_true", help="only write the page again")
    found.add_argument("--picture", action="store_true", help="docs/attractors.png, and no rows")
    return found


def run(chosen: list[str], regimes: list[str], models: list[str]) -> None:
    recipe = keeping.recipe()
    done = {_key(row): row for row in read() if row["recipe"] == recipe}
    for name in chosen:
        for regime in regimes:
            for model in (BOUNDS, *models):
                key = (name, regime, model)
                known = done.get((name, regime, BOUNDS))
                if key in done or (known is not None and known["leaves"]):
                    continue
                attractor = Attractor(name)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = (bounds(attractor, REGIMES[regime]) if model == BOUNDS
                             else judge(attractor, REGIMES[regime], model))  # fmt: skip
                row = {"name": name, "regime": regime, "model": model, "recipe": recipe} | found
                done[key] = row
                ROWS.parent.mkdir(parents=True, exist_ok=True)
                with ROWS.open("a") as end:
                    end.write(json.dumps(row) + "\n")
                print(row, flush=True)


def read() -> list[dict[str, Any]]:
    """The last row of each fit."""
    lines = ROWS.read_text().splitlines() if ROWS.exists() else []
    return list({_key(row): row for row in map(json.loads, lines)}.values())


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["name"], row["regime"], row["model"]


if __name__ == "__main__":
    main()
