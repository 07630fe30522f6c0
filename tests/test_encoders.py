"""Encoders: two for references and positives, and modules of one's own."""

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import InputError, evaluate, simulate
from quick_models import lorenz, small, tiny


def test_asymmetric_encoders_recover_the_sphere_without_a_model_of_the_dynamics():
    data = simulate.sphere(
        rng=np.random.default_rng(2), angle=20, noise=0.1, trials=100, steps=200, observed=10,
        layers=2,
    )  # fmt: skip
    model = small(3, "identity", asymmetric=True, similarity="dot").fit(data)
    assert evaluate(model, data)["r2"] > 0.99
    # h₁ leads to where h₂ puts the next step; the other way round is off by two rotations.
    x, ahead = np.stack(model.transform(data)), np.stack(model.predict(data))
    miss = np.linalg.norm(ahead[:, :-1] - x[:, 1:], axis=2).mean()
    assert miss < 0.5 * np.linalg.norm(ahead[:, 1:] - x[:, :-1], axis=2).mean()
    assert miss < 0.2  # the noise: σ 0.1 in two dimensions


def test_asymmetric_encoders_are_two_and_transform_uses_the_second(rotating):
    model = small(3, "identity", asymmetric=True, max_iter=20).fit(rotating)
    y = torch.from_numpy(rotating.observations[:50])
    with torch.no_grad():
        h1, h2 = model.encoder_.reference(y).numpy(), model.encoder_.target(y).numpy()
    np.testing.assert_array_equal(model.transform(rotating.observations[:50]), h2)
    np.testing.assert_array_equal(model.predict(rotating.observations[:50]), h1)
    assert np.abs(h1 - h2).max() > 1e-3
    with pytest.raises(InputError, match="asymmetric"):
        model.forecast(rotating, 3)


def test_only_whitened_input_gives_a_linear_start():
    assert small(3, "polynomial", max_iter=1).fit(lorenz(5000)).encoder_.linear is not None
    plain = small(3, "polynomial", max_iter=1, standardize=False).fit(lorenz(5000))
    assert plain.encoder_.linear is None


class Convolving(nn.Module):
    def __init__(self):
        super().__init__()
        self.over_lags, self.out = nn.Conv1d(3, 1, 1), nn.Linear(6, 3)

    def forward(self, y):
        return self.out(self.over_lags(y.view(len(y), 3, 6))[:, 0])


def test_encoders_with_other_than_matrices_train(rotating):
    model = tiny(3, encoder=Convolving(), time_lags=(0, 1, 2)).fit(rotating)
    assert [len(x) for x in model.transform(rotating)] == [28] * 4
