"""Where dynamics stand still: compared with systems whose fixed points are known."""

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, InputError, fixed_points
from quick_models import tiny


class TwoWells(nn.Module):
    """x' = x + h (x − x³), y' = y − h y: fixed points at (±1, 0), which attract, and at 0."""

    def forward(self, x, x_next=None, u=None):
        a, b = x.unbind(-1)
        return torch.stack([a + 0.1 * (a - a**3), b - 0.1 * b], -1)


class Echo(nn.Module):
    """x' = 0.5 x + 0.4 (x one step ago) + 0.1, with eigenvalues of λ² = 0.5 λ + 0.4."""

    context = 1

    def forward(self, x, x_next=None, u=None):
        return 0.5 * x[:, 1] + 0.4 * x[:, 0] + 0.1


@pytest.fixture(scope="module")
def around():
    """Points all around zero, with neighbours in time; hardly changed by the encoder below."""
    t = np.linspace(0, 60, 400)
    return np.stack([1.5 * np.sin(t), np.cos(0.7 * t)], 1)


def fitted(as_it_is, X, dynamics, **more):
    settings = {"standardize": False, "max_iter": 1, "learning_rate": 1e-6} | more
    return tiny(2, dynamics, encoder=as_it_is(2), **settings).fit(X)


def test_both_wells_and_the_ridge_between_them_are_found(as_it_is, around):
    found = fixed_points(fitted(as_it_is, around, TwoWells()), around)
    order = np.argsort(found.points[:, 0])
    np.testing.assert_allclose(found.points[order], [[-1, 0], [0, 0], [1, 0]], atol=1e-5)
    # 1 + h (1 − 3 x²) and 1 − h, by hand.
    wanted = [[0.9, 0.8], [1.1, 0.9], [0.9, 0.8]]
    np.testing.assert_allclose(found.eigenvalues[order], wanted, atol=1e-5)
    assert found.stable[order].tolist() == [True, False, True]
    assert found.modes.tolist() == [-1] * 3


def test_points_where_data_never_were_are_left_out(as_it_is, around):
    near = around * [0.3, 1] + [2.0, 0]  # far from the ridge and from the other well
    model = fitted(as_it_is, near, TwoWells())
    x = model.transform(near)
    reach = np.linalg.norm(x - x.mean(0), axis=1).max()
    found = fixed_points(model, near)
    assert len(found.points) < 3
    assert (np.linalg.norm(found.points - x.mean(0), axis=1) <= 1.5 * reach).all()


def test_memory_of_the_dynamics_counts_in_its_eigenvalues(as_it_is, around):
    found = fixed_points(fitted(as_it_is, around, Echo()), around)
    np.testing.assert_allclose(found.points, [[1, 1]], atol=1e-4)  # 0.1 / (1 − 0.9)
    roots = np.roots([1, -0.5, -0.4])
    np.testing.assert_allclose(np.sort(found.eigenvalues[0].real), np.sort(np.r_[roots, roots]),
                               atol=1e-5)  # fmt: skip


def test_each_mode_stands_still_where_its_linear_map_does(two_modes):
    model = DCL(3, "switching", 2, bias=True, max_iter=20, batch_size=64, random_state=0)
    found = fixed_points(model.fit(two_modes), two_modes)
    A = model.dynamics_.linear_maps().detach().numpy().astype(float)
    for point, k, values in zip(found.points, found.modes, found.eigenvalues, strict=True):
        with torch.no_grad():
            b = model.dynamics_.bank(torch.zeros(1, 3))[0, k].numpy()
        np.testing.assert_allclose(point, np.linalg.solve(np.eye(3) - A[k], b), atol=1e-2)
        mine = np.sort_complex(np.linalg.eigvals(A[k]))
        np.testing.assert_allclose(np.sort_complex(values), mine, atol=1e-5)
    assert set(found.modes) <= {0, 1}


def test_two_encoders_have_no_fixed_points(two_modes):
    model = tiny(3, asymmetric=True).fit(two_modes)
    with pytest.raises(InputError, match="asymmetric"):
        fixed_points(model, two_modes)
