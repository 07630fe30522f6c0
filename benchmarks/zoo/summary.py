"""From rows of tasks to the page: how far fits stay below their ceilings."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.zoo.tasks import KINDS, N_TASKS

Row = Mapping[str, Any]
GOALS = {0.01: 0.80, 0.05: 0.95}  # share of tasks that may be no further below their ceiling
ROUNDING = 1e-6  # of R²
APART = ("wrong d or K", "observation noise", "one quiet rotation")
WORST = 5


def gap(row: Row) -> float:
    """By how much a fit stays below its ceiling; 0 where it is above."""
    return max(0.0, float(row["ceiling"]) - float(row["r2"]))


def shares(rows: Sequence[Row]) -> dict[str, float]:
    """The distribution of the gaps."""
    gaps = [gap(row) for row in rows]
    if not gaps:
        return {}
    return {
        "median": statistics.median(gaps),
        "p90": float(np.quantile(gaps, 0.9)),
        **{f"within {limit:g}": float(np.mean([g <= limit for g in gaps])) for limit in GOALS},
    }


def below_start(rows: Sequence[Row]) -> list[Row]:
    """Fits that ended below their own linear start."""
    return [row for row in rows if row["r2"] < row["start"] - ROUNDING]


def judged_wrongly(rows: Sequence[Row]) -> list[Row]:
    """Where the judge's figure prefers the one of start and last step that has the lower R²."""
    return [
        row
        for row in rows
        if row["figures"]
        and row["floor_figure"] is not None
        and (row["floor_figure"] < row["figures"][-1][1]) != (row["start"] > row["trained"])
    ]


def page(
    rows: Sequence[Row], command: str, recipes: Mapping[str, str], why: Mapping[str, str]
) -> str:
    """All of it, as Markdown. recipes: the present one of each kind."""
    goal = [row for row in rows if row["group"] == "goal"]
    older = sum(row["recipe"] != recipes[row["kind"]] for row in rows)
    told = ", ".join(f"{kind} `{recipe}`" for kind, recipe in recipes.items())
    lines = [
        "# The zoo", "",
        f"    {command}", "",
        "Systems drawn at random, fitted with default settings: linear, switching and driven "
        "systems and quadratic flows, with d from 2 to 8. The ceiling is the same encoder, trained "
        "as long on the true latents. Both are judged by R² on fresh trials, and so is the linear "
        "start. `benchmarks/zoo/tasks.py` says what is drawn and from what ranges.", "",
        f"{len(rows)} of {N_TASKS} tasks"
        + (f"; {older} rows, marked †, are of an older recipe" if older else "")
        + f". Present recipes: {told}.", "",
        "## Ceiling − R²", "",
        "| | tasks | median | 90th percentile | within 0.01 | within 0.05 |",
        "|---|---|---|---|---|---|",
        _shares_line("**goal group**", goal),
        *(_shares_line(f"– {kind}", [r for r in goal if r["kind"] == kind]) for kind in KINDS),
        *(_shares_line(group, [r for r in rows if r["group"] == group]) for group in APART),
        "",
        _verdict(goal), "",
        *_floor_lines(rows), "",
        f"## The worst {WORST} of the goal group", "",
    ]  # fmt: skip
    for row in sorted(goal, key=gap, reverse=True)[:WORST]:
        reason = why.get(str(row["index"]), "Not looked into yet.")
        lines += [f"- Task {row['index']}, {gap(row):.3f} below: {row['words']}. {reason}"]
    for title, group in (("The goal group", "goal"), *((g[0].upper() + g[1:], g) for g in APART)):
        lines += ["", f"## {title}", "", *_table([r for r in rows if r["group"] == group], recipes)]
    return "\n".join(map(_wrapped, lines)) + "\n"


def _wrapped(line: str) -> str:
    """Words at 100 columns; tables, titles and the command as they are."""
    if line.startswith(("|", "#", " ")):
        return line
    return textwrap.fill(line, 100, subsequent_indent="  " if line.startswith("- ") else "")


def _shares_line(name: str, rows: Sequence[Row]) -> str:
    if not rows:
        return f"| {name} | 0 | – | – | – | – |"
    s = shares(rows)
    within = " | ".join(f"{s[f'within {limit:g}']:.0%}" for limit in GOALS)
    return f"| {name} | {len(rows)} | {s['median']:.4f} | {s['p90']:.4f} | {within} |"


def _verdict(goal: Sequence[Row]) -> str:
    s = shares(goal)
    if not s:
        return "No task of the goal group was run."
    met = {limit: s[f"within {limit:g}"] >= share for limit, share in GOALS.items()}
    parts = [
        f"{share:.0%} within {limit:g} ({'met' if met[limit] else 'missed'})"
        for limit, share in GOALS.items()
    ]
    return f"The goal is {' and '.join(parts)}."


def _floor_lines(rows: Sequence[Row]) -> list[str]:
    lower, wrong = below_start(rows), judged_wrongly(rows)
    judged = [row for row in rows if row["figures"] and row["floor_figure"] is not None]
    started = [row for row in rows if row["handed_out"] == "the start"]
    lost = [max(row["start"], row["trained"]) - row["r2"] for row in judged]
    told = [f"{row['index']} ({row['start'] - row['r2']:.4f})" for row in lower]
    worst = f" It cost at most {max(lost):.3f} of R²." if lost else ""
    return [
        f"Below their own linear start: {'tasks ' + ', '.join(told) if told else 'none'}.", "",
        f"The judge compared the start with the last step {len(judged)} times. It preferred the one"
        f" with the lower R² {len(wrong)} times"
        + (f" (tasks {', '.join(str(row['index']) for row in wrong)})" if wrong else "")
        + f", and handed out the start {len(started)} times.{worst}",
    ]  # fmt: skip


def _table(rows: Sequence[Row], recipes: Mapping[str, str]) -> list[str]:
    if not rows:
        return ["None."]
    lines = [
        "| | task | R² | ceiling | start | below | handed out |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: int(row["index"])):
        mark = "" if row["recipe"] == recipes[row["kind"]] else "†"
        lines.append(
            f"| {row['index']}{mark} | {row['words']} | {row['r2']:.4f} | {row['ceiling']:.4f} "
            f"| {row['start']:.4f} | {gap(row):.4f} | {row['handed_out']} |"
        )
    return lines
