"""The benchmark of flows: its figures by hand, its page from rows that are made up."""

from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.flows import judging, summary
from benchmarks.flows.systems import REGIMES

QUIET = REGIMES["quiet"]
ATTRACTOR = SimpleNamespace(lyapunov=1.5)  # per period


def paths(n=50, steps=225):
    return np.random.default_rng(0).standard_normal((n, steps, 3))


def test_a_forecast_that_is_right_holds_to_its_end():
    found = judging.forecasts(paths(), paths(), ATTRACTOR, QUIET)
    assert found["r2_10"] == found["r2_period"] == 1
    assert found["valid"] == pytest.approx(3 * 1.5)  # three periods


def test_a_forecast_holds_until_it_is_off_by_four_tenths_of_the_spread():
    true = paths()
    off = true + np.where(np.arange(225)[:, None] < 75, 0.39, 0.41)
    assert judging.forecasts(off, true, ATTRACTOR, QUIET)["valid"] == pytest.approx(1.5)


def test_a_forecast_that_runs_off_is_worse_than_none():
    true = paths()
    found = judging.forecasts(np.full_like(true, np.inf), true, ATTRACTOR, QUIET)
    assert found["r2_10"] == -np.inf
    assert found["valid"] == 0


def test_the_page_counts_names_and_says_which_rows_are_old():
    forecast = {"r2_10": 0.97, "r2_period": 0.5, "valid": 1.0}
    row = {"name": "Made", "regime": "quiet", "recipe": "old", **forecast}
    known = {"model": "bounds", "leaves": False, "degree": 2, "start": 0.8, "ceiling": 0.999}
    fit = {"model": "flow", "r2": 0.98, "handed_out": "trained", "seconds": 60.0}
    text = summary.page([row | known, row | fit], ["Made", "Other"], "new")
    assert "Rows of 1 of 2 names." in text
    assert "older recipe (old)" in text
    assert "| flow | 1 | 0.019 | 100% | 100% of 1 | 0 | 100% |" in text
