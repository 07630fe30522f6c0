"""Tables and figures from stored results: Markdown, JSON, PNG and PDF. Nothing is fitted here."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynacl.data import Array
from dynacl.experiments import verdicts
from dynacl.experiments.plan import Experiment, Fit, Row
from dynacl.experiments.runner import span
from dynacl.experiments.store import Record, Store
from dynacl.experiments.verdicts import METRICS
from dynacl.persistence import to_json
from dynacl.writing import save_figure, write

Line = dict[str, Any]


@dataclass
class View:
    """An experiment's fits beside their stored results: what tables and pictures are made from."""

    experiment: Experiment
    fits: Sequence[Fit]
    store: Store

    def __post_init__(self) -> None:
        self.found: dict[str, Record] = {}
        for fit in self.fits:
            if (record := self.store.get(fit.name)) is not None:
                self.found[fit.name] = record

    @property
    def rows(self) -> list[Row]:
        return list({f.row.name: f.row for f in self.fits}.values())

    def done(self, row: str) -> list[Fit]:
        return [f for f in self.fits if f.row.name == row and self.state(f) == "done"]

    def state(self, fit: Fit) -> str:
        return str(self.found[fit.name]["state"]) if fit.name in self.found else "missing"

    def values(self, row: str, metric: str) -> list[float]:
        """A metric of every fit of a row that has it, as fractions."""
        if self.experiment.values is not None:
            return self.experiment.values(self, row, metric)
        return [v for f in self.done(row) if (v := self.value(f, metric)) is not None]

    def value(self, fit: Fit, metric: str) -> float | None:
        numbers: Any = self.found[fit.name]["metrics"]
        for part in metric.split("."):
            numbers = numbers.get(part) if isinstance(numbers, dict) else None
        return None if numbers is None else float(numbers)

    def example(self, row: str) -> dict[str, Array]:
        """What the first fit of a row kept for pictures; empty if there is none."""
        done = self.done(row)
        return self.store.arrays(done[0].name) if done else {}


def table(view: View) -> list[Line]:
    """A line for every cell: paper, ours, difference, verdict. In points."""
    paper = view.experiment.numbers
    lines = []
    for row in view.rows:
        for metric in row.cells:
            ours = [100 * v for v in view.values(row.name, metric)]
            printed = paper.get(row.name, {}).get(metric)
            reference = None if printed is None else (
                100 * printed[0], None if printed[1] is None else 100 * printed[1]
            )  # fmt: skip
            claimed = METRICS[metric].claim == "higher" and not row.is_baseline
            verdict = verdicts.cell(reference, ours, claimed)
            failed = sum(f.row.name == row.name and view.state(f) == "failed" for f in view.fits)
            if failed and not ours:
                verdict = "failed"
            # A metric that was −∞ is stored as null: such a fit must not vanish from the mean.
            diverged = 0 if view.experiment.values else len(view.done(row.name)) - len(ours)
            if diverged:
                verdict = f"differs: {diverged} diverged"
            lines.append({
                "row": row.name,
                "metric": metric,
                "label": METRICS[metric].label,
                "paper": None if reference is None else {"mean": reference[0], "std": reference[1]},
                "ours": summary(ours),
                "difference": statistics.fmean(ours) - reference[0] if ours and reference else None,
                "verdict": verdict,
                "failed": failed,
                "diverged": diverged,
            })  # fmt: skip
    return lines


def claims(view: View) -> list[Line]:
    """Differences that the paper makes a point of; ours fit by fit, data and seed alike."""
    paper = view.experiment.numbers
    lines = []
    for claim in view.experiment.claims:
        printed = [paper.get(row, {}).get(metric) for row, metric in (claim.more, claim.less)]
        reference = None
        if printed[0] is not None and printed[1] is not None:
            reference = 100 * (printed[0][0] - printed[1][0])
        differences = [100 * d for d in paired(view, claim.more, claim.less)]
        mean = statistics.fmean(differences) if differences else None
        lines.append({
            "claim": claim.text,
            "paper": reference,
            "sign": claim.sign,
            "ours": summary(differences),
            "verdict": verdicts.claim(reference, mean, claim.sign),
        })  # fmt: skip
    return lines


def paired(view: View, more: tuple[str, str], less: tuple[str, str]) -> list[float]:
    if view.experiment.values is not None:  # a metric between fits: there are no pairs
        a, b = view.values(*more), view.values(*less)
        return [statistics.fmean(a) - statistics.fmean(b)] if a and b else []
    found = []
    others = {(f.dataset, f.seed): f for f in view.done(less[0])}
    for fit in view.done(more[0]):
        other = others.get((fit.dataset, fit.seed))
        if other is not None:
            x, y = view.value(fit, more[1]), view.value(other, less[1])
            if x is not None and y is not None:
                found.append(x - y)
    return found


# What a scale leaves out of every table.
STANDARD = ("at most 200,000 samples, a million where the size is compared; three data sets, one "
            "seed (five where runs are compared)")  # fmt: skip


def summary(values: Sequence[float]) -> Line | None:
    if not values:
        return None
    std = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "std": std, "n": len(values)}


