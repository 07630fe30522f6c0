"""Polynomial flows: the field that was written, and steps of fourth order along it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynacl import InputError, simulate
from dynacl.simulate.flow import ROSSLER, Flow, terms


def made(equations: Any, dt: float = 0.1, **settings: Any) -> Flow:
    powers, coefficients = terms(equations)
    d = len(equations)
    shared = {"noise": np.zeros((d, d)), "warmup": 0} | settings
    return Flow(powers=powers, coefficients=coefficients, dt=dt, **shared)


def test_field_is_what_the_equations_say() -> None:
    x, y, z = np.random.default_rng(0).standard_normal((3, 7))
    found = made(ROSSLER).field(np.stack([x, y, z], axis=1)).T
    np.testing.assert_allclose(found, [-y - z, x + 0.2 * y, 0.2 + x * z - 5.7 * z], rtol=1e-12)


def test_any_degree_and_repeated_components() -> None:
    cubic = made(({(0, 0, 1): 2.0, (1, 0, 0): 1.0}, {(): 3.0}))  # the same monomial, written twice
    np.testing.assert_allclose(cubic.field(np.array([2.0, 5.0])), [3 * 4 * 5, 3])


def test_a_step_is_exact_to_the_fourth_order() -> None:
    errors = []
    for dt in (0.2, 0.1):
        decay = made(({(0,): -1.0},), dt=dt)
        errors.append(abs(decay.move(np.ones(1))[0] - np.exp(-dt)))
    assert 25 < errors[0] / errors[1] < 40  # 2⁵ = 32


def test_warmup_leads_trials_to_the_attractor() -> None:
    fixed = made(({(): 5.0, (0,): -1.0},), warmup=200)  # rests at 5
    np.testing.assert_allclose(fixed.starts(4, np.random.default_rng(0)), 5.0, rtol=1e-6)
    spread = made(({(): 5.0, (0,): -1.0},)).starts(4, np.random.default_rng(0))
    assert spread.std() > 0.1


def test_rossler_turns_as_the_textbook_says() -> None:
    """A turn takes about 5.86 in time, and x3 stays above 0."""
    series = simulate.preset("rossler", rng=np.random.default_rng(0), noise=0.0, trials=2,
                             steps=4000, mixing="none")  # fmt: skip
    x = series.truth.latents[:4000]
    turns = np.unwrap(np.arctan2(x[:, 1], x[:, 0]))
    assert (x[:, 2] > 0).all()
    assert 2 * np.pi * 400 / (turns[-1] - turns[0]) == pytest.approx(5.86, rel=0.03)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"equations": ({(3,): 1.0}, {})}, r"equations: got the product \(3,\) in number 1 of 2"),
        ({"equations": ({}, {})}, "equations: all are empty"),
        ({"dt": 0}, "dt: got 0; wanted a positive number"),
        ({"warmup": -1}, "warmup: got -1"),
    ],
)
def test_what_is_no_flow_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate.flow(rng=np.random.default_rng(0), **settings)
