"""Kinds of values that parameters and settings take: what is wanted, and how text is read.

A kind knows how to check a value, how to say what it wants, and how to read one from the command
line. It imports nothing heavy: `dynacl fit --help` is made from it.
"""

from __future__ import annotations

import argparse
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np


class Kind(ABC):
    """One kind of value."""

    metavar: ClassVar[str] = "X"

    @property
    @abstractmethod
    def wanted(self) -> str:
        """In words, after "wanted …"."""

    @abstractmethod
    def accepts(self, value: Any) -> bool: ...

    @abstractmethod
    def read(self, text: str) -> Any:
        """From the command line; ValueError if the text is none of this kind."""

    def said(self, value: Any) -> str:
        """As it is typed on the command line."""
        return str(value)

    def plain(self, value: Any) -> Any:
        """An accepted value as JSON can hold it."""
        return plain(value)

    def from_text(self, text: str) -> Any:
        """What `read` gives, or the error that argparse shows."""
        try:
            return self.read(text)
        except ValueError as error:
            said = str(error) if "wanted" in str(error) else f"got {text!r}; wanted {self.wanted}"
            raise argparse.ArgumentTypeError(said) from error

    def argument(self) -> dict[str, Any]:
        """How argparse takes an option of this kind."""
        return {"type": self.from_text, "metavar": self.metavar}


@final
@dataclass(frozen=True)
class Whole(Kind):
    """A whole number of at least `least`."""

    metavar: ClassVar[str] = "N"
    least: int = 1

    @property
    def wanted(self) -> str:
        return f"a whole number of at least {self.least}"

    def accepts(self, value: Any) -> bool:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return whole and value >= self.least

    def read(self, text: str) -> int:
        return int(text)


@final
@dataclass(frozen=True)
class Number(Kind):
    """A finite number from `least` on (or above it), to `most`."""

    least: float = 0.0
    most: float = math.inf
    above: bool = False

    @property
    def wanted(self) -> str:
        if self.most < math.inf:
            return f"a number from {self.least:g} to {self.most:g}"
        return "a positive number" if self.above else f"a number of at least {self.least:g}"

    def accepts(self, value: Any) -> bool:
        number = isinstance(value, int | float | np.integer | np.floating)
        if not number or isinstance(value, bool) or not math.isfinite(value):
            return False
        enough = self.least < value if self.above else self.least <= value
        return bool(enough and value <= self.most)

    def read(self, text: str) -> float:
        return float(text)


POSITIVE = Number(above=True)
SHARE = Number(most=1.0)
MOST_HELD = 0.5  # share of the data that can be held out


@final
@dataclass(frozen=True)
class Flag(Kind):
    """True or False; on the command line the option alone, or on and off. With `auto`, that word
    too."""

    metavar: ClassVar[str] = "on|off"
    auto: bool = False

    @property
    def wanted(self) -> str:
        return 'True, False or "auto"' if self.auto else "True or False"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return self.auto and value == "auto"
        return isinstance(value, bool | np.bool_)

    def read(self, text: str) -> bool | str:
        words = {"on": True, "true": True, "off": False, "false": False}
        if self.auto and text == "auto":
            return text
        if text.lower() not in words:
            raise ValueError(f"got {text!r}; wanted on{', off or auto' if self.auto else ' or off'}"
                             )  # fmt: skip
        return words[text.lower()]

    def argument(self) -> dict[str, Any]:
        if not self.auto:
            return {"action": "store_true"}
        return {"nargs": "?", "const": True, "type": self.from_text, "metavar": "on|off|auto"}


@final
@dataclass(frozen=True)
class OneOf(Kind):
    """One of these words; or an object that `other` accepts, which `or_else` describes."""

    words: tuple[str, ...]
    other: Callable[[Any], bool] | None = None
    or_else: str = ""

    @property
    def wanted(self) -> str:
        return f"one of {', '.join(self.words)}" + (f" or {self.or_else}" if self.or_else else "")

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self.words
        return self.other is not None and self.other(value)

    def read(self, text: str) -> str:
        if text not in self.words:
            raise ValueError(f"got {text!r}; wanted {self.wanted}")
        return text

    def argument(self) -> dict[str, Any]:
        return {"choices": self.words}


@final
@dataclass(frozen=True)
class OrNone(Kind):
    """None, or a value of another kind; `word` is None on the command line."""

    kind: Kind
    word: str = "none"

    @property
    def wanted(self) -> str:
        return f"{self.kind.wanted}, or None"

    def accepts(self, value: Any) -> bool:
        return value is None or self.kind.accepts(value)

    def read(self, text: str) -> Any:
        return None if text == self.word else self.kind.read(text)

    def said(self, value: Any) -> str:
        return self.word if value is None else self.kind.said(value)

    def plain(self, value: Any) -> Any:
        return None if value is None else self.kind.plain(value)

    def argument(self) -> dict[str, Any]:
        """As without None, which is what leaving the option out means; a flag can be off."""
        inner = self.kind.argument()
        return (
            inner
            if "action" not in inner
            else {"type": self.kind.from_text, "metavar": self.kind.metavar}
        )


