"""python -m fuzz: a table of readers, and what each made of its inputs; exit code 1 on findings."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from fuzz.readers import readers
from fuzz.running import many

HEAD = "| reader | inputs | refused | accepted | crashed | wrong | slowest (s) | memory (MB) |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz")
    parser.add_argument("readers", nargs="*", help="(default: all)")
    parser.add_argument("--inputs", type=int, default=10_000, help="for each (default: 10000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default: 0)")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), metavar="FOLDER",
                        help="for what crashes or is wrong (default: build/fuzz)")  # fmt: skip
    options = parser.parse_args()
    print(HEAD, "|---|---|---|---|---|---|---|---|", sep="\n", flush=True)
    findings = 0
    with tempfile.TemporaryDirectory() as temporary:
        known = readers(Path(temporary) / "originals")
        for name in options.readers or known:
            place = Path(temporary) / name
            place.mkdir()
            try:
                reader = known[name]()
            except LookupError as error:
                print(f"{name}: left out: {error}", file=sys.stderr)
                continue
            last, keep = options.first + options.inputs, options.keep / name
            tally = many(reader, options.first, last, place, keep)
            counts = (tally.inputs, tally.refused, tally.accepted, tally.crashed, len(tally.wrong))
            cells = [name, *(f"{n:,}" for n in counts), f"{tally.slowest:.2f}"]
            print("|", " | ".join([*cells, str(tally.most_memory >> 20)]), "|", flush=True)
            for i, what in tally.wrong[:20]:
                print(f"{name}, input {i}: {what}", file=sys.stderr)
            findings += len(tally.wrong)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
