"""TimeSeries: what goes in comes out, in its trials, without copies that are not needed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynacl import InputError, TimeSeries, simulate
from dynacl.data import Truth, spread_lags


def table(T: int, D: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((T, D)).astype(np.float32)


A, B, C = table(5, seed=1), table(2, seed=2), table(7, seed=3)


def assert_equal_series(a: TimeSeries, b: TimeSeries) -> None:
    np.testing.assert_array_equal(a.observations, b.observations)
    np.testing.assert_array_equal(a.bounds, b.bounds)
    assert (a.control is None) == (b.control is None)
    if a.control is not None:
        np.testing.assert_array_equal(a.control, b.control)
    assert (a.truth is None) == (b.truth is None)
    if a.truth is not None and b.truth is not None:
        np.testing.assert_array_equal(a.truth.latents, b.truth.latents)
        np.testing.assert_array_equal(a.truth.modes, b.truth.modes)
        assert a.truth.system.keys() == b.truth.system.keys()
        for name, value in a.truth.system.items():
            np.testing.assert_array_equal(value, b.truth.system[name])


# -- from memory -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "trials"),
    [
        (A, [A]),
        (A.tolist(), [A]),
        ([A, B, C], [A, B, C]),
        ((A, B), [A, B]),
        ([A.tolist(), B.tolist()], [A, B]),
        ({"monday": A, "tuesday": B}, [A, B]),
        ({"observations": A}, [A]),
        (
            {"observations": np.concatenate([A, B]), "bounds": np.array([0, 5, 7], dtype=np.uint8)},
            [A, B],
        ),
    ],
    ids=["array", "nested lists", "list", "tuple", "lists of lists", "dict", "fields", "bounds"],
)
def test_every_form_of_input_keeps_values_and_trials(X: Any, trials: list[np.ndarray]) -> None:
    series = TimeSeries.of(X)
    assert series.n_trials == len(trials)
    assert series.lengths.tolist() == [len(x) for x in trials]
    assert len(series) == sum(map(len, trials))
    assert (series.n_features, series.n_controls) == (3, 0)
    for got, wanted in zip(series.split(series.observations), trials, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.uint8, bool, object])
def test_observations_are_float32_whatever_numbers_come_in(dtype: Any) -> None:
    X = np.arange(6).reshape(3, 2).astype(dtype)
    series = TimeSeries.of(X)
    assert series.observations.dtype == np.float32
    np.testing.assert_array_equal(series.observations, X.astype(np.float32))


def test_float32_is_not_copied() -> None:
    assert np.shares_memory(TimeSeries.of(A).observations, A)
    assert np.shares_memory(TimeSeries.of([A]).observations, A)
    assert np.shares_memory(TimeSeries.of({"observations": A}).observations, A)
    series = TimeSeries.of(A)
    assert TimeSeries.of(series) is series
    driven = TimeSeries.of(series, u=C[:5])
    assert np.shares_memory(driven.observations, A)
    assert np.shares_memory(driven.control, C)


def test_trial_length_cuts_one_array_into_equal_trials() -> None:
    X = table(12)
    for source in (X, [X], {"observations": X}, TimeSeries.of(X)):
        series = TimeSeries.of(source, trial_length=4)
        assert series.bounds.tolist() == [0, 4, 8, 12]
        assert np.shares_memory(series.observations, X)


def test_control_is_cut_like_the_observations() -> None:
    u = [table(len(x), 2, seed=9 + i) for i, x in enumerate((A, B))]
    for given_u in (u, np.concatenate(u)):
        series = TimeSeries.of([A, B], u=given_u)
        assert series.n_controls == 2
        for got, wanted in zip(series.split(series.control), u, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_control_in_a_dict_goes_by_the_names_of_the_trials() -> None:
    u = {"b": table(len(B), 2, seed=9), "a": table(len(A), 2, seed=10)}
    series = TimeSeries.of({"a": A, "b": B}, u=u)
    np.testing.assert_array_equal(series.control, np.concatenate([u["a"], u["b"]]))
    for X in ([A, B], {"a": A, "c": B}, TimeSeries.of([A, B])):
        with pytest.raises(InputError, match="u: got a dict; wanted arrays, or a dict of trials"):
            TimeSeries.of(X, u=u)


def test_fields_carry_control_and_truth() -> None:
    fields = {"observations": A, "control": C[:5], "latents": A[:, :2], "modes": [0, 1, 1, 0, -1]}
    series = TimeSeries.of(fields | {"system.kind": "mine"})
    np.testing.assert_array_equal(series.control, C[:5])
    assert series.truth is not None
    np.testing.assert_array_equal(series.truth.latents, A[:, :2])
    assert series.truth.modes is not None
    assert series.truth.modes.tolist() == [0, 1, 1, 0, -1]
    assert str(series.truth.system["kind"]) == "mine"


# -- steps and select --------------------------------------------------------------------------


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=8), offset=st.integers(1, 14))
def test_steps_are_all_pairs_inside_a_trial(lengths: list[int], offset: int) -> None:
    series = TimeSeries.of([np.zeros((n, 1), np.float32) for n in lengths])
    naive, start = [], 0
    for n in lengths:
        naive += [start + i for i in range(n) if i + offset < n]
        start += n
    assert series.steps(offset, allow_short=True).tolist() == naive
    if min(lengths) > offset:
        assert series.steps(offset).tolist() == naive
    else:
        first = next(i for i, n in enumerate(lengths) if n <= offset)
        with pytest.raises(InputError, match=rf"trial {first} has {lengths[first]} sample"):
            series.steps(offset)


@given(st.data())
def test_select_gives_these_trials_in_this_order(data: Any) -> None:
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=6))
    T = sum(lengths)
    rows = np.arange(T, dtype=np.float32)[:, None]
    series = TimeSeries(
        rows,
        np.concatenate([[0], np.cumsum(lengths)]),
        control=-rows,
        truth=Truth(2 * rows, np.arange(T), {"kind": np.array("mine")}),
    )
    part = series.select(chosen)
    wanted = [series.split(rows)[i] for i in chosen]
    assert part.lengths.tolist() == [len(x) for x in wanted]
    np.testing.assert_array_equal(part.observations, np.concatenate(wanted))
    np.testing.assert_array_equal(part.control, -part.observations)
    assert part.truth is not None
    np.testing.assert_array_equal(part.truth.latents, 2 * part.observations)
    np.testing.assert_array_equal(part.truth.modes, part.observations[:, 0])
    assert part.truth.system == {"kind": np.array("mine")}


@pytest.mark.parametrize("chosen", [[], [2], [-1]])
def test_select_refuses_trials_that_are_not_there(chosen: list[int]) -> None:
    with pytest.raises(InputError, match="wanted some of 0 to 1"):
        TimeSeries.of([A, B]).select(chosen)


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_control", [False, True])
def test_our_file_gives_the_same_series_back(tmp_path: Path, with_control: bool) -> None:
    rng = np.random.default_rng(0)
    series = simulate.slds(rng=rng, d=2, modes=3, trials=3, steps=4, observed=5, layers=2)
    if with_control:
        series = TimeSeries.of(series, u=rng.standard_normal((12, 2)))
    series.write(tmp_path / "data.npz")
    back = TimeSeries.read(tmp_path / "data.npz")
    assert_equal_series(series, back)
    assert_equal_series(series, TimeSeries.of(tmp_path / "data.npz"))
    again = [simulate.again(s, rng=np.random.default_rng(5)) for s in (series, back)]
    assert_equal_series(*again)  # the system is whole: the file can be drawn from


def test_a_series_without_truth_survives_the_file(tmp_path: Path) -> None:
    series = TimeSeries.of([A, B], u=[A, B])
    series.write(tmp_path / "no_suffix_added")
    (tmp_path / "no_suffix_added").rename(tmp_path / "a.npz")
    assert_equal_series(series, TimeSeries.read(tmp_path / "a.npz"))


def test_npy_is_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", C)
    series = TimeSeries.read(tmp_path / "x.npy", trial_length=7)
    np.testing.assert_array_equal(series.observations, C)
    base: Any = series.observations
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert np.shares_memory(series.observations, base)


def test_npz_of_a_stranger_needs_a_key_only_if_it_holds_several(tmp_path: Path) -> None:
    X, u = table(6).astype(np.float64), table(6, 2, seed=8)
    np.savez(tmp_path / "one.npz", spikes=X)
    np.testing.assert_array_equal(TimeSeries.read(tmp_path / "one.npz").observations, X)
    np.savez(tmp_path / "two.npz", spikes=X, torque=u)
    series = TimeSeries.read(
        tmp_path / "two.npz", key="spikes", control_key="torque", trial_length=3
    )
    assert_equal_series(series, TimeSeries.of([X[:3], X[3:]], u=u))
    with pytest.raises(InputError, match=r"several arrays \(spikes, torque\); choose one with key"):
        TimeSeries.read(tmp_path / "two.npz")
    with pytest.raises(InputError, match="no array 'rates'; it has spikes, torque"):
        TimeSeries.read(tmp_path / "two.npz", key="rates")


@pytest.mark.parametrize("separator", [",", ";", "\t", " ", ", "])
@pytest.mark.parametrize("header", ["a b c", '"a" "b" "c"', "# a b c", None])
def test_csv_is_read_with_any_separator_and_header(
    tmp_path: Path, separator: str, header: str | None
) -> None:
    lines = [separator.join(f"{v:.9g}" for v in row) for row in A]
    if header is not None:
        mark, names = ("# ", header[2:]) if header[0] == "#" else ("", header)
        lines.insert(0, mark + names.replace(" ", separator))
    path = tmp_path / "x.csv"
    for encoding in ("utf-8", "utf-8-sig"):  # with a byte-order mark, as spreadsheets write it
        path.write_text("\n".join(lines) + "\n", encoding=encoding)
        np.testing.assert_array_equal(TimeSeries.read(path).observations, A)
    if header is not None:
        np.testing.assert_array_equal(TimeSeries.read(path, key="c,a").observations, A[:, [2, 0]])
        rest = TimeSeries.read(path, control_key="b")  # what drives is not observed
        assert_equal_series(rest, TimeSeries.of(A[:, [0, 2]], u=A[:, [1]]))


def test_csv_of_one_column_or_one_row_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "column.csv").write_text("1\n2\n3\n")
    assert TimeSeries.read(tmp_path / "column.csv").observations.tolist() == [[1], [2], [3]]
    (tmp_path / "row.csv").write_text("1,2,3\n")
    assert TimeSeries.read(tmp_path / "row.csv").observations.tolist() == [[1, 2, 3]]


class Bomb:
    """Unpickling this is the attack."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "raw.npz", "raw.npy", "ours.npz"])
