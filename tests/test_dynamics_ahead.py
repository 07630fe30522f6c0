"""The one roll-out: single steps one after the other, whatever the model and whoever asks."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from dynacl import simulate
from dynacl.dynamics import BY_NAME, Custom, SwitchingLinear, follow, reach, rollout

STEPS, N = 5, 30


def states(f, seed=0):
    shape = (N, f.context + 1, 2) if f.context else (N, 2)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def moved(f, x):
    """A model that does something, in double precision: its start is near the identity."""
    f = f.double().eval()
    generator = torch.Generator().manual_seed(2)
    f.observe(x)
    for parameter in f.parameters():
        parameter.data.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return f


def drives(n_controls):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(N, n_controls, generator=generator).double() if n_controls else None
            for _ in range(STEPS)]  # fmt: skip


def shares(f):
    """Weights of the modes, other ones at each step."""
    generator = torch.Generator().manual_seed(4)
    return [torch.rand(N, f.n_modes, generator=generator).double().softmax(-1)
            for _ in range(STEPS)]  # fmt: skip


def one_by_one(f, x, controls, weights=None, project=None):
    path = []
    for j, u in enumerate(controls):
        following = f.step(x, u, None if weights is None else weights[j])
        following = following if project is None else project(following)
        path.append(following)
        x = torch.cat([x[:, 1:], following[:, None]], dim=1) if f.context else following
    return torch.stack(path, dim=1)


@pytest.fixture(params=[0, 1], ids=["free", "driven"])
def n_controls(request):
    return request.param


@pytest.fixture(params=BY_NAME)
def f(request, n_controls, build):
    """Every named model, away from its start."""
    made = build(request.param, 2, n_controls)
    return moved(made, states(made, seed=1))


def test_a_roll_out_is_single_steps_one_after_the_other(f, n_controls):
    x, controls = states(f), drives(n_controls)
    weights = shares(f) if f.n_modes else None
    path = rollout(f, x, controls, weights)
    assert path.shape == (N, STEPS, 2)
    torch.testing.assert_close(path, one_by_one(f, x, controls, weights))


def test_a_roll_out_reads_its_own_modes_where_they_are_not_hidden(f, n_controls):
    x, controls = states(f), drives(n_controls)
    if f.infers_modes:
        with pytest.raises(ValueError, match="x_next, which is missing"):
            rollout(f, x, controls)
    else:
        torch.testing.assert_close(rollout(f, x, controls), one_by_one(f, x, controls))


def test_states_go_back_to_where_they_live_after_each_step(f, n_controls):
    x, controls = states(f), drives(n_controls)
    weights = shares(f) if f.n_modes else None
    project = lambda x: normalize(x, dim=-1)
    path = rollout(f, x, controls, weights, project)
    torch.testing.assert_close(path.norm(dim=-1), torch.ones(N, STEPS).double())
    torch.testing.assert_close(path, one_by_one(f, x, controls, weights, project))


def assert_ends_are_roll_outs(f, x, controls):
    ends = f.ends(x, controls)
    assert ends.shape == (N, f.n_modes, 2)
    for k in range(f.n_modes):
        always = torch.eye(f.n_modes)[k].double().expand(N, -1)
        path = rollout(f, x, controls, [always] * len(controls))
        torch.testing.assert_close(ends[:, k], path[:, -1])


@pytest.mark.parametrize("steps", [1, STEPS])
@pytest.mark.parametrize("name", ["switching", "tiles", "gated"])
def test_the_end_of_a_mode_is_a_roll_out_in_that_mode(name, steps, n_controls, build):
    made = build(name, 2, n_controls)
    f = moved(made, states(made, seed=1))
    assert_ends_are_roll_outs(f, states(f), drives(n_controls)[:steps])


def test_the_end_of_a_true_mode_is_a_roll_out_in_it():
    data = simulate.slds(rng=np.random.default_rng(0), d=2, modes=3, trials=2, steps=5)
    f = simulate.system(data.truth.system).oracle().double()
    assert_ends_are_roll_outs(f, states(f), [None] * STEPS)


def test_the_end_of_a_mode_that_a_module_declares_is_a_roll_out_in_it():
    class Two(torch.nn.Module):
        n_modes = 2

        def bank(self, x, u=None):
            return torch.stack([x.sin(), 2 * x + 1], dim=1)

    f = Custom(Two())
    assert_ends_are_roll_outs(f, states(f), [None] * STEPS)


def test_training_compares_with_the_end_of_the_roll_out(f, n_controls):
    x, goal, controls = states(f), torch.randn(N, 2).double(), drives(n_controls)
    reached = reach(f, x, goal, controls)
    if f.infers_modes:
        ends = f.ends(x, controls)
        nearest = (ends - goal[:, None]).square().sum(-1).argmin(-1)
        torch.testing.assert_close(reached, ends[torch.arange(N), nearest])
    else:
        torch.testing.assert_close(reached, rollout(f, x, controls)[:, -1])


def test_each_row_stops_after_its_own_number_of_steps(f, n_controls):
    x, goal, controls = states(f), torch.randn(N, 2).double(), drives(n_controls)
    steps = torch.arange(N) % STEPS + 1
    if f.infers_modes:
        with pytest.raises(ValueError, match="no mode in common"):
            reach(f, x, goal, controls, steps)
        return
    reached = reach(f, x, goal, controls, steps)
    for row in range(N):
        own = one_by_one(f, x[row : row + 1], [u if u is None else u[row : row + 1]
                                              for u in controls[: steps[row]]])  # fmt: skip
        torch.testing.assert_close(reached[row], own[0, -1])


def test_only_the_last_step_is_shown_its_goal():
    class Curious(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shown = []

        def forward(self, x, x_next=None, u=None):
            self.shown.append(x_next)
            return x + 1

    module = Curious()
    goal = torch.zeros(4, 2)
    path = rollout(Custom(module), torch.zeros(4, 2), [None] * 3, goal=goal)
    assert [shown is goal for shown in module.shown] == [False, False, True]
    assert torch.equal(path[0, :, 0], torch.tensor([1.0, 2.0, 3.0]))


def test_a_window_moves_on_and_a_state_is_replaced():
    window = torch.arange(6.0).view(1, 3, 2)
    new = torch.tensor([[7.0, 8.0]])
    assert follow(window, new).tolist() == [[[2.0, 3.0], [4.0, 5.0], [7.0, 8.0]]]
    assert follow(window[:, -1], new) is new


def test_gradients_of_all_steps_reach_the_dynamics():
    f = SwitchingLinear(2, 2, spread=0.3, generator=torch.Generator().manual_seed(0)).double()
    x, goal = states(f), states(f, seed=1)
    (mine,) = torch.autograd.grad(reach(f.eval(), x, goal, [None] * 3).sum(), f.matrices)
    ends = torch.einsum("kij,nj->nki", f.matrices @ f.matrices @ f.matrices, x)
    nearest = (ends - goal[:, None]).square().sum(-1).argmin(-1)
    assert set(nearest.tolist()) == {0, 1}
    (right,) = torch.autograd.grad(ends[torch.arange(N), nearest].sum(), f.matrices)
    torch.testing.assert_close(mine, right)
