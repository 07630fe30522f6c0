"""One recording in every format is one series; what a file says and does not say is told."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynacl import InputError, TimeSeries
from dynacl.data.formats import BY_SUFFIX, Entry, Format
from dynacl.data.roles import Keys, roles_of

T = 24
RNG = np.random.default_rng(0)
Y, U = RNG.standard_normal((T, 3)), RNG.standard_normal((T, 1))
TRIAL = np.repeat([3, 1, 2], [10, 6, 8])
TIME = 0.5 * np.arange(T)
ACTION = np.where(np.arange(T) % 7 < 3, "rest", "walk")
PLACE = np.linspace(0, 1, T) ** 2
COLUMNS = {"time": TIME, "trial": TRIAL, "a": Y[:, 0], "b": Y[:, 1], "c": Y[:, 2], "force": U[:, 0],
           "action": ACTION, "place": PLACE}  # fmt: skip
ARRAYS = {"rates": Y, "force": U, "trial": TRIAL, "time": TIME, "action": ACTION, "place": PLACE}
TABLE = {"key": "a,b,c", "control_key": "force", "label_key": "action,place", "trial_key": "trial",
         "time_key": "time"}  # fmt: skip
NAMED = TABLE | {"key": "rates"}


def read(path: Path, **asked: Any) -> TimeSeries:
    """As TimeSeries.read, with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return TimeSeries.read(path, **asked)


def text_table(path: Path, separator: str) -> None:
    rows = zip(*COLUMNS.values(), strict=True)
    cells = [list(COLUMNS), *([str(cell) for cell in row] for row in rows)]
    path.write_text("".join(separator.join(line) + "\n" for line in cells))


def hdf5(path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="files are made with h5py")
    with h5py.File(path, "w") as file:
        for name, array in ARRAYS.items():
            if name != "time":
                data = array.astype("S") if array.dtype.kind == "U" else array
                file[f"day 1/{name}"] = data
        file["clock"] = TIME


def mat_7_3(path: Path) -> None:
    """What MATLAB writes: HDF5 with its dimensions the other way round, after a head of text."""
    h5py = pytest.importorskip("h5py", reason="files are made with h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in ARRAYS.items():
            if name != "action":
                file[name] = np.atleast_2d(array) if array.ndim == 1 else array.T
                file[name].attrs["MATLAB_class"] = np.bytes_("double")
        words = file.create_dataset("action", (1, T), dtype=h5py.ref_dtype)
        words.attrs["MATLAB_class"] = np.bytes_("cell")
        for i, word in enumerate(ACTION):
            file[f"#refs#/{i}"] = np.array([[ord(c)] for c in word], dtype=np.uint16)
            file[f"#refs#/{i}"].attrs["MATLAB_class"] = np.bytes_("char")
            words[0, i] = file[f"#refs#/{i}"].ref
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(128))


def mat_5(path: Path) -> None:
    from scipy.io import savemat

    cell = np.empty(T, dtype=object)
    cell[:] = ACTION.tolist()
    savemat(path, {"day": {"rates": Y, "force": U}, **ARRAYS, "action": cell})


