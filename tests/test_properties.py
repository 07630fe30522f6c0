"""What must hold whatever the data are: in which shape they come, and what changes with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from dynacl import DCL, simulate
from dynacl.baselines import LinearStateSpace
from dynacl.data.formats import writable, write_table

quick = settings(max_examples=20, deadline=None, database=None)
seeds = st.integers(0, 2**31 - 1)


def numbers(seed=0, rows=60, columns=4):
    """Numbers that every precision, and seven digits of text, hold exactly."""
    x = np.cumsum(np.random.default_rng(seed).integers(-3, 4, (rows, columns)), axis=0)
    return x - x.min(0)


@pytest.fixture(scope="module")
def hardly_trained():
    """Switching dynamics, hardly trained: these properties do not depend on how good it is."""
    data = simulate.slds(
        rng=np.random.default_rng(0), d=2, modes=2, trials=6, steps=20, observed=4, layers=1
    )
    return DCL(2, "switching", 2, max_iter=5, batch_size=32, random_state=0).fit(data), data


def fitted(X):
    """All that a short fit has learned, in one array."""
    model = DCL(2, max_iter=3, batch_size=16, random_state=0, device="cpu").fit(X)
    parts = (model.encoder_, model.dynamics_)
    return np.concatenate([v.numpy().ravel() for p in parts for v in p.state_dict().values()])


@pytest.fixture(scope="module")
def plain():
    return fitted(numbers().astype(np.float32))


LAYOUTS = {
    "a list of one trial": lambda x, folder: [x],
    "a dict of one trial": lambda x, folder: {"one": x},
    "rows as lists": lambda x, folder: x.tolist(),
    "Fortran order": lambda x, folder: np.asfortranarray(x),
    "every second row and column of a larger array": lambda x, folder: np.kron(
        x, np.ones((2, 2), x.dtype)
    )[::2, ::2],
    "backwards in memory": lambda x, folder: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "read-only": lambda x, folder: _locked(x),
    "a memory map": lambda x, folder: _mapped(x, folder),
    "a memory map in Fortran order": lambda x, folder: _mapped(np.asfortranarray(x), folder),
    **{
        f"{kind}": lambda x, folder, kind=kind: x.astype(kind)
        for kind in ("int8", "uint16", "int64", "float16", "float64", "longdouble", ">f4")
    },
}


def _locked(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def _mapped(x, folder):
    np.save(folder / "x.npy", x)
    return np.load(folder / "x.npy", mmap_mode="r")


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_same_numbers_give_the_same_model_bit_for_bit(layout, plain, tmp_path):
    given = layout(numbers().astype(np.float32), tmp_path)
    np.testing.assert_array_equal(fitted(given), plain)


def _hdf5(path, x):
    h5py = pytest.importorskip("h5py", reason="needs dynacl[files]")
    with h5py.File(path, "w") as file:
        file["x"] = x


BY_OTHERS = {".mat": lambda path, x: savemat(path, {"x": x}), ".h5": _hdf5, ".hdf5": _hdf5}


@pytest.mark.parametrize("suffix", [*writable(), *BY_OTHERS])
def test_every_file_format_gives_the_same_model(suffix, plain, tmp_path):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="needs dynacl[files]")
    path, x = tmp_path / f"x{suffix}", numbers().astype(np.float32)
    if suffix in BY_OTHERS:
        BY_OTHERS[suffix](path, x)
    else:
        write_table(path, {"x": x}, "x")
    np.testing.assert_array_equal(fitted(path), plain)


@quick
@given(st.permutations(range(6)))
def test_order_of_trials_is_the_order_of_what_is_said_of_them(hardly_trained, order):
    model, data = hardly_trained
    trials = data.split(data.observations)
    other = [trials[i] for i in order]
    for say in (
        model.transform,
        model.predict,
        lambda X: model.forecast(X, 3),
        lambda X: model.modes(X, decode="step"),
    ):
        mine, theirs = say(trials), say(other)
        for place, i in enumerate(order):  # products round by their place in a batch
            np.testing.assert_allclose(theirs[place], mine[i], rtol=1e-4, atol=1e-4)


@quick
@given(st.permutations(range(6)), seeds)
def test_order_of_trials_does_not_change_a_linear_fit(order, seed):
    trials = [turned(0.3, 0.05, 100, seed + i) for i in range(6)]
    one = LinearStateSpace(2, (0, 1)).fit(trials)
    other = LinearStateSpace(2, (0, 1)).fit([trials[i] for i in order])
    np.testing.assert_allclose(other.correlations, one.correlations, atol=1e-6)
    np.testing.assert_allclose(eigenvalues(other), eigenvalues(one), atol=1e-6)


def turned(angle, noise, steps, seed):
    """A point that turns by this angle per step, with noise, seen as it is."""
    rng, turn = np.random.default_rng(seed), np.exp(1j * angle * np.arange(steps))
    kicks = noise * (rng.standard_normal(steps) + 1j * rng.standard_normal(steps))
    x = turn * (1 + np.cumsum(kicks / turn))  # what was added at a step turns from there on
    return np.stack([x.real, x.imag], axis=1)


def eigenvalues(model):
    """Of the dynamics, by their angle."""
    A = model.step[: model.n_components].T
    return np.array(sorted(np.linalg.eigvals(A), key=np.angle))


@quick
@given(seeds, st.floats(0.1, 1.2), st.floats(-5, 5))
def test_an_invertible_map_of_observations_changes_neither_correlations_nor_eigenvalues(
    seed, angle, offset
):
    x = turned(angle, 0.1, 600, seed)
    rng = np.random.default_rng(seed)
    left, _, right = np.linalg.svd(rng.standard_normal((2, 2)))
    map_ = left @ np.diag([1.0, rng.uniform(0.2, 5)]) @ right
    one = LinearStateSpace(2, (0, 1)).fit(x)
    other = LinearStateSpace(2, (0, 1)).fit(x @ map_ + offset)
    np.testing.assert_allclose(other.correlations, one.correlations, atol=1e-4)
    np.testing.assert_allclose(eigenvalues(other), eigenvalues(one), atol=1e-4)


@quick
@given(seeds, st.floats(0.1, 1.2))
def test_a_rotation_in_reverse_has_the_same_speed_and_turns_the_other_way(seed, angle):
    x = turned(angle, 1e-3, 200, seed)
    forth, back = (LinearStateSpace(2, (0,)).fit(y) for y in (x, x[::-1]))
    for model in (forth, back):
        np.testing.assert_allclose(np.angle(eigenvalues(model)), [-angle, angle], atol=0.01)
        np.testing.assert_allclose(np.abs(eigenvalues(model)), 1, atol=0.01)
    turns = [signed_angle(model, y) for model, y in ((forth, x), (back, x[::-1]))]
    np.testing.assert_allclose(turns, [angle, -angle], atol=0.01)


def signed_angle(model, y):
    """By how much a prediction turns what is seen, counter-clockwise."""
    starts = np.arange(10, 150)
    now, then = y[starts], model.ahead(y, starts, 1)[:, 0]
    cross = now[:, 0] * then[:, 1] - now[:, 1] * then[:, 0]
    return float(np.median(np.arctan2(cross, (now * then).sum(1))))
