"""The scoreboard: other tools and dynacl on the same data, for as many seconds, by one judge.

python -m benchmarks.scoreboard                                  all, into docs/scoreboard.md
python -m benchmarks.scoreboard --size tiny --budget 5           does every script work?
python -m benchmarks.scoreboard --tasks lds,slds --tools cebra,dynacl
python -m benchmarks.scoreboard --report                         no run: the page from what there is

Seconds are processor time of one thread, so that a busy machine changes nothing. Rows are kept in
runs/scoreboard; what has a row of this version is not run again.
"""

from __future__ import annotations

import argparse

from benchmarks.scoreboard import running, summary
from benchmarks.scoreboard.tasks import SAMPLES, TASKS


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    for name in () if options.report else options.tasks.split(","):
        task = TASKS[name](options.size, options.seed)
        for tool, methods in running.METHODS[name].items():
            for method in methods if tool in options.tools.split(",") or not options.tools else ():
                chosen = (options.size, tool, method, options.budget, options.seed)
                if not running.is_there(running.key(name, *chosen)):
                    row = running.run(task, *chosen)
                    running.add(row)
                    print(row, flush=True)
    summary.write(running.rows())


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.scoreboard")
    made.add_argument("--tasks", default=",".join(TASKS))
    made.add_argument("--tools", default="", help="some of them, with commas")
    made.add_argument("--size", choices=SAMPLES, default="paper")
    made.add_argument("--budget", type=float, default=60.0, help="seconds of processor time")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--report", action="store_true", help="only write the page")
    return made


if __name__ == "__main__":
    main()