@final
@dataclass(frozen=True)
class Negatives(Kind):
    """A number of negatives drawn anew at each step, or "batch"."""

    metavar: ClassVar[str] = "N|batch"
    wanted: str = 'a whole number or "batch"'

    def accepts(self, value: Any) -> bool:
        return value == "batch" if isinstance(value, str) else Whole().accepts(value)

    def read(self, text: str) -> int | str:
        return text if text == "batch" else int(text)


@final
@dataclass(frozen=True)
class Lags(Kind):
    """Distinct whole numbers of steps back from now, such as (0, 1, 2)."""

    metavar: ClassVar[str] = "0,1,2"
    wanted: str = "distinct whole numbers of steps back, such as (0, 1, 2)"

    def accepts(self, value: Any) -> bool:
        try:
            lags = [int(lag) for lag in value]
            same = lags == list(value)
        except (TypeError, ValueError, OverflowError):
            return False
        return same and len(set(lags)) == len(lags) > 0 and min(lags) >= 0

    def read(self, text: str) -> tuple[int, ...]:
        from dynacl.data import spread_lags

        if "/" in text:
            return spread_lags(*(int(part) for part in text.split("/", 1)))
        return tuple(int(lag) for lag in text.split(","))

    def said(self, value: Any) -> str:
        return ",".join(map(str, value))

    def plain(self, value: Any) -> tuple[int, ...]:
        return tuple(int(lag) for lag in value)


@final
@dataclass(frozen=True)
class PastLags(Kind):
    """Distinct whole numbers of steps back from now, or none at all."""

    metavar: ClassVar[str] = "1,2"
    wanted: str = "distinct whole numbers of steps back, such as (1, 2), or ()"

    def accepts(self, value: Any) -> bool:
        empty = isinstance(value, Sequence | np.ndarray) and len(value) == 0
        return (empty and not isinstance(value, str)) or Lags().accepts(value)

    def read(self, text: str) -> tuple[int, ...]:
        return () if text == "off" else Lags().read(text)

    def said(self, value: Any) -> str:
        return Lags().said(value) or "off"

    def plain(self, value: Any) -> tuple[int, ...]:
        return Lags().plain(value)


@final
@dataclass(frozen=True)
class HeldOut(Kind):
    """A share of the data, or the indices of trials; False is 0. With `auto`, that word too."""

    metavar: ClassVar[str] = "SHARE|trials:0,5|off"
    auto: bool = False

    @property
    def wanted(self) -> str:
        first = '"auto", ' if self.auto else ""
        return f"{first}a share from 0 to {MOST_HELD:g}, distinct indices of trials, or False"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return self.auto and value == "auto"
        if isinstance(value, bool | np.bool_):
            return not value
        return Number(most=MOST_HELD).accepts(value) or Lags().accepts(value)

    def read(self, text: str) -> Any:
        if text in ("auto", "off"):
            return text if text == "auto" else 0.0
        if text.startswith("trials:"):
            return tuple(int(i) for i in text.removeprefix("trials:").split(","))
        return float(text)

    def said(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        return f"{value:g}" if np.ndim(value) == 0 else "trials:" + ",".join(map(str, value))

    def plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        return float(value) if np.ndim(value) == 0 else Lags().plain(value)


@final
@dataclass(frozen=True)
class Seed(Kind):
    """What scikit-learn takes as random_state; on the command line a whole number."""

    metavar: ClassVar[str] = "N"
    wanted: str = "an int, a RandomState or None"

    def accepts(self, value: Any) -> bool:
        return True  # scikit-learn judges, and says it

    def read(self, text: str) -> int:
        if not text.isdecimal() or not int(text) < 2**32:
            raise ValueError(f"got {text}; wanted a number from 0 to 2**32 - 1")
        return int(text)


@final
@dataclass(frozen=True)
class Anything(Kind):
    """What only the code that uses it can judge; `accept` may look at it first."""

    words: str
    accept: Callable[[Any], bool] = lambda value: True

    @property
    def wanted(self) -> str:
        return self.words

    def accepts(self, value: Any) -> bool:
        return self.accept(value)

    def read(self, text: str) -> str:
        return text


def plain(value: Any) -> Any:
    """NumPy's scalars as Python's, and sequences of them as tuples: what JSON can hold."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Sequence | np.ndarray | range) and not isinstance(value, str):
        return tuple(plain(v) for v in value)
    return value
