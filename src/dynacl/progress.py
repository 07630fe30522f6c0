"""Progress of long work: a bar on a terminal or in a notebook, plain lines in a log.

Lines go to stderr, or, once the logger `dynacl` has a handler, to that.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from types import TracebackType

from tqdm.auto import tqdm

_log = logging.getLogger(__name__)
MANY = math.log(1000)  # of the variance: how much more does not matter
QUIET = 5.0  # seconds between two lines in a log


class Progress:
    """Shows steps, the loss beside that of guessing, held-out data, the time left; on stderr."""

    def __init__(self, total: int, done: int = 0, enabled: bool = True) -> None:
        self.total, self.first, self.enabled = total, done, enabled
        self.bar = (
            tqdm(total=total, initial=done, unit="step", dynamic_ncols=True)
            if enabled and shows_bars()
            else None
        )
        self.started = self.spoken = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.close()

    def show(self, step: int, record: dict[str, float], chance: float | None) -> None:
        judged = ""
        if "held_out" in record:  # a mean logarithm: back to a share of the variance
            judged = f", {share(record['held_out'])} of held-out data missed"
        beside = "" if chance is None else f" (chance: {chance:.2f})"
        self.tell(step, f"loss {record['loss']:.4f}{beside}{judged}")

    def tell(self, step: int, text: str) -> None:
        if self.bar is not None:
            self.bar.update(step - self.bar.n)
            self.bar.set_postfix_str(text)
            return
        now = time.monotonic()
        if self.enabled and (now - self.spoken > QUIET or step == self.total):
            self.spoken = now
            left = (now - self.started) / max(1, step - self.first) * (self.total - step)
            self.say(f"step {step}/{self.total}: {text}, {left:.0f} s left")

    def say(self, text: str) -> None:
        if self.enabled:
            say(text)


def shows_bars() -> bool:
    """Whether a bar can move: on a terminal, and in a notebook, whose stderr is none."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return sys.stderr.isatty() or hasattr(shell, "kernel")


def say(text: str) -> None:
    """A line, above the bar if there is one."""
    if logging.getLogger("dynacl").handlers:
        _log.info(text)
    else:
        tqdm.write(text, file=sys.stderr)


def share(figure: float) -> str:
    """A mean logarithm of what is missed, as the share of the variance that it stands for.

    An encoder that folds, or a roll-out that runs off, may miss any number of times as much.
    """
    if figure >= MANY:
        return "many times all"
    percent = 100 * math.exp(figure)
    return f"{percent:.3g}%" if percent < 999.5 else f"{percent:,.0f}%"
