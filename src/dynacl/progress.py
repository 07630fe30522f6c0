"""Progress of long work: a bar on a terminal, a plain line now and then in a log."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType

from tqdm import tqdm

QUIET = 5.0  # seconds between two lines in a log


class Progress:
    """Shows steps, the loss beside that of guessing, held-out data, the time left; on stderr."""

    def __init__(self, total: int, done: int = 0, enabled: bool = True) -> None:
        self.total, self.first, self.enabled = total, done, enabled
        self.bar = (
            tqdm(total=total, initial=done, unit="step", dynamic_ncols=True)
            if enabled and sys.stderr.isatty()
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
            judged = f", {math.exp(record['held_out']):.2%} of held-out data missed"
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
            tqdm.write(text, file=sys.stderr)