def test_pickle_is_never_loaded(tmp_path: Path, name: str) -> None:
    bomb = np.array([[Bomb()]], dtype=object)
    path = tmp_path / name
    if name.startswith("raw"):
        path.write_bytes(pickle.dumps(Bomb()))
    elif name == "ours.npz":
        np.savez(path, observations=A, extra=bomb)
    else:
        (np.savez if name == "x.npz" else np.save)(path, bomb)
    with pytest.raises(InputError, match="holds Python objects, which are never loaded"):
        TimeSeries.read(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_a_file_cut_short_is_refused(tmp_path: Path, suffix: str, share: float) -> None:
    path = tmp_path / f"x{suffix}"
    (np.savez_compressed if suffix == ".npz" else np.save)(path, table(50))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match="cannot be read"):
        TimeSeries.read(path)


def test_a_file_with_flipped_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, table(50))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        TimeSeries.read(path)


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [([10, 100], [10, 40]), ([100], [50]), ([20, 20, 20], [20, 20]), ([10, 10], [10, 10])],
)
def test_head_takes_what_fits_and_no_cut_shorter_than_a_trial(lengths, kept):
    rows = np.arange(2.0 * sum(lengths)).reshape(-1, 2)
    series = TimeSeries.of(np.split(rows, np.cumsum(lengths)[:-1]))
    head = series.head(50)
    assert head.lengths.tolist() == kept
    assert np.shares_memory(head.observations, series.observations)  # no copy of what is wide
    np.testing.assert_array_equal(head.observations, series.observations[: sum(kept)])


@pytest.mark.parametrize(
    ("k", "window", "lags"),
    [
        (3, 5, (0, 2, 4)),
        (4, 10, (0, 3, 6, 9)),
        (4, 4, (0, 1, 2, 3)),
        (1, 7, (0,)),
        (4, 6, (0, 2, 3, 5)),  # as near as whole steps allow
    ],
)
def test_lags_are_spread_over_the_whole_window(k, window, lags):
    assert spread_lags(k, window) == lags


@pytest.mark.parametrize(("k", "window"), [(0, 5), (6, 5)])
def test_lags_that_a_window_cannot_hold_are_refused(k, window):
    with pytest.raises(InputError, match=f"k: got {k} lags in {window} steps"):
        spread_lags(k, window)
