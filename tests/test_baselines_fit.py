"""Fitting a baseline: seeds, records, interrupts and bad input."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dynacl import InputError, TimeSeries
from dynacl.baselines import BASELINES, changing, fit_baseline


def small(domains: int = 3) -> TimeSeries:
    return changing(rng=np.random.default_rng(0), d=3, domains=domains, sequences=50)


@pytest.mark.parametrize("name", BASELINES)
def test_seeds_reproduce_and_the_truth_is_not_looked_at(name: str) -> None:
    series = small()
    assert series.truth is not None
    domains = series.truth.modes
    blind = replace(series, truth=None)
    fits = [
        fit_baseline(name, data, n_components=3, domains=domains, epochs=3, seed=seed)
        for data, seed in ((series, 1), (blind, 1), (series, 2))
    ]
    first, same, other = (fit.transform(series) for fit in fits)
    assert first.shape == (450, 3)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0.01
    assert fits[0].history[-1]["step"] == 3 * (150 // BASELINES[name].batch_size)


def test_global_randomness_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    fit_baseline("pcl", small(), n_components=3, steps=3)
    assert torch.equal(before, torch.random.get_rng_state())


def test_several_metrics_are_recorded_and_the_best_of_each_found() -> None:
    values = iter([3.0, 1.0, 2.0])
    metric = lambda z: {"a": next(values), "rows": len(z)}
    fitted = fit_baseline("pcl", small(), n_components=3, steps=9, metric=metric, evaluations=3)
    assert (fitted.best("a"), fitted.last("a"), fitted.last("rows")) == (3, 2, 450)
    assert [record["step"] for record in fitted.history] == [3, 6, 9]
    with pytest.raises(InputError, match="mcc"):
        fitted.best("mcc")


def test_interrupt_keeps_what_was_trained() -> None:
    interrupt = lambda z: float(signal.raise_signal(signal.SIGINT) or 0)
    metric = lambda z, calls=[]: 1.0 if calls else (calls.append(1), interrupt(z))[1]
    fitted = fit_baseline("pcl", small(), n_components=3, steps=100, metric=metric, evaluations=10)
    assert fitted.interrupted
    assert fitted.history[-1]["step"] == 11


def test_labels_may_be_any_numbers() -> None:
    series = small()
    assert series.truth is not None
    assert series.truth.modes is not None
    modes = series.truth.modes
    spread = np.where(modes < 0, modes, 7 * modes + 2)
    fits = [
        fit_baseline("tdrl", series, n_components=3, domains=m, steps=3) for m in (modes, spread)
    ]
    np.testing.assert_array_equal(*(fit.transform(series) for fit in fits))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("ivae", {}, "name.*ivae.*tdrl"),
        ("tcl", {}, "domains.*None"),
        ("tdrl", {}, "domains.*None"),
        ("tcl", {"domains": np.zeros(450, dtype=int)}, "one domain"),
        ("tdrl", {"domains": np.zeros(449, dtype=int)}, "domains.*449.*450"),
        ("tdrl", {"domains": np.zeros(450)}, "domains.*float64"),
        ("tdrl", {"domains": np.arange(450)}, "no window"),
        ("pcl", {"n_components": 0}, "n_components"),
        ("pcl", {"n_components": 2.5}, "n_components"),
        ("pcl", {"steps": 0}, "steps"),
        ("pcl", {"epochs": -1}, "epochs"),
        ("pcl", {"epochs": 1, "steps": 1}, "epochs, steps"),
        ("pcl", {"evaluations": 0}, "evaluations"),
        ("pcl", {"seed": "one"}, "seed"),
        ("pcl", {"series": np.zeros((10, 3))}, "8 windows.*32"),
        ("pcl", {"series": np.zeros(10)}, "series"),
    ],
)
def test_bad_input_is_named(name: str, changes: dict[str, Any], message: str) -> None:
    settings = {"series": small(), "n_components": 3} | changes
    with pytest.raises(InputError, match=message):
        fit_baseline(name, **settings)


def test_transform_takes_trials_and_refuses_other_features() -> None:
    series = small()
    fitted = fit_baseline("pcl", series, n_components=3, steps=3)
    trials = series.split(series.observations)
    np.testing.assert_array_equal(fitted.transform(trials), fitted.transform(series))
    with pytest.raises(InputError, match="4 features"):
        fitted.transform(np.zeros((5, 4)))
