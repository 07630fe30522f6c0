"""Dynamics: one signature, the paper's equations, and an oracle that is not told the modes."""

import numpy as np
import pytest
import torch

from dynacl import simulate
from dynacl.dynamics import Identity, Linear, SwitchingLinear, Truth
from dynacl.dynamics.post_hoc import best_modes


def bank(*matrices):
    model = SwitchingLinear(2, len(matrices))
    model.matrices.data = torch.tensor(matrices, dtype=torch.float32)
    return model


TURN, STRETCH = [[0.0, -1.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 2.0]]


def test_identity_and_linear_follow_their_equations():
    x, u = torch.randn(5, 2), torch.randn(5, 3)
    assert torch.equal(Identity()(x), x)
    model = Linear(2, bias=True, n_controls=3)
    torch.nn.init.normal_(model.matrix)
    torch.nn.init.normal_(model.bias)
    torch.nn.init.normal_(model.control)
    expected = x @ model.matrix.T + model.bias + u @ model.control.T
    torch.testing.assert_close(model(x, None, u), expected)


def test_inference_takes_the_mode_of_least_error_without_noise():
    model = bank(TURN, STRETCH).eval()
    x = torch.randn(50, 2)
    k = torch.randint(2, (50,))
    following = torch.stack([model.matrices[i] @ v for i, v in zip(k, x, strict=True)])
    noisy = following + 0.01 * torch.randn(50, 2)
    assert torch.equal(model.modes(x, noisy), k)
    torch.testing.assert_close(model(x, noisy), following)
    assert torch.equal(model(x, noisy), model(x, noisy))


def test_training_weights_are_the_papers_gumbel_softmax():
    model = bank(TURN, STRETCH).train()
    x, following = torch.randn(6, 2), torch.randn(6, 2)
    model.generator = torch.Generator().manual_seed(3)
    mine = model(x, following)
    gumbel = -torch.log(-torch.log(torch.rand(6, 2, generator=torch.Generator().manual_seed(3))))
    for i in range(6):
        predictions = [W @ x[i] for W in model.matrices]
        errors = torch.stack([(p - following[i]).square().sum() for p in predictions])
        z = torch.softmax(1 / errors + gumbel[i], dim=0)
        torch.testing.assert_close(mine[i], z[0] * predictions[0] + z[1] * predictions[1])


def test_mean_logits_are_d_times_sharper_than_the_text():
    x, following = torch.randn(6, 2), torch.randn(6, 2)
    model = bank(TURN, STRETCH).train()
    model.logits, model.generator = "mean", torch.Generator().manual_seed(3)
    errors = (model.bank(x) - following[:, None]).square().sum(-1)
    gumbel = -torch.log(-torch.log(torch.rand(6, 2, generator=torch.Generator().manual_seed(3))))
    z = torch.softmax(2 / errors + gumbel, dim=-1)
    torch.testing.assert_close(model(x, following), (z[:, :, None] * model.bank(x)).sum(1))


def test_relative_logits_do_not_depend_on_the_embedding_scale():
    outputs = []
    for scale in (1e-2, 1.0, 1e3):
        model = bank(TURN, STRETCH).train()
        model.logits = "relative"
        model.generator = torch.Generator().manual_seed(0)
        x = torch.randn(8, 2, generator=torch.Generator().manual_seed(1))
        following = torch.randn(8, 2, generator=torch.Generator().manual_seed(2))
        outputs.append(model(scale * x, scale * following) / scale)
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(outputs[1], outputs[2], rtol=1e-3, atol=1e-4)


def test_advance_uses_the_given_modes_and_the_mean_where_none_is_known():
    model = bank(TURN, STRETCH)
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    expected = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 0.5]])
    torch.testing.assert_close(model.advance(x, torch.tensor([0, 1, -1])), expected)


@pytest.mark.parametrize("name", ["lds", "slds", "lorenz"])
def test_oracle_moves_true_latents_to_within_the_noise(name):
    noise = 1e-3
    data = simulate.preset(name, rng=np.random.default_rng(0), noise=noise, trials=5, steps=200)
    x = torch.from_numpy(data.truth.latents)
    t = torch.from_numpy(data.steps())
    for mode in (True, False):  # the oracle chooses hard in training too
        oracle = Truth(data.truth.system).train(mode)
        residual = (oracle(x[t], x[t + 1]) - x[t + 1]).detach()
        assert residual.std().item() == pytest.approx(noise, rel=0.1)


def test_oracle_is_frozen_but_for_the_scale_that_lorenz_needs():
    rng = np.random.default_rng(0)
    slds = simulate.slds(rng=rng, trials=2, steps=10)
    lorenz = simulate.lorenz(rng=rng, steps=10)
    assert not any(p.requires_grad for p in Truth(slds.truth.system).parameters())
    free = [n for n, p in Truth(lorenz.truth.system).named_parameters() if p.requires_grad]
    assert free == ["log_scale"]


def test_lorenz_oracle_commutes_with_its_scale():
    oracle = Truth(simulate.lorenz(rng=np.random.default_rng(0), steps=10).truth.system)
    x = torch.randn(4, 3)
    plain = oracle(x)
    oracle.log_scale.data += np.log(7.0)
    torch.testing.assert_close(oracle(7 * x) / 7, plain)


def test_mode_is_needed_to_advance_a_switching_model():
    with pytest.raises(ValueError, match="advance"):
        bank(TURN, STRETCH)(torch.randn(2, 2))


def test_control_must_be_given_where_it_was_built_in():
    with pytest.raises(ValueError, match="u is missing"):
        Linear(2, n_controls=1)(torch.randn(2, 2))


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize(("bias", "controls"), [(False, 0), (True, 2)])
def test_modes_by_one_product_are_those_of_least_error(scale, bias, controls):
    generator = torch.Generator().manual_seed(0)
    model = SwitchingLinear(3, 40, bias, controls, spread=0.01, generator=generator).double()
    for parameter in (model.bias, model.control):
        if parameter is not None:
            parameter.data.normal_(generator=generator)
    x = scale * torch.randn(2000, 3, generator=generator).double()
    u = torch.randn(2000, controls, generator=generator).double() if controls else None
    true = torch.randint(40, (2000,), generator=generator)
    x_next = (model.advance(x, true, u) + torch.randn(2000, 3, generator=generator)).detach()
    with torch.no_grad():
        errors = (model.bank(x, u) - x_next[:, None]).square().sum(-1)
        found = best_modes(model, x, x_next, u)
    chosen = errors.gather(1, found[:, None])[:, 0]
    torch.testing.assert_close(chosen, errors.amin(1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_controls", [0, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_several_steps_in_one_mode_are_single_steps_one_after_the_other(bias, n_controls):
    generator = torch.Generator().manual_seed(0)
    model = SwitchingLinear(3, 4, bias, n_controls, spread=0.3, generator=generator).double().eval()
    for parameter in model.parameters():
        parameter.data.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    x = torch.randn(50, 3, generator=generator).double()
    k = torch.randint(4, (50,), generator=generator)
    controls = [torch.randn(50, 2, generator=generator).double() if n_controls else None
                for _ in range(5)]  # fmt: skip
    state = x
    for u in controls:
        state = model.advance(state, k, u)
    # The mode whose end is nearest to where mode k ends is k itself.
    torch.testing.assert_close(model.rollout(x, state, controls), state)
