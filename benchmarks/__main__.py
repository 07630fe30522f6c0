"""All benchmarks: one table on the screen, every number in benchmarks/results.json.

make bench                          everything (hours; the zoo and `modes` take most of them)
python -m benchmarks kernel step    only these
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import first_pass, growth, kernel, measured, modes, quality, step, uses
from benchmarks.zoo import __main__ as zoo
from dynacl import __version__

OUT = Path(__file__).with_name("results.json")
PARTS = {
    "kernel": kernel.measure,
    "step": step.measure,
    "quality": lambda: quality.measure(list(quality.CASES), [0, 1, 2]),
    "curves": quality.measure_curves,
    "first_pass": first_pass.measure,
    "uses": uses.measure,
    "growth": growth.measure,
    "measured": measured.measure,
    "zoo": zoo.measure,
    "modes": modes.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    for part in parser.parse_args().parts:
        print(f"-- {part}", flush=True)
        rows = PARTS[part]()
        store(part, rows)
        table(rows)
        if part == "growth":
            growth.draw(rows)


def store(part: str, rows: list[dict[str, Any]]) -> None:
    """Into the file, in the place of rows of the same names; others stay, each with its date."""
    results: dict[str, Any] = json.loads(OUT.read_text()) if OUT.exists() else {}
    measured = {"when": time.strftime("%Y-%m-%d"), "machine": machine()}
    kept = {row["what"]: row for row in results.get(part, [])}
    results[part] = list((kept | {row["what"]: row | measured for row in rows}).values())
    OUT.write_text(json.dumps(results, indent=1) + "\n")


def machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), cpu)
    return {"cpu": cpu, "threads": torch.get_num_threads(), "torch": torch.__version__,
            "dynacl": __version__}  # fmt: skip


def table(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        numbers = "  ".join(
            f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, float | int) and k != "value"
        )
        print(f"{row.get('what', '')!s:<34} {numbers}")


if __name__ == "__main__":
    main()
