"""When a recording is in which mode, when it switches, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dynacl.data import Array, InputError
from dynacl.decoding import lasting
from dynacl.values import Whole

SURE = 0.95  # posterior of a mode, from which it is taken for certain


@dataclass(frozen=True)
class Segmentation:
    """Segments of trials, each in one mode. `str` shows a table of the modes.

    modes: of each step that has one, per trial. posterior: how likely each mode is there, (n_i, K),
    given the whole trial. first: the step of the first of them; steps before it have no full window
    of time lags. times: of all steps of each trial, if they are known.
    """

    modes: list[Array]
    posterior: list[Array]
    first: int = 0
    times: list[Array] | None = None

    @property
    def n_modes(self) -> int:
        return int(self.posterior[0].shape[1])

    @cached_property
    def segments(self) -> dict[str, Array]:
        """One row per segment, as columns.

        trial; mode; start, the first step, and stop, the first step after it; duration in steps;
        whole, whether it neither begins nor ends with its trial; certainty, the mean posterior of
        its mode. A segment that does not begin its trial begins with a switch: between the steps
        earliest and latest, by when the posterior has passed from one mode to the other, and with
        switch_certainty: the largest posterior of the mode before and of the mode after, whichever
        is less. With times: start_time and stop_time.
        """
        rows = [row for trial in range(len(self.modes)) for row in self._of_trial(trial)]
        names = rows[0] if rows else {}
        return {name: np.array([row[name] for row in rows]) for name in names}

    @cached_property
    def switches(self) -> Array:
        """How often mode j follows another mode i, (K, K)."""
        counts = np.zeros((self.n_modes, self.n_modes), dtype=np.int64)
        for modes in self.modes:
            before, after = modes[:-1], modes[1:]
            moved = before != after
            np.add.at(counts, (before[moved], after[moved]), 1)
        return counts

    @cached_property
    def transitions(self) -> Array:
        """P[i, j]: the share of steps in mode i that mode j follows, (K, K); NaN: there is none."""
        counts = self.switches.astype(float)
        for modes in self.modes:
            stays = modes[:-1][modes[:-1] == modes[1:]]
            counts += np.diag(np.bincount(stays, minlength=self.n_modes))
        total = counts.sum(1, keepdims=True)
        found: Array = np.where(total > 0, counts / np.maximum(total, 1), np.nan)
        return found

    @cached_property
    def by_mode(self) -> dict[str, Array]:
        """One row per mode, as columns.

        Its share of all steps, the number of its segments, and the mean, median, shortest and
        longest duration in steps; the mean certainty. Segments that their trial cuts off count as
        long as they were seen: without them, long ones would be missing.
        """
        all_steps = sum(map(len, self.modes))
        found: dict[str, list[float]] = {name: [] for name in (
            "mode", "share", "segments", "mean", "median", "shortest", "longest", "certainty",
        )}  # fmt: skip
        for k in range(self.n_modes):
            mine = self.segments["mode"] == k
            steps = self.segments["duration"][mine]
            used = len(steps) > 0
            total = self.segments["duration"][mine].sum()
            certainty = (self.segments["certainty"] * self.segments["duration"])[mine].sum()
            values = (
                k, total / all_steps, mine.sum(),
                *(float(f(steps)) if used else np.nan for f in (np.mean, np.median, min, max)),
                certainty / total if used else np.nan,
            )  # fmt: skip
            for name, value in zip(found, values, strict=True):
                found[name].append(value)
        return {name: np.array(values) for name, values in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it; NaN becomes null where it is written."""
        return {
            "segments": _rows(self.segments),
            "modes": _rows(self.by_mode),
            "switches": self.switches.tolist(),
            "transitions": self.transitions.tolist(),
        }

    def __str__(self) -> str:
        head = "mode   share  segments  mean duration    median  shortest   longest  certainty"
        lines = [
            f"{k:>4}{share:>8.1%}{n:>10}{mean:>15.1f}{median:>10.1f}{least:>10.0f}{most:>10.0f}"
            f"{sure:>11.3f}"
            for k, share, n, mean, median, least, most, sure in zip(
                *self.by_mode.values(), strict=True
            )
        ]
        return "\n".join([head, *lines])

    def _of_trial(self, trial: int) -> list[dict[str, Any]]:
        modes, p = self.modes[trial], self.posterior[trial]
        cuts = [0, *(np.flatnonzero(np.diff(modes)) + 1).tolist(), len(modes)]
        rows = []
        for i, (a, b) in enumerate(pairwise(cuts if len(modes) else ())):
            k = int(modes[a])
            row: dict[str, Any] = {
                "trial": trial,
                "mode": k,
                "start": a + self.first,
                "stop": b + self.first,
                "duration": b - a,
                "whole": a > 0 and b < len(modes),
                "certainty": float(p[a:b, k].mean()),
            }
            row |= self._switch(p, cuts[i - 1], a, b, int(modes[a - 1]), k) if i else _no_switch()
            if self.times is not None:
                row["start_time"], row["stop_time"] = self.times[trial][[row["start"], row["stop"]]]
            rows.append(row)
        return rows

    def _switch(self, p: Array, start: int, a: int, b: int, old: int, new: int) -> dict[str, float]:
        """Of the switch at row a, between segments that begin at `start` and end at b."""
        was, becomes = np.flatnonzero(p[start:a, old] >= SURE), p[a:b, new] >= SURE
        earliest = start + int(was[-1]) + 1 if len(was) else start
        latest = a + int(becomes.argmax()) if becomes.any() else b - 1
        sure = min(p[start:a, old].max(), p[a:b, new].max())
        return {
            "earliest": earliest + self.first,
            "latest": latest + self.first,
            "switch_certainty": float(sure),
        }


def segmentation(
    posterior: Sequence[Array],
    min_duration: int = 1,
    first: int = 0,
    times: Sequence[Array] | None = None,
) -> Segmentation:
    """From the posterior of each trial; no segment is shorter than `min_duration` steps.

    Of all such sequences of modes it is the likeliest by the product of posteriors. A trial that is
    shorter than that has one mode.
    """
    if not Whole().accepts(min_duration):
        raise InputError(f"min_duration: got {min_duration!r}; wanted {Whole().wanted}, in steps")
    modes = [lasting(p, int(min_duration)) for p in posterior]
    return Segmentation(modes, list(posterior), first, None if times is None else list(times))


def _no_switch() -> dict[str, float]:
    return dict.fromkeys(("earliest", "latest", "switch_certainty"), float("nan"))


def _rows(columns: dict[str, Array]) -> list[dict[str, Any]]:
    plain = [c.astype(str).tolist() if c.dtype.kind == "M" else c.tolist()
             for c in columns.values()]  # fmt: skip
    return [dict(zip(columns, row, strict=True)) for row in zip(*plain, strict=True)]
