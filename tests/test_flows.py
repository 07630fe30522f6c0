"""Equations of the flow in true coordinates: exact for an exact model."""

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import InputError, TimeSeries, equations, simulate
from dynacl.dynamics import (
    fit_post_hoc,
)
from quick_models import lorenz, small, tiny


def exact(series, moved, **changed):
    """A model whose latents are the observations, with a quadratic map fitted to where they go."""
    d = series.n_features
    unmixed = nn.Linear(d, d, bias=False)
    with torch.no_grad():
        unmixed.weight.copy_(torch.eye(d))
    settings = {"encoder": unmixed, "max_iter": 1, "learning_rate": 1e-9} | changed
    model = small(d, "polynomial", **settings).fit(series)
    fit_post_hoc(model.dynamics_.double(), torch.from_numpy(series.observations).double(), moved)
    return model


def test_equations_are_exact_for_an_exact_model():
    """Latents in other coordinates and a quadratic map fitted to them: the truth comes back."""
    data = lorenz(5000)
    latents = torch.from_numpy(data.truth.latents).double()
    M = torch.tensor([[1.0, 0.3, 0], [0, 0.5, 0.2], [0.1, 0, 2.0]]).double()
    x, moved = (
        latents @ M.T,
        simulate.system(data.truth.system).oracle().double()(latents).detach() @ M.T,
    )
    series = TimeSeries(x.float().numpy(), data.bounds, truth=data.truth)
    flow = equations(exact(series, moved), series, tolerance=1e-4)
    np.testing.assert_allclose(flow["recovered"], flow["true"], atol=0.01)
    # −x2 is 0.2 % of the flow of x2: by default the other terms take it over.
    assert equations(exact(series, moved), series)["recovered_text"][1].count("x") == 4


@pytest.mark.parametrize(
    ("make", "offset", "growth", "settings"),
    [(simulate.lds, 3, 1, {}), (simulate.sphere, 1, 2, {"similarity": "dot"})],
    ids=["over several steps", "on the sphere, where lengths are free"],
)
def test_equations_are_the_mean_flow_of_a_step(make, offset, growth, settings):
    data = make(rng=np.random.default_rng(0), d=2, angle=20, trials=20, steps=50, mixing="none")
    A = data.truth.system["matrix"]
    over = np.linalg.matrix_power(A, offset)
    series = TimeSeries(data.truth.latents, data.bounds, truth=data.truth)
    moved = growth * torch.from_numpy(data.truth.latents @ over.T)
    flow = equations(exact(series, moved, time_offset=offset, **settings), series)
    linear = [flow["monomials"].index(name) for name in ("x1", "x2")]
    for side in ("recovered", "true"):
        np.testing.assert_allclose(flow[side][:, linear], (over - np.eye(2)) / offset, atol=1e-3)
        assert np.abs(np.delete(flow[side], linear, axis=1)).max() < 1e-3


@pytest.mark.parametrize(
    ("make", "changed", "message"),
    [
        (simulate.lds, {"n_components": 2}, "n_components: got 2; wanted 3"),
        (simulate.lds, {"n_components": 4, "standardize": False}, "n_components: got 4; wanted 3"),
        (simulate.lds, {"asymmetric": True}, "asymmetric: "),
        (simulate.controlled, {}, "data: carries no true system without modes and control"),
    ],
)
def test_equations_are_refused_where_they_mean_nothing(make, changed, message):
    data = make(rng=np.random.default_rng(0), d=3, trials=3, steps=30, observed=6, layers=1)
    series = TimeSeries(data.observations, data.bounds, truth=data.truth)  # control left out
    model = tiny(changed.pop("n_components", 3), "polynomial", **changed).fit(series)
    with pytest.raises(InputError, match=message):
        equations(model, series)