def parquet(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="parquet is written with pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(COLUMNS), path)


def nwb(path: Path) -> None:
    pytest.importorskip("pynapple", reason="NWB is read through pynapple")
    pynwb = pytest.importorskip("pynwb", reason="NWB is written with pynwb")
    from datetime import UTC, datetime

    file = pynwb.NWBFile("test", "1", datetime(2026, 1, 1, tzinfo=UTC))
    for name, data in {"rates": Y, "force": U[:, 0], "place": PLACE}.items():
        series = pynwb.TimeSeries(name, data=data, timestamps=TIME, unit="1")
        file.add_acquisition(series)
    for first, last in ((0, 9), (10, 15), (16, 23)):
        file.add_trial(start_time=TIME[first], stop_time=TIME[last])
    for unit in range(2):
        file.add_unit(spike_times=TIME[unit::3] + 0.1)
    with pynwb.NWBHDF5IO(str(path), "w") as io:
        io.write(file)


WITHIN = {"key": "day 1/rates", "control_key": "day 1/force",
          "label_key": "day 1/action,day 1/place", "trial_key": "day 1/trial",
          "time_key": "clock"}  # fmt: skip
FORMATS: dict[str, tuple[Callable[[Path], None], dict[str, str]]] = {
    "x.csv": (lambda p: text_table(p, ","), TABLE),
    "x.tsv": (lambda p: text_table(p, "\t"), TABLE),
    "semicolons.csv": (lambda p: text_table(p, ";"), TABLE),
    "x.npz": (lambda p: np.savez(p, **ARRAYS), NAMED),
    "x.h5": (hdf5, WITHIN),
    "x.mat": (mat_5, NAMED),
    "struct.mat": (mat_5, NAMED | {"key": "day/rates", "control_key": "day/force"}),
    "seven.mat": (mat_7_3, NAMED),
    "x.parquet": (parquet, TABLE),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_recording_is_the_same_series_in_every_format(tmp_path: Path, name: str) -> None:
    write, asked = FORMATS[name]
    write(tmp_path / name)
    series = read(tmp_path / name, **asked)
    np.testing.assert_allclose(series.observations, Y, rtol=1e-6)
    np.testing.assert_allclose(series.control, U, rtol=1e-6)
    assert series.bounds.tolist() == [0, 10, 16, 24]
    np.testing.assert_allclose(series.times, TIME)
    labels = {label.rpartition("/")[2]: values for label, values in series.labels.items()}
    assert labels["action"].tolist() == ACTION.tolist()
    np.testing.assert_allclose(labels["place"], PLACE)
    assert series.names == (("a", "b", "c") if "a,b,c" in asked["key"] else None)
    assert series.control_names == (("force",) if "a,b,c" in asked["key"] else None)


def test_epochs_are_no_series_where_series_bring_their_times() -> None:
    shapes = {"trials": (2, 2), "rates": (24, 3), "rates.times": (24,)}
    there = [Entry(name, shape, "f") for name, shape in shapes.items()]
    assert roles_of(there, Keys(), False, Path("x.nwb")).observations == ("rates",)


@pytest.mark.long  # pynapple takes seconds to import, in each process
def test_nwb_has_series_epochs_and_spikes_in_bins(tmp_path: Path) -> None:
    nwb(tmp_path / "x.nwb")
    asked = {"key": "rates", "control_key": "force", "label_key": "place", "trial_key": "trials"}
    series = read(tmp_path / "x.nwb", **asked)
    np.testing.assert_allclose(series.observations, Y, rtol=1e-6)
    np.testing.assert_allclose(series.control, U, rtol=1e-6)
    np.testing.assert_allclose(series.labels["place"], PLACE)
    np.testing.assert_allclose(series.times, TIME)
    assert series.bounds.tolist() == [0, 10, 16, 24]
    with pytest.warns(UserWarning, match="'place' has 24 samples for .* each step has the last"):
        spikes = TimeSeries.read(tmp_path / "x.nwb", key="units@1.5", label_key="place")
    for unit in range(2):
        at = TIME[unit::3] + 0.1
        inside = [((t - 0.75 <= at) & (at < t + 0.75)).sum() for t in spikes.times]
        assert spikes.observations[:, unit].tolist() == inside
    assert (spikes.observations > 0).any(0).all()
    wanted = [PLACE[t >= TIME][-1] for t in spikes.times]  # the last sample that is known by then
    np.testing.assert_allclose(spikes.labels["place"], wanted)


# -- what nobody named -------------------------------------------------------------------------


def test_a_table_has_its_times_and_trials_recognised_and_its_text_left_out(tmp_path: Path) -> None:
    text_table(tmp_path / "x.csv", ",")
    with pytest.warns(UserWarning, match="is taken for") as said:
        series = TimeSeries.read(tmp_path / "x.csv")
    assert series.names == ("a", "b", "c", "force", "place")
    np.testing.assert_allclose(series.times, TIME)
    assert series.bounds.tolist() == [0, 10, 16, 24]
    sentences = " ".join(str(warning.message) for warning in said)
    assert "'time' is taken for time, not for a feature" in sentences
    assert "'trial' is taken for the trial of each step" in sentences
    assert "holds no numbers in action, which is left out" in sentences


@pytest.mark.parametrize("name", ["time", "Time (s)", "t", "timestamp", "frame_no", ""])
def test_a_time_column_is_no_feature_whatever_its_name(tmp_path: Path, name: str) -> None:
    lines = [f"{name},a", *(f"{t},{y}" for t, y in zip(TIME, Y[:, 0], strict=True))]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match=f"'{name}' is taken for time".replace("(s)", ".s.")):
        series = TimeSeries.read(tmp_path / "x.csv")
    assert series.names == ("a",)
    np.testing.assert_allclose(series.times, TIME)


def test_dates_are_times(tmp_path: Path) -> None:
    stamps = np.datetime64("2026-01-01T10:00") + np.arange(T)
    lines = ["when,a", *(f"{t},{y}" for t, y in zip(stamps, Y[:, 0], strict=True))]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    np.testing.assert_array_equal(read(tmp_path / "x.csv", time_key="when").times, stamps)


def test_what_is_called_time_and_does_not_rise_is_a_feature(tmp_path: Path) -> None:
    lines = ["t,a", *(f"{x},{y}" for x, y in Y[:, :2])]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    series = read(tmp_path / "x.csv")
    assert sorted(series.names or ()) == ["a", "t"]
    assert series.times is None


def test_a_time_that_a_key_names_is_a_feature(tmp_path: Path) -> None:
    text_table(tmp_path / "x.csv", ",")
    series = read(tmp_path / "x.csv", key="time,a", trial_key="trial")
    np.testing.assert_allclose(series.observations[:, 0], TIME)


def test_only_columns_that_are_used_are_parsed(tmp_path: Path) -> None:
    rows = "\n".join(["1,2", *["3,4"] * 300, "5,broken"])
    (tmp_path / "x.csv").write_text(f"a,b\n{rows}\n")
    assert read(tmp_path / "x.csv", key="a").observations[-1].tolist() == [5]
    with pytest.raises(InputError, match="column 'b' has 'broken' in row 301; wanted a number"):
        read(tmp_path / "x.csv", key="b")


def test_keys_may_be_patterns(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", unit_1=Y[:, 0], unit_2=Y[:, 1], other=Y[:, 2])
    series = read(tmp_path / "x.npz", key="unit_*")
    np.testing.assert_allclose(series.observations, Y[:, :2], rtol=1e-6)
    assert series.names == ("unit_1", "unit_2")


def test_commas_in_numbers_and_at_the_ends_of_lines_are_no_columns(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('"V1","V2",\n1.5,2,\n3,4,\n')
    assert read(tmp_path / "x.csv").observations.tolist() == [[1.5, 2], [3, 4]]
    (tmp_path / "y.csv").write_text("a;b\n1,5;2\n3;4,25\n")
    assert read(tmp_path / "y.csv").observations.tolist() == [[1.5, 2], [3, 4.25]]


# -- trials ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "bounds"),
    [
        (TRIAL, [0, 10, 16, 24]),
        (TRIAL.astype(str), [0, 10, 16, 24]),
        ([0, 5, 24], [0, 5, 24]),
        ([20, 4], [0, 20, 24]),
        ([[0, 4], [6, 9]], [0, 4, 7]),
    ],
    ids=["numbers", "names", "bounds", "lengths", "epochs of rows"],
)
def test_trials_come_from_an_array(tmp_path: Path, trials: Any, bounds: list[int]) -> None:
    np.savez(tmp_path / "x.npz", y=Y, trials=trials)
    series = read(tmp_path / "x.npz", key="y", trial_key="trials")
    assert series.bounds.tolist() == bounds
    rows = np.r_[0:4, 6:9] if len(series) < T else np.arange(T)
    np.testing.assert_allclose(series.observations, Y[rows], rtol=1e-6)


def test_epochs_of_time_keep_the_steps_inside_with_all_that_they_carry(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **ARRAYS, epochs=[[1.0, 3.0], [5.1, 5.9], [100.0, 101.0]])
    asked = NAMED | {"trial_key": "epochs"}
    with pytest.warns(UserWarning, match="no step lies in 1 of 3 epochs"):
        series = TimeSeries.read(tmp_path / "x.npz", **asked)
    inside = [2, 3, 4, 5, 6, 11]
    assert series.lengths.tolist() == [5, 1]
    np.testing.assert_allclose(series.observations, Y[inside], rtol=1e-6)
    np.testing.assert_allclose(series.control, U[inside], rtol=1e-6)
    assert series.labels["action"].tolist() == ACTION[inside].tolist()


def test_trials_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", y=Y, trials=[5, 6, 7])
    with pytest.raises(InputError, match=r"trials: got shape \(3,\) for 24 steps; wanted a trial"):
        read(tmp_path / "x.npz", key="y", trial_key="trials")


def test_three_dimensions_are_trials_time_and_features(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", Y.reshape(4, 6, 3))
    with pytest.warns(UserWarning, match="is taken for 4 trials of 6 steps"):
        series = TimeSeries.read(tmp_path / "x.npy")
    np.testing.assert_allclose(series.observations, Y, rtol=1e-6)
    assert series.lengths.tolist() == [6] * 4


def test_a_cell_of_matrices_is_a_series_of_trials(tmp_path: Path) -> None:
    from scipy.io import savemat

    cell = np.empty(2, dtype=object)
    cell[:] = [Y[:10], Y[10:]]
    savemat(tmp_path / "x.mat", {"trials": cell})
    series = read(tmp_path / "x.mat")
    np.testing.assert_allclose(series.observations, Y, rtol=1e-6)
    assert series.bounds.tolist() == [0, 10, 24]


def test_features_by_time_are_turned(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", y=Y.T, u=U.T)
    series = read(tmp_path / "x.npz", key="y", control_key="u", transpose=True)
    np.testing.assert_allclose(series.observations, Y, rtol=1e-6)
    np.testing.assert_allclose(series.control, U, rtol=1e-6)


def test_the_rest_of_a_cut_is_a_shorter_trial_and_said() -> None:
    with pytest.warns(UserWarning, match="7 does not divide the 24 .* last trial has 3"):
        series = TimeSeries.of(Y, trial_length=7)
    assert series.lengths.tolist() == [7, 7, 7, 3]
    with pytest.warns(UserWarning, match="1 of 4 trials have fewer than 5 steps; left out"):
        series = TimeSeries.of(series, min_length=5)
    np.testing.assert_allclose(series.observations, Y[:21], rtol=1e-6)


# -- libraries that fail -----------------------------------------------------------------------


class Crashing(Format):
    apart = True

    def entries(self, path: Path) -> list[Entry]:
        os.abort()

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Any]:
        raise AssertionError


class Greedy(Format):
    apart = True

    def entries(self, path: Path) -> list[Entry]:
        return [Entry("x", np.ones(300 << 20, dtype=np.uint8).shape, "u")]

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Any]:
        raise AssertionError


class Lacking(Format):
    apart = True
    extra = "files"

    def entries(self, path: Path) -> list[Entry]:
        import not_installed  # noqa: F401

        raise AssertionError

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Any]:
        raise AssertionError


@pytest.mark.parametrize(
    ("format", "said"),
    [
        (Crashing(), r"cannot be read: damaged; its library crashed on it$"),
        (Greedy(), "cannot be read: Unable to allocate 300. MiB"),
        (Lacking(), r"not_installed is needed to read it, .*: pip install 'dynacl\[files\]'$"),
    ],
    ids=["crash", "300 MB for no byte", "no library"],
)
def test_a_library_that_fails_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Format, said: str
) -> None:
    (tmp_path / "x.odd").write_text("")
    monkeypatch.setitem(BY_SUFFIX, ".odd", format)
    monkeypatch.syspath_prepend(Path(__file__).parent)
    with pytest.raises(InputError, match=said):
        read(tmp_path / "x.odd")


@pytest.mark.parametrize("suffix", [".h5", ".mat", ".parquet"])
def test_bytes_of_another_kind_are_refused(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"x{suffix}").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 4)
    with pytest.raises(InputError, match=r"cannot be read|is needed to read it"):
        read(tmp_path / f"x{suffix}")
