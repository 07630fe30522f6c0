"""Banks of linear maps: the hard choice at inference, and modes found by one product."""

import pytest
import torch

from dynacl.dynamics import SwitchingLinear, Tiles, rollout

TURN, STRETCH = [[0.0, -1.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 2.0]]


@pytest.fixture(params=[SwitchingLinear, Tiles])
def model(request):
    """Two modes: a quarter turn, and a stretch by two."""
    made = request.param(2, 2)
    made.matrices.data = torch.tensor([TURN, STRETCH])
    return made


def test_inference_takes_the_mode_of_least_error_without_noise(model):
    model.eval()
    x = torch.randn(50, 2)
    k = torch.randint(2, (50,))
    following = torch.stack([model.matrices[i] @ v for i, v in zip(k, x, strict=True)])
    noisy = following + 0.01 * torch.randn(50, 2)
    assert torch.equal(model.modes(x, noisy), k)
    torch.testing.assert_close(model(x, noisy), following)
    assert torch.equal(model(x, noisy), model(x, noisy))


def test_a_step_mixes_the_modes_as_told_and_all_alike_where_none_is_known(model):
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    expected = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 0.5]])
    weights = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    torch.testing.assert_close(model.step(x, None, weights), expected)
    torch.testing.assert_close(model.step(x), expected[2].expand(3, 2))


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
    one_hot = torch.eye(40).double()[true]
    x_next = (model.step(x, u, one_hot) + torch.randn(2000, 3, generator=generator)).detach()
    with torch.no_grad():
        errors = (model.bank(x, u) - x_next[:, None]).square().sum(-1)
        found = model.best_modes(x, x_next, u)
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
    path = rollout(model, x, controls, [torch.eye(4).double()[k]] * len(controls))
    ends = model.ends(x, controls)[torch.arange(50), k]
    torch.testing.assert_close(ends, path[:, -1])


def test_hidden_modes_are_inferred_and_never_read_off_the_state(model):
    assert model.infers_modes
    assert not model.reads_modes
    with pytest.raises(ValueError, match="x_next, which is missing"):
        model.modes(torch.randn(3, 2))
    with pytest.raises(ValueError, match="x_next, which is missing"):
        model(torch.randn(3, 2))


def test_unit_scale_gives_every_mode_predictions_of_unit_length(model):
    x = torch.nn.functional.normalize(torch.randn(200, 2), dim=-1)
    model.unit_scale(x)
    torch.testing.assert_close(model.bank(x).norm(dim=-1), torch.ones(200, 2))


def test_switching_identifies_the_state_and_tiles_do_not():
    assert SwitchingLinear(2, 3).identifies
    assert not Tiles(2, 3).identifies