def render(view: View, folder: Path, about: Line, other: View | None = None) -> list[Path]:
    """Write table.md, table.json and the figures. other: the same under the other protocol."""
    folder.mkdir(parents=True, exist_ok=True)
    states = [view.state(f) for f in {f.name: f for f in view.fits}.values()]
    seconds = sum(r["seconds"] for r in view.found.values())
    content: Line = {
        **about,
        "experiment": view.experiment.name,
        "title": view.experiment.title,
        "source": view.experiment.source,
        "note": view.experiment.note,
        "reduced": "; ".join(filter(None, (
            STANDARD if about["scale"] == "standard" else "",
            view.experiment.reduced.get(about["scale"], "")))),
        "fits": {s: states.count(s) for s in ("done", "failed", "missing")} | {"seconds": seconds},
        "sources": sorted({str(r.get("sources")) for r in view.found.values()}),
        "made": made(view.found.values()),
        "cells": table(view),
        "claims": claims(view),
        "identity_rows_other_protocol": [] if other is None else [
            line for line in table(other) if line["ours"] is not None
        ],
        "summary": None,
        "errors": sorted({f"{f.row.name}: {view.found[f.name]['error']}"
                          for f in view.fits if view.state(f) == "failed"}),
    }  # fmt: skip
    text = ""
    if view.experiment.summary is not None:
        text, content["summary"] = view.experiment.summary(view.store)
    write(folder / "table.json", (to_json(content, indent=1, ensure_ascii=False) + "\n").encode())
    write(folder / "table.md", (markdown(content) + text).strip().encode() + b"\n")
    written = [folder / "table.md", folder / "table.json"]
    if view.experiment.figures is not None and view.found:
        for name, figure in view.experiment.figures(view).items():
            for suffix in (".png", ".pdf"):
                written.append(folder / f"{name}{suffix}")
                save_figure(figure, written[-1])
                figure.set_layout_engine("none")  # it stays as laid out; that took the longest
    return written


def made(records: Iterable[Line]) -> str:
    """By which code, on what and when: of every record, what there is of each."""
    records = list(records)
    said = {key: sorted({str(r[key]) for r in records if r.get(key)})
            for key in ("dynacl", "sources", "torch", "machine")}  # fmt: skip
    days = sorted({str(r["finished"])[:10] for r in records if r.get("finished")})
    parts = [f"dynacl {', '.join(said['dynacl'])} (sources {', '.join(said['sources'])})",
             f"PyTorch {', '.join(said['torch'])}", ", ".join(said["machine"]),
             " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""]  # fmt: skip
    return "; ".join(part for part in parts if part) if records else ""


def markdown(content: Line) -> str:
    fits = content["fits"]
    parts = [
        f"# {content['experiment']}: {content['title']}",
        f"Paper: `{content['source']}`. Scale {content['scale']}, protocol {content['protocol']}. "
        f"{fits['done']} fits, {fits['failed']} failed, {fits['missing']} not run; "
        f"{span(fits['seconds'])} of fitting.",
        f"    {content['command']}",
    ]
    if content["scale"] == "smoke":
        parts.append("A smoke run shows that everything runs; its numbers say nothing.")
    if content["reduced"]:
        parts.append(f"Reduced, as this scale is: {content['reduced']}.")
    if content["note"]:
        parts.append(content["note"])
    if content["made"]:
        parts.append(f"Made by {content['made']}.")
    if len(content["sources"]) > 1:
        parts.append("These results were made by different versions of the code.")
    if content["cells"]:
        parts.append(_cells(content["cells"]))
    if content["claims"]:
        lines = [f"| {c['claim']} | {_claimed(c)} | {_ours(c['ours'])} | {_n(c['ours'])} "
                 f"| {c['verdict']} |" for c in content["claims"]]  # fmt: skip
        head = (
            "| claim (difference in points) | paper | ours | n | verdict |\n|---|---|---|---|---|"
        )
        parts.append("\n".join([head, *lines]))
    if content["identity_rows_other_protocol"]:
        parts.append("Identity rows under the other protocol (they depend on the number of "
                     "negatives):")  # fmt: skip
        parts.append(_cells(content["identity_rows_other_protocol"]))
    if content["errors"]:
        parts.append("Failed:\n" + "\n".join(f"- {e}" for e in content["errors"]))
    return "\n\n".join(parts) + "\n\n"


def _cells(lines: Sequence[Line]) -> str:
    head = "| row | | paper | ours | n | difference | verdict |\n|---|---|---|---|---|---|---|"
    body = []
    for line in lines:
        paper = line["paper"]
        printed = "–" if paper is None else _mean(paper)
        body.append(
            f"| {line['row']} | {line['label']} | {printed} | {_ours(line['ours'])} "
            f"| {_n(line['ours'])} | {_number(line['difference'])} | {line['verdict']} |"
        )
    return "\n".join([head, *body])


def _ours(ours: Line | None) -> str:
    return "–" if ours is None else _mean(ours)


def _mean(of: Line) -> str:
    return f"{of['mean']:.2f}" + ("" if of["std"] is None else f" ± {of['std']:.2f}")


def _claimed(claim: Line) -> str:
    if claim["paper"] is None and claim["sign"] is not None:
        return {1: "positive", 0: "none", -1: "negative"}[claim["sign"]]
    return _number(claim["paper"])


def _n(ours: Line | None) -> str:
    return "–" if ours is None else str(ours["n"])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
