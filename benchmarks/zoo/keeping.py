"""Rows of tasks in files, and the recipe that they belong to."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dynacl

RUNS = Path(__file__).parents[2] / "runs" / "zoo"
REPORTED = 0  # the seed that nothing is tuned on …
KEPT = Path(__file__).parent  # … whose rows are kept with the code
WHY = Path(__file__).with_name("why.json")  # seed: {task: why it stays below its ceiling}
# What a fit does not pass through.
OUTSIDE = (
    "baselines", "behaviour", "choosing", "cli", "configuration", "data/formats", "data/frames",
    "data/gathering", "data/labels", "data/missing", "data/roles", "decoding", "demo", "duration",
    "evaluation", "experiments", "flows", "forecasting", "inspection", "intervals", "keeping",
    "persistence", "plots", "portrait", "progress", "ranking", "report", "scoring", "sealing",
    "segmentation", "signs", "spectrum", "surrogates", "without_truth", "writing",
)  # fmt: skip


# What a fit of linear or switching dynamics does not pass through, either.
LINEAR = ("linear", "switching")
BENT = (
    "dynamics/flow", "dynamics/gated", "dynamics/identity", "dynamics/mlp", "dynamics/monomials",
    "dynamics/oracle", "dynamics/polynomial", "dynamics/recurrent", "dynamics/tiles",
    "dynamics/whitened", "encoders/redrawing", "local_noise", "objective/evenness",
    "straightening",
)  # fmt: skip
# The number of a release is no recipe: it counts as it was when the first rows were measured.
VERSION = '__version__ = "0.1.0"\n'


def recipe(dynamics: str | None = None) -> str:
    """A fingerprint of the code that a fit passes through; words in it do not count.

    dynamics: the name of those that are fitted; None: any.
    """
    source = Path(dynacl.__file__).parent
    outside = OUTSIDE + (BENT if dynamics in LINEAR else ())
    code = hashlib.sha256()
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source)
        if not any(name.with_suffix("").is_relative_to(part) for part in outside):
            text = VERSION if path.name == "_version.py" else path.read_text()
            code.update(f"{name} {_without_words(text)}".encode())
    return code.hexdigest()[:8]


def _without_words(text: str) -> str:
    return ast.dump(_Deeds().visit(ast.parse(text)))


class _Deeds(ast.NodeTransformer):
    """Code without what it says: docstrings, sentences, warnings, errors and lines of progress."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        value = node.value
        says = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
        says = says and value.func.attr in ("warn", "say")  # type: ignore[attr-defined]
        text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        return None if says or text else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return node if node.body or node.orelse else None

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        sentence = isinstance(node.value, str) and " " in node.value
        return ast.Constant("") if sentence else node


def path(seed: int, scale: str, ending: str = "jsonl") -> Path:
    folder = KEPT if (seed, scale) == (REPORTED, "full") else RUNS
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{scale}-{seed}.{ending}"


def add(row: dict[str, Any], seed: int, scale: str) -> None:
    """A line at the end, its own also where the last one was cut off."""
    file = path(seed, scale)
    cut_off = file.exists() and not file.read_text().endswith("\n")
    with file.open("a") as end:
        end.write("\n" * cut_off + json.dumps(row) + "\n")


def read(seed: int, scale: str) -> list[dict[str, Any]]:
    """All rows, oldest first. A line that was cut off is left out."""
    found = []
    if path(seed, scale).exists():
        for line in path(seed, scale).read_text().splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def newest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last row of each task, by task."""
    last = {row["index"]: row for row in rows}
    return [last[index] for index in sorted(last)]


def reasons(seed: int) -> dict[str, str]:
    """Why tasks of this seed stay below their ceilings, as far as it was looked into."""
    found: dict[str, str] = json.loads(WHY.read_text()).get(str(seed), {}) if WHY.exists() else {}
    return found
