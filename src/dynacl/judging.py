"""The judge inside `fit`: data that are held out, the linear floor, and what is handed out.

A fit starts at the best linear model of its data, judges itself by the prediction of observations
that it does not train on, and never ends below where it started.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dynacl.data import Array, InputError, TimeSeries
from dynacl.prediction import (
    fit_readout,
    held_out,
    horizons_for,
    listed,
    missed_volume,
    room_in,
    shows_whole,
)
from dynacl.progress import share
from dynacl.recipe import FEW_TRIALS
from dynacl.refitting import PAIRS, fit_dynamics, spread
from dynacl.run import Run, Snapshot
from dynacl.sampling import rows

MOST_ROWS = 20_000  # that are held out
COPIED = 1 << 28  # numbers of a series that is copied without a thought: a gigabyte
FEWEST_ROWS = 80  # that can judge
LOOKS = 8  # at held-out data, over the part of the training that has the full horizon
CLEARLY = 0.02  # of the mean logarithm of what is missed: less is noise
BADLY = 0.3  # by which the last look must be worse than the best, for the best to be handed out
PATIENCE = 3  # looks, all badly worse than the best and not gaining, after which training stops …
STEADY = 100  # … but not before so many steps
FAR = 100  # steps ahead by which roll-outs are judged, at most


def split(
    series: TimeSeries, held: float | tuple[int, ...], room: int, least: int
) -> tuple[TimeSeries, TimeSeries | None]:
    """Training and held-out data: whole trials, evenly spread; or the last part of long ones.

    Of a recording that may not fit into memory, the last trials: others would leave gaps, and what
    is between them would have to be copied.

    held: a share of the data, or the indices of trials. room: rows that a window and all of its
    predictions span. It is left out between the two parts of a trial, and a part that has no more
    is no judge. least: rows that a window and its first prediction span; a whole trial that has
    more can judge as far as it goes. None: there is nothing to hold out.
    """
    if isinstance(held, tuple):
        return _without(series, held, least)
    share = min(held, MOST_ROWS / len(series))
    if share * len(series) < FEWEST_ROWS:
        return series, None
    if series.n_trials >= FEW_TRIALS:
        n = max(1, round(share * series.n_trials))
        trials = np.unique(np.linspace(0, series.n_trials - 1, n + 2).round().astype(int)[1:-1])
        if series.observations.size > COPIED:
            trials = np.arange(series.n_trials - n, series.n_trials)
        if not (series.lengths[trials] > least).any():
            return series, None
        return _apart(series, trials)
    if series.observations.size > COPIED:
        return _last_part(series, int(share * len(series)), room)
    ends = (share * series.lengths).astype(int)
    if (ends <= room).any() or (series.lengths - ends - room <= 4 * room).any():
        return series, None
    return series.cut(series.lengths - ends - room), series.cut(series.lengths - ends, last=True)


def _last_part(series: TimeSeries, rows: int, room: int) -> tuple[TimeSeries, TimeSeries | None]:
    """The last rows of the last trial, held out without a copy of the rest."""
    last = series.n_trials - 1
    length = int(series.lengths[last])
    if rows <= room or length - rows - room <= 4 * room:
        return series, None
    kept = series.lengths
    kept[last] -= rows + room
    held = series.select([last]).cut(np.array([length - rows]), last=True)
    return series.cut(kept), held


def _without(
    series: TimeSeries, trials: tuple[int, ...], room: int
) -> tuple[TimeSeries, TimeSeries]:
    """Without trials that the user named."""
    n, said = series.n_trials, ", ".join(map(str, trials))
    if max(trials) >= n or len(trials) == n:
        raise InputError(f"validation: got trials {said}; wanted some of 0 to {n - 1}, not all")
    if not (series.lengths[list(trials)] > room).any():
        raise InputError(f"validation: trials {said} have at most "
                         f"{series.lengths[list(trials)].max()} samples; wanted more than {room}, "
                         "for a window and what is predicted from it")  # fmt: skip
    return _apart(series, np.array(trials))


def _apart(series: TimeSeries, trials: Array) -> tuple[TimeSeries, TimeSeries]:
    kept = np.setdiff1d(np.arange(series.n_trials), trials)
    return series.select(kept.tolist()), series.select(trials.tolist())


def judge_for(run: Run, series: TimeSeries, held: TimeSeries, whole: TimeSeries) -> Judge:
    """Of predictions one step ahead, and as far as observations are correlated, and in between."""
    return Judge(series, held, whole, horizons_for(run, series, held))


def far_ahead(run: Run, seen: TimeSeries, held: TimeSeries | None) -> Callable[[], float] | None:
    """What the run, as it then is, misses of held-out observations near and far ahead.

    The mean logarithm, as of the judge. None: nothing is held out.
    """
    if held is None or not run.encoder.symmetric:
        return None
    furthest = max(1, min(FAR, (room_in(run, held) - 1) // (2 * run.settings.time_offset)))
    horizons = sorted({1, round(furthest**0.5), furthest})
    return lambda: held_out(
        run, held, horizons, readout=fit_readout(run, seen), beside=False
    ).figure()


def begin_at_floor(run: Run, series: TimeSeries) -> None:
    """Let training begin at the best linear model, where nothing is held out to judge it."""
    Judge(series, series, series, horizons_for(run, series, series)).begin(run)


@dataclass
class Judge:
    """Looks at a run now and then, remembers the best, and says in the end what to hand out."""

    training: TimeSeries
    held: TimeSeries
    whole: TimeSeries  # both, and what is between them
    horizons: tuple[int, ...]
    kept_start: bool = False  # whether the start is what was handed out

    def figure(self, run: Run) -> float:
        """The mean logarithm of what the run misses of the held-out observations."""
        training = run.encoder.training
        run.rest()
        ways = [run, *self.without_modes(run)]
        found = [missed_volume(way, self.held, self.horizons) for way in ways]
        if None in found:
            readout, how = fit_readout(run, self.training), (self.held, self.horizons)
            told = [held_out(way, *how, readout=readout, beside=False) for way in ways]
            # One step that is told far better makes up for no roll-out that is worse than the mean.
            strict = run.settings.objective == "prediction"
            found = [one.figure() + (one.beyond() if strict else 0.0) for one in told]
        if training:
            run.wake()
        return min(figure for figure in found if figure is not None)

    def without_modes(self, run: Run) -> list[Run]:
        """The run with one mode for all, fitted to its latents, where its modes are hidden.

        Where noise hides the mode of the pair before, a mode that is held is a guess, and a bad
        figure is no sign of a bad state: one map for all may predict better.
        """
        plain = run.dynamics.one_regime()
        if plain is None:
            return []
        other = copy.copy(run)
        other.dynamics = plain.to(run.device).eval()
        data = rows(self.training, other)
        fit_dynamics(other, data, spread(data)[::5], torch.Generator().manual_seed(0))
        return [other]

    def begin(self, run: Run) -> None:
        """The floor: the encoder's linear start, completed by dynamics of the model's own class."""
        if not run.dynamics.learns:
            return
        before = run.weights()
        if run.encoder.be_linear():
            found = {p: self.complete(run, self.training, p) for p in run.dynamics.penalties}
            penalty = min(found, key=lambda p: found[p].figure)
            run.floor = found[penalty]
            if run.settings.objective == "prediction":
                before = run.floor.weights
            if len(self.whole) < PAIRS:  # once judged, it takes what was held out too
                weights = self.complete(run, self.whole, penalty).weights
                run.floor = Snapshot(run.floor.figure, 0, weights)
        run.restore(before)

    def complete(self, run: Run, series: TimeSeries, penalty: float) -> Snapshot:
        """The run as it is, with dynamics fitted to its latents of this series."""
        data, generator = rows(series, run), torch.Generator().manual_seed(0)
        fit_dynamics(run, data, spread(data), generator, penalty)
        return Snapshot(self.figure(run), 0, run.weights())

    def due(self, run: Run) -> bool:
        """Whether this is a step to look at: some of those that have the full horizon."""
        since, last = run.step - run.settings.several_from, run.step == run.settings.max_iter
        return since > 0 and (since % self.every(run) == 0 or last)

    def every(self, run: Run) -> int:
        return max(1, (run.settings.max_iter - run.settings.several_from) // LOOKS)

    def look(self, run: Run) -> bool:
        """Judge the run as it is; True: it has not gained for long, and training may stop.

        Without a floor it is only looked at: a good prediction alone is no sign of a good state.
        """
        figure = self.figure(run)
        run.judged.append((run.step, figure))
        if run.floor is None:
            return False
        if run.best is None or figure < run.best.figure:
            run.best = Snapshot(figure, run.step, run.weights())
        recent = [figure for _, figure in run.judged[-PATIENCE:]]
        long = len(recent) == PATIENCE and run.step - run.best.step >= STEADY
        gains = recent[-1] < recent[0]
        return long and not gains and min(recent) > run.best.figure + BADLY

    def said_of(self, run: Run) -> str | None:
        """What the run, as it is after its end, misses; None: it is not to be handed out, as it
        predicts no better than its start."""
        figure = self.figure(run)
        good = run.floor is None or figure < run.floor.figure - CLEARLY
        return f"; it misses {_share(figure)} then" if good else None

    def conclude(self, run: Run) -> str:
        """Put the weights in place that predict held-out data best; a sentence on what they miss.

        Where there is no floor, those of the last step stay.
        """
        if not run.judged:
            return ""
        alike = " (all directions of the state counted alike)" if shows_whole(run) else ""
        ahead = f"held-out observations {listed(self.horizons)} ahead{alike}"
        last = run.judged[-1][1]
        if run.floor is None or run.best is None:
            return f"of {ahead}, the model misses {_share(last)}"
        slack = 0.0 if run.settings.objective == "prediction" else BADLY  # it is what is minimised
        ends = run.best.figure if last > run.best.figure + slack else last
        floor = f"the linear start {_share(run.floor.figure)}"
        if run.floor.figure < ends + CLEARLY:  # of two that predict alike, the simpler one
            run.restore(run.floor.weights)
            self.kept_start = True
            return (f"the training does not predict {ahead} clearly better than the linear start: "
                    f"the linear start is handed out; it misses {_share(run.floor.figure)}, "
                    f"the training {_share(ends)}")  # fmt: skip
        if ends < last:
            run.restore(run.best.weights)
            end = run.settings.max_iter
            stopped = f"stopped at step {run.step} of {end}: " if run.step < end else ""
            return (f"{stopped}step {run.best.step} of {end} "
                    f"predicts {ahead} best, and its weights are handed out; they miss "
                    f"{_share(ends)}, {floor}")  # fmt: skip
        return f"of {ahead}, the trained model misses {_share(ends)}, {floor}"


def _share(figure: float) -> str:
    return f"{share(figure)} of the variance"
