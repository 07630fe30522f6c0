"""Dynamics: what holds of every model that has a name, and the equations of the simplest."""

import pytest
import torch

from dynacl.dynamics import BY_NAME, Identity, Linear, SwitchingLinear, fit_post_hoc
from dynacl.parameters import PARAMETERS


def test_identity_and_linear_follow_their_equations():
    x, u = torch.randn(5, 2), torch.randn(5, 3)
    assert torch.equal(Identity(2)(x), x)
    model = Linear(2, bias=True, n_controls=3)
    torch.nn.init.normal_(model.matrix)
    torch.nn.init.normal_(model.bias)
    torch.nn.init.normal_(model.control)
    expected = x @ model.matrix.T + model.bias + u @ model.control.T
    torch.testing.assert_close(model(x, None, u), expected)


def test_control_must_be_given_where_it_was_built_in():
    with pytest.raises(ValueError, match="u is missing"):
        Linear(2, n_controls=1)(torch.randn(2, 2))


@pytest.mark.parametrize("n_controls", [0, 1])
@pytest.mark.parametrize("name", BY_NAME)
def test_what_a_model_says_of_itself_is_what_it_does(name, n_controls, build):
    f = build(name, 2, n_controls).eval()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((7, f.context + 1, 2) if f.context else (7, 2), generator=generator)
    x_next = torch.randn(7, 2, generator=generator)
    u = torch.randn(7, n_controls, generator=generator) if n_controls else None
    assert f.step(x, u).shape == f(x, x_next, u).shape == (7, 2)
    assert f.takes_control == (n_controls > 0 and name != "identity")
    assert (f.input_map is not None) == f.takes_control
    assert set(f.options) <= {p.name for p in PARAMETERS.values() if p.group == "dynamics"}
    if f.n_modes:
        assert f.n_modes == PARAMETERS["n_modes"].default
        assert f.bank(x, u).shape == (7, f.n_modes, 2)
        assert f.modes(x, x_next, u).shape == (7,)
    else:
        with pytest.raises(TypeError, match="has no modes"):
            f.bank(x, u)
    if f.reads_modes:
        torch.testing.assert_close(f.mode_weights(x).sum(-1), torch.ones(7))
    else:
        with pytest.raises(TypeError, match="does not read modes"):
            f.mode_weights(x)
    maps = f.linear_maps()
    if maps is not None:
        assert maps.shape == (max(1, f.n_modes), 2, 2)


@pytest.mark.parametrize("name", ["linear", "switching", "tiles", "truth"])
def test_linear_maps_are_the_slope_of_each_mode(name, build):
    f = build(name, 3).double()
    for parameter in f.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    x, aside = torch.randn(2, 6, 3).double()
    moved = f.bank if f.n_modes else lambda x: f.step(x)[:, None]
    slope = moved(x + aside) - moved(x)
    torch.testing.assert_close(slope, torch.einsum("kij,nj->nki", f.linear_maps(), aside))


def test_linear_maps_of_a_gated_model_are_the_slope_of_each_mode(build):
    f = build("gated", 3).double()
    f.observe(torch.randn(50, 3).double() * torch.tensor([3.0, 1.0, 0.2]))
    f.matrices.data.normal_()
    x, aside = torch.randn(2, 6, 3).double()
    slope = f.bank(x + aside) - f.bank(x)
    torch.testing.assert_close(slope, torch.einsum("kij,nj->nki", f.linear_maps(), aside))


# -- fitted to latents that are there already ------------------------------------------------------


def pairs(context, scale, n_controls, n=150):
    """Pairs of two linear modes with a curve, a drive and some noise."""
    generator = torch.Generator().manual_seed(1)
    x = scale * torch.randn((n, context + 1, 2) if context else (n, 2), generator=generator)
    now = x[:, -1] if context else x
    maps = torch.eye(2) + 0.3 * torch.randn(2, 2, 2, generator=generator)
    k = torch.randint(2, (n,), generator=generator)
    x_next = torch.einsum("nij,nj->ni", maps[k], now) + 0.2 * scale * torch.sin(now / scale)
    x_next += 0.05 * scale * torch.randn(n, 2, generator=generator)
    u = torch.randn(n, n_controls, generator=generator) if n_controls else None
    if u is not None:
        x_next += 0.3 * scale * u @ torch.randn(n_controls, 2, generator=generator)
    return x, x_next, u


@torch.no_grad()
def one_step_error(f, x, x_next, u):
    return float((f.eval()(x, x_next, u) - x_next).square().mean())


@pytest.mark.parametrize("scale", [1.0, 50.0])
@pytest.mark.parametrize("n_controls", [0, 1])
@pytest.mark.parametrize("name", BY_NAME)
def test_a_fit_to_latents_lowers_the_one_step_error_on_them(name, n_controls, scale, build):
    f = build(name, 2, n_controls)
    x, x_next, u = pairs(f.context, scale, n_controls)
    learned = [p for p in f.parameters() if p.requires_grad]
    before = one_step_error(f, x, x_next, u)
    f.train().refit(x, x_next, u, generator=torch.Generator().manual_seed(0))
    after = one_step_error(f, x, x_next, u)
    assert after < before if learned else after == before


@pytest.mark.parametrize("name", ["linear", "switching", "tiles", "polynomial"])
def test_a_fit_to_latents_does_not_depend_on_where_it_starts(name, build):
    x, x_next, _ = pairs(0, 1.0, 0)
    found = []
    for shake in (0.0, 3.0):
        f = build(name, 2)
        for parameter in f.parameters():
            parameter.data.add_(shake * torch.randn_like(parameter))
        f.refit(x, x_next, generator=torch.Generator().manual_seed(0))
        found.append(f.state_dict())
    for key, value in found[0].items():
        torch.testing.assert_close(value, found[1][key])


@pytest.mark.parametrize("name", BY_NAME)
def test_latents_that_ran_off_change_nothing(name, build):
    f = build(name, 2)
    before = {k: v.clone() for k, v in f.state_dict().items()}
    x, x_next, _ = pairs(f.context, 1.0, 0)
    x_next[3] = torch.inf
    assert fit_post_hoc(f, x, x_next) is f
    for key, value in f.state_dict().items():
        assert torch.equal(value, before[key])


def test_a_control_that_the_model_does_not_take_is_left_aside(build):
    x, x_next, u = pairs(0, 1.0, 1)
    for name in ("linear", "switching", "polynomial"):
        with_u, without = (
            fit_post_hoc(build(name, 2), x, x_next, drive,
                         generator=torch.Generator().manual_seed(0)).state_dict()
            for drive in (u, None)
        )  # fmt: skip
        for key, value in with_u.items():
            assert torch.equal(value, without[key])


def test_mode_is_needed_to_go_on_in_a_switching_model():
    with pytest.raises(ValueError, match="step"):
        SwitchingLinear(2, 2)(torch.randn(2, 2))
