"""Where the encoder starts: at a linear map of the input, or at random weights."""

import numpy as np
import torch

from dynacl import TimeSeries, metrics
from dynacl.encoders import MLP
from dynacl.settings import Settings
from dynacl.subspace import linear_start, principal_components
from dynacl.whitening import whitening


def test_principal_components_are_the_largest_inputs():
    y = np.random.default_rng(0).standard_normal((2000, 5)).astype(np.float32)
    y *= np.float32([3, 1, 0.5, 0.01, 2])
    scaling = whitening(y)
    x = scaling(torch.from_numpy(y)) @ principal_components(scaling, 3).T
    assert metrics.r2(x.numpy(), y[:, [0, 4, 1]]) > 0.99  # the three largest, and nothing else
    assert metrics.r2(x.numpy(), y[:, [2, 3]]) < 0.01


def test_an_encoder_starts_near_its_linear_map_and_can_be_nothing_else():
    y = torch.randn(2000, 5, generator=torch.Generator().manual_seed(0))
    start = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    encoder = MLP(5, 3, linear_start=start, generator=torch.Generator().manual_seed(2))
    assert metrics.r2((y @ start.T).numpy(), encoder(y).detach().numpy()) > 0.95
    assert encoder.be_linear()
    torch.testing.assert_close(encoder(y), y @ start.T)
    assert not MLP(5, 3).be_linear()


def test_sharp_units_bend_at_the_same_places_within_a_shorter_distance():
    y = torch.randn(500, 3, generator=torch.Generator().manual_seed(0))

    def hidden(gain):
        drawn = {"linear_start": torch.eye(3), "generator": torch.Generator().manual_seed(1)}
        return MLP(3, 3, gain=gain, **drawn).layers[0](y)

    torch.testing.assert_close(hidden(8.0), 8 * hidden(1.0))


def test_few_inputs_without_a_linear_start_are_not_folded_by_sharp_units():
    def first(n, gain):
        return MLP(n, 2, gain=gain, generator=torch.Generator().manual_seed(1)).layers[0].weight

    torch.testing.assert_close(first(3, 8.0), first(3, 1.0))
    torch.testing.assert_close(first(5, 8.0), 2 * first(5, 1.0))
    torch.testing.assert_close(first(50, 8.0), 8 * first(50, 1.0))


def test_frames_with_large_noise_channels_start_at_what_can_be_predicted():
    # Two faint channels turn slowly, two loud ones are noise: principal components take these.
    rng, t = np.random.default_rng(0), np.arange(4000)
    slow = 0.1 * np.stack([np.sin(t / 20), np.cos(t / 20)], axis=1)
    y = np.concatenate([slow, 10 * rng.standard_normal((4000, 2))], axis=1).astype(np.float32)
    series = TimeSeries.of(y)
    scaling = whitening(y)
    start = linear_start(series, scaling, None, Settings(), 2).weight
    found = (scaling(torch.from_numpy(y)) @ start.T).numpy()
    loud = (scaling(torch.from_numpy(y)) @ principal_components(scaling, 2).T).numpy()
    assert metrics.r2(slow, found) > 0.99
    assert metrics.r2(slow, loud) < 0.1


def test_a_free_f_and_the_sphere_have_no_linear_start(trials, small):
    assert small(dynamics="identity", max_iter=1).fit(trials).encoder_.linear is not None
    assert small(similarity="dot", max_iter=1).fit(trials).encoder_.inner.linear is None
    assert small(protocol="paper-slds", max_iter=1).fit(trials).encoder_.linear is None


def test_frames_of_as_many_dimensions_as_the_state_have_correlations_too():
    """Three states that fade by themselves: a state and the next one correlate by its factor."""
    rng, fade = np.random.default_rng(0), np.array([0.9, 0.5, 0.0])
    x = np.zeros((20_000, 3))
    for t in range(1, len(x)):
        x[t] = fade * x[t - 1] + np.sqrt(1 - fade**2) * rng.standard_normal(3)
    series = TimeSeries.of(x @ rng.standard_normal((3, 3)))
    for d in (3, 5):  # of five latents, two of a state that is not there
        scaling = whitening(series.observations, None, None, d)
        found = linear_start(series, scaling, None, Settings(), d)
        np.testing.assert_allclose(found.correlations, fade, atol=0.03)
