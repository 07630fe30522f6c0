"""File formats: what is written can be read, and what cannot be read says why."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from dynacl import InputError, TimeSeries, simulate
from dynacl.data import write_npz
from dynacl.data.formats import BY_SUFFIX, Entry, Format, writable, write_table
from dynacl.data.formats.csv import _written

read = TimeSeries.read


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


# -- series in and out -------------------------------------------------------------------------


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


def test_labels_names_and_times_survive_the_file(tmp_path: Path) -> None:
    stamps = np.datetime64("2026-01-01", "ns") + np.arange(5)
    fields = {"observations": A, "names": list("abc"), "times": stamps,
              "label.action": list("uvwxy"), "label.place": np.arange(5.0)}  # fmt: skip
    TimeSeries.of(fields).write(tmp_path / "x.npz")
    back = TimeSeries.read(tmp_path / "x.npz")
    assert back.names == ("a", "b", "c")
    np.testing.assert_array_equal(back.times, stamps)
    assert back.labels["action"].tolist() == list("uvwxy")
    np.testing.assert_array_equal(back.labels["place"], np.arange(5.0))


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
        tmp_path / "two.npz", key="spikes", control_key="torque", trial_length=3, label_key="torque"
    )
    np.testing.assert_array_equal(series.labels["torque_2"], u[:, 1])
    assert_equal_series(series, TimeSeries.of([X[:3], X[3:]], u=u))
    with pytest.raises(InputError, match=r"\(spikes, torque\); choose one with key="):
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
        told = TimeSeries.read(path, label_key="a,c")
        assert told.names == ("b",)
        np.testing.assert_allclose(told.labels["c"], A[:, 2])


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
        np.savez(path, observations=A, latents=bomb)
    else:
        (np.savez if name == "x.npz" else np.save)(path, bomb)
    with pytest.raises(InputError, match="Python objects, which are never loaded"):
        TimeSeries.read(path)


def test_a_pickle_that_nobody_asks_for_is_not_loaded_either(tmp_path: Path) -> None:
    bomb = np.array([[Bomb()]], dtype=object)
    np.savez(tmp_path / "x.npz", rates=A, bomb=bomb)
    np.testing.assert_array_equal(TimeSeries.read(tmp_path / "x.npz").observations, A)
    with pytest.raises(InputError, match="'bomb' holds Python objects, which are never loaded"):
        TimeSeries.read(tmp_path / "x.npz", key="bomb")


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


# -- files that cannot be used -----------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    p = tmp_path_factory.mktemp("files")
    np.save(p / "x.npy", A)
    np.savez(p / "two.npz", a=A, b=A[:, :2])
    np.savez(p / "objects.npz", np.array([[{}]], dtype=object))
    np.savez(p / "bounds.npz", observations=A, bounds=[0, 50])
    shutil.copy(p / "x.npy", p / "really_npy.npz")
    shutil.copy(p / "two.npz", p / "really_npz.npy")
    (p / "folder").mkdir()
    for name, text in {
        "words.csv": "a,b\n1,2\n1,two\n",
        "ragged.csv": "1,2\n3\n",
        "narrow.csv": "a,b\n1,2,3\n",
        "empty.csv": "",
        "header.csv": "a,b\n",
        "good.csv": "a,b\n1,2\n3,4\n5,6\n",
        "plain.csv": "1,2\n3,4\n",
        "notes.txt": "mine",
        "suffixless": "mine",
    }.items():
        (p / name).write_text(text)
    return p


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda p: read("nowhere.npz"), "nowhere.npz: no such file"),
    "suffix": (lambda p: read(p / "notes.txt"), "cannot read .txt; wanted one of .npy, .npz"),
    "no suffix": (lambda p: read(p / "suffixless"), "cannot read a file without suffix"),
    "folder": (lambda p: read(p / "folder"), "cannot read a file without suffix; wanted"),
    "several arrays": (lambda p: read(p / "two.npz"), "holds several arrays (a, b); choose"),
    "unknown key": (lambda p: read(p / "two.npz", key="c"), "no array 'c'; it has a, b"),
    "unknown u": (lambda p: read(p / "two.npz", key="a", control_key="c"), "no array 'c'"),
    "key of .npy": (lambda p: read(p / "x.npy", key="a"), "has no array 'a'; it has observations"),
    "objects": (lambda p: read(p / "objects.npz"), "but Python objects, which are never"),
    "npy as npz": (lambda p: read(p / "really_npy.npz"), "is an .npy file, not an .npz"),
    "npz as npy": (lambda p: read(p / "really_npz.npy"), "is an .npz archive; rename it"),
    "bounds": (lambda p: read(p / "bounds.npz"), "bounds must rise from 0 to 5"),
    "words": (lambda p: read(p / "words.csv"), "column 'b' has 'two' in row 1; wanted a"),
    "ragged csv": (lambda p: read(p / "ragged.csv"), "invalid column index 1 at row 2"),
    "narrow header": (lambda p: read(p / "narrow.csv"), "has 2 columns, the rows 3"),
    "empty csv": (lambda p: read(p / "empty.csv"), "empty.csv: is empty"),
    "header alone": (lambda p: read(p / "header.csv"), "header.csv: has no rows"),
    "column": (lambda p: read(p / "good.csv", key="a,z"), "no column 'z'; it has a, b"),
    "nameless": (lambda p: read(p / "plain.csv", key="a"), "has no column 'a'; it has 1, 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_is_refused_in_one_sentence(name: str, folder: Path) -> None:
    call, fragment = REFUSED[name]
    with pytest.raises(InputError) as caught:
        call(folder)
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)


# -- tables of results -------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", writable())
def test_a_written_table_of_results_can_be_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"z{suffix}"
    results = {"latents": A, "bounds": np.array([0, 2, 5]), "modes": np.arange(5)}
    write_table(path, results, "latents")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    key = {".npz": "latents", ".npy": None}.get(suffix, "x1,x2,x3")
    back = read(path, key=key)
    np.testing.assert_allclose(back.observations, A, rtol=1e-6)  # seven digits in text


def test_results_keep_all_arrays_in_npz_and_a_header_in_csv(tmp_path: Path) -> None:
    results = {"latents": A, "mode": np.arange(5), "bounds": np.array([0, 2, 5])}
    write_table(tmp_path / "z.npz", results, "latents")
    with np.load(tmp_path / "z.npz") as file:
        assert sorted(file.files) == ["bounds", "latents", "mode"]
        np.testing.assert_array_equal(file["mode"], results["mode"])
    write_table(tmp_path / "z.csv", results, "latents")
    assert (tmp_path / "z.csv").read_text().split("\n")[0] == "mode,x1,x2,x3"


def test_columns_of_results_keep_their_digits_and_names(tmp_path: Path) -> None:
    table = np.array([[1e7 + 0.04, np.nan], [-3.0, 0.1]])
    results = {
        "trial": np.array([0, 1]),
        "y": table,
        "lower": table - 1,
        "names": ["a, b", "trial"],
    }
    write_table(tmp_path / "z.csv", results, "y")
    head, first, second = (tmp_path / "z.csv").read_text().splitlines()
    assert head == 'trial,"a, b","a, b_lower",y_trial,y_trial_lower'
    assert first == "0,10000000.04,9999999.04,,"
    assert second == "1,-3,-4,0.1,-0.9"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_npz(tmp_path / "x.npz", {"a": A})

    def disk_full(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", disk_full)
    with pytest.raises(OSError, match="no space left"):
        write_npz(tmp_path / "x.npz", {"a": B})
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]
    np.testing.assert_array_equal(read(tmp_path / "x.npz").observations, A)


# -- a format of one's own ---------------------------------------------------------------------


class Json(Format):
    def entries(self, path: Path) -> list[Entry]:
        content = json.loads(path.read_text())
        return [Entry(name, np.shape(values), "f") for name, values in content.items()]

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Any]:
        content = json.loads(path.read_text())
        return {name: np.array(content[name], dtype=float) for name in names}

    def write(self, file: BinaryIO, arrays: Any, main: str) -> None:
        text = json.dumps({name: array.tolist() for name, array in arrays.items()})
        file.write(text.encode())


def test_a_new_format_is_one_class_and_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.json"
    X, u = table(6), table(6, 2, seed=8)
    path.write_text("{}")
    with pytest.raises(InputError, match=r"cannot read \.json; wanted one of .*\.nwb$"):
        read(path)
    monkeypatch.setitem(BY_SUFFIX, ".json", Json())
    write_table(path, {"x": X, "y": -X, "torque": u}, "x")
    cut = read(path, key="x", trial_length=3)
    assert_equal_series(cut, TimeSeries.of([X[:3], X[3:]]))
    assert_equal_series(read(path, key="y", control_key="torque"), TimeSeries.of(-X, u=u))
    path.write_text('{"x": [[1, 2], [3, null]]}')
    with pytest.raises(InputError, match=r"mine\.json: observations: holds NaN"):
        read(path)
    path.write_text('{"x": [[1, 2')
    with pytest.raises(InputError, match=r"mine\.json: cannot be read: Expecting"):
        read(path)


def test_names_from_a_file_do_not_make_an_error_long_or_two_lines(tmp_path: Path) -> None:
    long, broken = tmp_path / "long.csv", tmp_path / "broken.npz"
    long.write_text(f"a,{'b' * 5000}\n1,x\n2,3\n4,5\n")
    with pytest.raises(InputError, match="is a name of 5,000 characters; wanted at most 200") as no:
        TimeSeries.read(long)
    assert len(str(no.value)) < 500
    np.savez(broken, **{"one\ntwo": table(6), "three": table(6)})
    with pytest.raises(InputError, match=r"several arrays \('one\\ntwo', three\)"):
        TimeSeries.read(broken)


def test_a_table_is_text_a_few_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = {"latents": A, "modes": np.arange(5)}
    write_table(tmp_path / "whole.csv", results, "latents")
    parts: list[int] = []
    monkeypatch.setattr("dynacl.data.formats.csv.AT_ONCE", 8)  # of four columns
    monkeypatch.setattr(
        "dynacl.data.formats.csv._written", lambda x, do=_written: parts.append(len(x)) or do(x)
    )
    write_table(tmp_path / "parts.csv", results, "latents")
    assert max(parts) == 2
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
