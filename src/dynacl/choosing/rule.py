"""Which choice is recommended: the simplest that is not clearly behind the best.

A missing dimension or mode costs many decibels. A superfluous one gains tenths, and not by chance:
one more function of the state helps the encoder and the readout to undo a curved mixing. No
standard error tells the two apart, so a gain below `CLEARLY` counts as none (docs/choosing.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dynacl.choosing.judged import Judged
from dynacl.data import Array, InputError
from dynacl.prediction import MODEL, PERSISTENCE, listed

CLEARLY = 1.0  # decibels, a quarter more signal to noise
NOTHING = "no dynamics beyond noise"


def one_standard_error(scores: Array, least: float = 0.0) -> int:
    """The first of the candidates that is behind the best by at most one standard error.

    scores: (candidates, folds), simplest candidate first, higher is better. The standard error is
    that of the best mean over the folds (Breiman et al. 1984, *Classification and regression
    trees*). least: and by at most this, where it is more.
    """
    table = np.asarray(scores, dtype=float)
    if table.ndim != 2 or table.shape[1] < 2 or not np.isfinite(table).all(1).any():
        raise InputError(f"scores: got shape {table.shape}; wanted (candidates, folds), at least "
                         "two folds, and a candidate whose scores are finite")  # fmt: skip
    mean = np.where(np.isfinite(table).all(1), table.mean(1), -np.inf)
    best = int(mean.argmax())
    error = table[best].std(ddof=1) / np.sqrt(table.shape[1])
    return int((mean >= mean[best] - max(error, least)).argmax())


@dataclass(frozen=True)
class Row:
    """What is shown of one choice."""

    choice: dict[str, Any]
    decibels: float | None = None  # None: its fit failed
    error: float | None = None  # standard error of the above
    missed: list[float] = field(default_factory=list)  # share of the variance, by steps ahead
    about: dict[str, Any] = field(default_factory=dict)
    failed: str = ""  # why


@dataclass(frozen=True)
class Selection:
    """Choices, simplest first, which of them to take, and why. `str` shows a table."""

    rows: tuple[Row, ...]
    horizons: tuple[int, ...]
    beside: dict[str, float]  # decibels of what takes no training
    recommended: int | None  # None: nothing is predicted
    reason: str

    @property
    def parameters(self) -> dict[str, Any]:
        """Of the choice that is recommended: `DCL(**selection.parameters)`."""
        if self.recommended is None:
            raise InputError(f"selection: recommends nothing: {self.reason}")
        return dict(self.rows[self.recommended].choice)

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self) | {"parameters": None if self.recommended is None else self.parameters}

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> Selection:
        """From what JSON holds."""
        rows = tuple(Row(**row) for row in saved["rows"])
        given = {k: v for k, v in saved.items() if k != "parameters"}
        return cls(**given | {"rows": rows, "horizons": tuple(saved["horizons"])})

    def __str__(self) -> str:
        names = [said(row.choice) for row in self.rows]
        width = max(map(len, [*names, *self.beside]))
        extra = list(dict.fromkeys(name for row in self.rows for name in row.about))
        head = ["dB", "error", *(f"missed {h}" for h in self.horizons), *extra]
        lines = [" " * (width + 2) + "".join(f"{name:>12}" for name in head)]
        for i, row in enumerate(self.rows):
            numbers = [row.decibels, row.error, *row.missed, *map(row.about.get, extra)]
            cells = f"  {row.failed}" if row.failed else "".join(map(_cell, numbers))
            lines.append(f"{'>' if i == self.recommended else ' '} {names[i]:<{width}}{cells}")
        lines += [f"  {name:<{width}}{_cell(value)}" for name, value in self.beside.items()]
        return "\n".join([*lines, "", f"{self.reason[0].upper()}{self.reason[1:]}."])


def select_among(tried: Sequence[Judged], failed: Sequence[Row] = ()) -> Selection:
    """The simplest of these that is not clearly behind the best; none if all predict nothing."""
    if not tried:
        why = "; ".join(f"{said(row.choice)}: {row.failed}" for row in failed)
        raise InputError(f"select: no choice could be fitted: {why}")
    tried = sorted(tried, key=lambda one: one.size)
    table = np.stack([one.by_group() for one in tried])
    best = int(table.mean(1).argmax())
    chosen = one_standard_error(table, CLEARLY)
    rows = tuple(
        Row(dict(one.choice), one.decibels(), one.error(), one.share().tolist(), dict(one.about))
        for one in tried
    )
    beside = {name: tried[best].decibels(name) for name in tried[best].missed if name != MODEL}
    if not tried[best].predicts():
        ahead = listed(tried[best].horizons)
        reason = (f"{NOTHING}: no choice predicts held-out observations {ahead} ahead better than "
                  "their mean does")  # fmt: skip
        return Selection((*rows, *failed), tried[best].horizons, beside, None, reason)
    reason = _reason(tried, chosen, best, beside)
    return Selection((*rows, *failed), tried[best].horizons, beside, chosen, reason)


def _reason(tried: Sequence[Judged], chosen: int, best: int, beside: Mapping[str, float]) -> str:
    one, top = tried[chosen], tried[best]
    ahead = f"held-out observations {listed(one.horizons)} ahead"
    text = f"the choice is {said(one.choice)}: it predicts {ahead} with {one.decibels():.1f} dB"
    if chosen == best:
        text += ", more than any other choice" if len(tried) > 1 else ""
    else:
        margin = max(CLEARLY, top.error())
        text += (f", and of all choices within {margin:.1f} dB of the best ({said(top.choice)}, "
                 f"{top.decibels():.1f} dB) it is the simplest")  # fmt: skip
    if chosen:
        near = max(range(chosen), key=lambda i: tried[i].decibels())
        text += (f"; of simpler ones, {said(tried[near].choice)} comes nearest, with "
                 f"{tried[near].decibels():.1f} dB")  # fmt: skip
    if PERSISTENCE in beside and one.decibels() < beside[PERSISTENCE] + CLEARLY:
        text += (f"; but it is not clearly better than persistence ({beside[PERSISTENCE]:.1f} dB), "
                 "for which nothing changes")  # fmt: skip
    return text


def said(choice: Mapping[str, Any]) -> str:
    """A choice as it is typed in Python."""
    return ", ".join(f"{name}={value!r}" for name, value in choice.items())


def _cell(value: Any) -> str:
    return f"{'–' if value is None else f'{value:.3g}':>12}"
