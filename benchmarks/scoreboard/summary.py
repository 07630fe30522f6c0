"""docs/scoreboard.md: the tables of what was run, between two marks of a page that people wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.scoreboard.tasks import SAMPLES, TASKS

PAGE = Path(__file__).parents[2] / "docs" / "scoreboard.md"
FIRST, LAST = "<!-- tables -->\n", "<!-- end of tables -->\n"
# figure: head of its column
HEADS = {
    "r2": "R²", "dyn_r2_10": "dynR²₁₀", "dyn_r2_10_control": "identity control",
    "mode_accuracy": "modes", "adjusted_rand": "Rand", "rmse": "RMSE",
}  # fmt: skip
# (tool, method): what it is, where the name alone does not say it
METHODS = {
    ("cebra", "time"): "CEBRA, single frames, euclidean",
    ("cebra", "offset10"): "CEBRA, offset10, cosine",
    ("pysindy", "given"): "pysindy, told the latents",
    ("pysindy", "pca"): "pysindy, principal components",
    ("deeptime", "vamp"): "deeptime, VAMP",
    ("deeptime", "tica"): "deeptime, TICA",
    ("deeptime", "hmm"): "deeptime, k-means and HMM",
    ("dynamax", "hmm"): "dynamax, Gaussian HMM",
    ("dynamax", "arhmm"): "dynamax, autoregressive HMM",
    ("components", "pca"): "principal components",
    ("nfoursid", "n4sid"): "nfoursid, N4SID",
    ("sysidentpy", "narx"): "sysidentpy, NARX",
    ("dynacl", "arx"): "ARX",
    ("dynacl", "machine"): "`dynacl`, linear",
}


def write(rows: list[dict[str, Any]]) -> None:
    text = PAGE.read_text()
    before, rest = text.split(FIRST)
    PAGE.write_text(before + FIRST + tables(rows) + LAST + rest.split(LAST)[1])


def tables(rows: list[dict[str, Any]]) -> str:
    """One table for each task, size and budget that has rows."""
    groups: dict[tuple[int, int, float], list[dict[str, Any]]] = {}
    for row in rows:
        place = list(TASKS).index(row["task"]), list(SAMPLES).index(row["size"]), row["budget"]
        groups.setdefault(place, []).append(row)
    found = [table(groups[place]) for place in sorted(groups)]
    return "\n" + "\n".join(found) if found else "\nNothing has been run yet.\n\n"


def table(rows: list[dict[str, Any]]) -> str:
    first = rows[0]
    heads = {name: head for name, head in HEADS.items() if any(name in row for row in rows)}
    title = f"### {first['task']}, {first['size']}, {first['budget']:g} s\n\n{first['words']}.\n\n"
    apart = any(row.get("compiled", 0) >= 1 and row["tool"] == "dynamax" for row in rows)
    columns = ["", *heads.values(), "seconds", *(["compiling"] if apart else []), "seed"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        name = METHODS.get((row["tool"], row["method"]), f"`{row['tool']}`, {row['method']}")
        if "failed" in row:
            cells = ["failed", *[""] * (len(columns) - 3)]
        else:
            cells = [figure(row.get(n)) for n in heads] + [f"{row['seconds']:.1f}"]
            compiled = f"{row['compiled']:.0f}" if row["tool"] == "dynamax" else ""
            cells += [compiled] if apart else []
        lines.append("| " + " | ".join([name, *cells, str(row["seed"])]) + " |")
    why = [
        f"\n{row['tool']}, {row['method']}: {row['failed']}\n" for row in rows if "failed" in row
    ]
    return title + "\n".join(lines) + "\n" + "".join(why)


def figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if abs(value) < 1000 else f"{value:.0e}"
