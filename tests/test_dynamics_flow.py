"""Polynomial flows, beside SciPy's integrator and the equations that made the data."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from dynacl.dynamics import Flow
from dynacl.simulate.flow import runge_kutta

DT = 0.01
LORENZ = {"x1": (-10, 28, 0), "x2": (10, -1, 0), "x3": (0, 0, -8 / 3), "x1·x3": (0, -1, 0),
          "x1·x2": (0, 0, 1)}  # fmt: skip


def field(x):
    x1, x2, x3 = np.moveaxis(np.asarray(x), -1, 0)
    return np.stack([10 * (x2 - x1), x1 * (28 - x3) - x2, x1 * x2 - 8 / 3 * x3], -1)


def known():
    """The flow of Lorenz, in coordinates that are the state itself."""
    f = Flow(3).double().eval()
    for i, name in enumerate(f.monomials.names):
        f.weight.data[:, i] = DT * torch.tensor(LORENZ.get(name, (0, 0, 0))).double()
    f.reach = float("inf")
    return f


def states(n=2000):
    x = np.random.default_rng(0).standard_normal((n, 3))
    for _ in range(500):
        x = runge_kutta(field, x, DT)
    return x


def test_a_step_is_that_of_an_exact_integrator():
    for x in states(5):
        exact = solve_ivp(lambda _, x: field(x), (0, DT), x, rtol=1e-10, atol=1e-10).y[:, -1]
        np.testing.assert_allclose(
            known().step(torch.tensor(x[None])).detach()[0], exact, atol=1e-4
        )


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_leap_is_as_many_steps(steps):
    f, x = known(), torch.tensor(states(50))
    end = x
    for _ in range(steps):
        end = f.step(end)
    torch.testing.assert_close(f.leap(x, steps), end)


def test_least_squares_find_the_field_behind_exact_samples():
    x = torch.tensor(states())
    f = Flow(3).double()
    f.refit(x, torch.tensor(runge_kutta(field, x.numpy(), DT)))
    f.eval()
    z, root = f.whitened(x)
    f.reach = float("inf")
    found = f.field(z) @ root.T / DT
    true = field(x.numpy())
    assert np.abs(found.detach().numpy() - true).max() < 1e-3 * np.abs(true).max()


def test_least_squares_find_the_input_map_too():
    rng = np.random.default_rng(1)
    x, u = states(), rng.standard_normal((2000, 2))
    B = np.array([[1.0, 0.0], [0.5, -0.2], [0.0, 0.3]])
    following = runge_kutta(field, x, DT) + u @ B.T
    f = Flow(3, n_controls=2).double()
    f.refit(torch.tensor(x), torch.tensor(following), torch.tensor(u))
    np.testing.assert_allclose(f.control.detach(), B, atol=1e-3)
    moved = f.eval().step(torch.tensor(x), torch.tensor(u)).detach()
    np.testing.assert_allclose(moved, following, atol=0.05)
    assert f.leap(torch.tensor(x), 2) is None


def test_a_penalty_bends_less():
    x = torch.tensor(states())
    following = torch.tensor(runge_kutta(field, x.numpy(), DT))
    bends = []
    for penalty in (0.0, 0.1):
        f = Flow(3).double()
        f.refit(x, following, penalty=penalty)
        others = np.setdiff1d(np.arange(len(f.monomials)), f.monomials.linear)
        bends.append(f.weight[:, others].square().sum().item())
    assert bends[1] < bends[0]


def test_far_states_do_not_run_off_in_training():
    f = known().train()
    f.reach = 4.0
    far = torch.full((1, 3), 1e3).double()
    assert f.leap(far, 10).abs().max() < 1e5
