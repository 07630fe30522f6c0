"""Which entries of a file are what to a series: observations, control, labels, trials, times.

The same for every format. A user names entries by keys. An entry without a key is used if there is
no doubt what it is; where there may be doubt, the user is told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from dynacl.data.errors import InputError
from dynacl.data.fields import OBSERVATIONS, is_ours
from dynacl.data.formats import DATES, NUMBERS, TEXT, Entry

SHOWN = 12  # names of entries in a message, at most
TIME = re.compile(
    r"(t|times?|time_?stamps?|date|date_?time|seconds|step|index|sample|unnamed: 0)"
    r"([ _]*[\[(]?(s|sec|ms|us|ns)[\])]?)?",
    re.IGNORECASE,
)
TRIAL = re.compile(r"trials?([ _]?(id|index|no|number))?|episodes?([ _]?id)?", re.IGNORECASE)


@dataclass(frozen=True)
class Keys:
    """What a user asked for: names of entries, or patterns of names, with commas between."""

    key: str | None = None
    control_key: str | None = None
    label_key: str | None = None
    trial_key: str | None = None
    time_key: str | None = None


@dataclass(frozen=True)
class Roles:
    """Names of entries by what they are; times and trials that nobody asked for are a guess."""

    observations: tuple[str, ...]
    control: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    trials: str | None = None
    times: str | None = None
    ours: tuple[str, ...] = ()  # entries of a file of ours, which are fields as they are
    left: tuple[str, ...] = ()  # columns of text, which nobody asked for
    guessed: frozenset[str] = frozenset()  # of trials and times

    def names(self) -> list[str]:
        beside = [name for name in (self.trials, self.times) if name]
        return list(
            dict.fromkeys([*self.observations, *self.control, *self.labels, *beside, *self.ours])
        )


def roles_of(there: Sequence[Entry], keys: Keys, table: bool, path: Path) -> Roles:
    """Which entries are what."""
    control = _named(keys.control_key, there, path, table)
    labels = _named(keys.label_key, there, path, table)
    trials, times = (_one(k, there, path, table) for k in (keys.trial_key, keys.time_key))
    known = {entry.name for entry in there}
    if OBSERVATIONS in known and keys.key in (None, OBSERVATIONS) and not table:
        ours = tuple(entry.name for entry in there if is_ours(entry.name))
        return Roles((OBSERVATIONS,), control, labels, trials, times, ours)
    asked = _named(keys.key, there, path, table)
    for entry in there:
        if entry.name in asked + control and entry.kind not in NUMBERS:
            raise InputError(f"{path}: {entry.name!r} holds {_told(entry)}; wanted numbers")
    taken = {*asked, *control, *labels, trials, times}
    others = [entry for entry in there if entry.name not in taken]
    guessed: set[str] = set()
    if times is None and (found := _like(TIME, others, NUMBERS + DATES, asked, there)):
        times = found
        guessed.add(found)
    dates = [entry.name for entry in others if entry.kind in DATES]
    if times is None and table and len(dates) == 1:  # whatever its name
        times = dates[0]
        guessed.add(times)
    if trials is None and (found := _like(TRIAL, others, NUMBERS + TEXT, asked, there)):
        trials = found
        guessed.add(found)
    others = [entry for entry in others if entry.name not in (times, trials)]
    left: tuple[str, ...] = ()
    if not asked and table:
        asked = tuple(entry.name for entry in others if entry.kind in NUMBERS)
        left = tuple(entry.name for entry in others if entry.kind not in NUMBERS)
        if not asked:
            raise InputError(f"{path}: no column of numbers is left to observe")
    elif not asked:
        asked = _only(others, path)
    return Roles(asked, control, labels, trials, times, (), left, frozenset(guessed))


def _only(others: Sequence[Entry], path: Path) -> tuple[str]:
    """The one array that observations can be."""
    fit = [entry for entry in others if entry.kind in NUMBERS and entry.shape]
    # Where series bring their times, what has none is no series, but epochs.
    known = {entry.name for entry in others}
    fit = [entry for entry in fit if f"{entry.name}.times" in known] or fit
    # What belongs to an array is not another one.
    fit = [e for e in fit if not any(e.name.startswith(f"{other.name}.") for other in others)]
    if len(fit) == 1:
        return (fit[0].name,)
    if not fit:
        held = f", but {_told(others[0])}" if others else ""
        raise InputError(f"{path}: holds no array of numbers{held}")
    raise InputError(f"{path}: holds several arrays ({_listed(fit)}); choose one with key=…")


def _told(entry: Entry) -> str:
    """What an entry holds that is no numbers."""
    known = {TEXT: "text", DATES: "dates"}
    return known.get(entry.kind, "Python objects, which are never loaded")


def _listed(there: Sequence[Entry]) -> str:
    more = f", … {len(there) - SHOWN} more" if len(there) > SHOWN else ""
    names = (entry.name for entry in there[:SHOWN])
    return ", ".join(name if name.isprintable() else repr(name) for name in names) + more


def _named(key: str | None, there: Sequence[Entry], path: Path, table: bool) -> tuple[str, ...]:
    """The entries that a key names: one, several with commas between, or those of a pattern."""
    if key is None:
        return ()
    known = [entry.name for entry in there]
    if key in known:
        return (key,)
    found: list[str] = []
    for part in (part.strip() for part in key.split(",")):
        fit = [part] if part in known else [name for name in known if fnmatchcase(name, part)]
        if not fit and (whole := part.partition("@")[0]) != part:
            fit = [part] if any(name.startswith(f"{whole}@") for name in known) else []
        if not fit:
            what = "column" if table else "array"
            raise InputError(f"{path}: has no {what} {part!r}; it has {_listed(there)}")
        found += fit
    return tuple(dict.fromkeys(found))


def _one(key: str | None, there: Sequence[Entry], path: Path, table: bool) -> str | None:
    found = _named(key, there, path, table)
    if len(found) > 1:
        raise InputError(f"{path}: {key!r} names {len(found)} of its entries; wanted one")
    return found[0] if found else None


def _like(
    name: re.Pattern[str],
    others: Sequence[Entry],
    kinds: str,
    asked: Sequence[str],
    there: Sequence[Entry],
) -> str | None:
    """The vector that is called like this, and as long as what is asked for."""
    long = {entry.shape[0] for entry in there if entry.name in asked and entry.shape}
    for entry in others:
        last = entry.name.rpartition("/")[2]  # of a path
        fits = len(entry.shape) == 1 and (not long or entry.shape[0] in long)
        if fits and entry.kind in kinds and name.fullmatch(last):
            return entry.name
    return None
