"""A few of the damaged and made-up files that `make fuzz` reads by the ten thousand."""

import io
import mmap
import os
import re
import signal
import sys
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # for fuzz, which is not installed

from fuzz.readers import Reader, readers
from fuzz.running import AT_MOST, many

from dynacl import InputError, TimeSeries
from dynacl.data.formats import BY_SUFFIX, entries, format

FEW, SLOW = 60, 2  # inputs; of formats that are read in a process of their own


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return readers(tmp_path_factory.mktemp("originals"), inside=False)


HEAVY = "data.nwb"  # its reader loads a library for seconds, as all tests of NWB do
NAMES = [
    pytest.param(name, marks=pytest.mark.long) if name == HEAVY else name
    for name in sorted(readers(Path("unused")))
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_stranger_s_file_is_read_or_refused_in_one_sentence(known, name, tmp_path):
    try:
        reader = known[name]()
    except LookupError as error:
        pytest.skip(str(error))
    n = SLOW if name.startswith("data.") and BY_SUFFIX[name[4:]].apart else FEW
    tally = many(reader, 0, n, tmp_path)
    assert not tally.wrong
    assert tally.refused + tally.accepted == n
    assert tally.refused  # it does damage files


def test_a_small_file_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(format, "HARMLESS", 1 << 10)
    rng = np.random.default_rng(0)
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros((10_000, 10)))
    np.savez_compressed(tmp_path / "counts.npz", x=rng.poisson(0.1, (10_000, 10)))
    with pytest.raises(InputError, match="would become 800,128; wanted at most 200 times as many"):
        TimeSeries.read(tmp_path / "bomb.npz")
    assert len(TimeSeries.read(tmp_path / "counts.npz")) == 10_000


HUGE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 8)}"
HEADS = {
    "a version that is seldom": (3, HUGE.replace(b"4611686018427387904", b"1000000") + b"\n"),
    "a head without an end": (2, b" "),
}


@pytest.mark.parametrize("head", HEADS)
def test_what_is_in_a_member_is_told_without_reading_it(head, tmp_path):
    """64 MB behind a head of version 3, and 64 MB of head; both are 64 kB in the archive."""
    (version, text), size = HEADS[head], 64 << 20
    honest = io.BytesIO()
    np.save(honest, np.zeros((5, 2)))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", honest.getvalue())
        length = len(text) if version == 3 else size
        start = b"\x93NUMPY" + bytes([version, 0]) + length.to_bytes(4, "little")
        archive.writestr("other.npy", start + text.ljust(size, b"\0" if version == 3 else b" "))
    tracemalloc.start()
    with suppress(InputError):
        assert [e.name for e in entries(tmp_path / "x.npz")] == ["x", "other"]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 << 20


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("head", "said"), [(b"{", "[A-Za-z]"), (HUGE, "array is too big")])
def test_what_numpy_says_of_a_damaged_head_is_one_sentence_and_no_warning(head, said, tmp_path):
    start = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little")
    (tmp_path / "t.npy").write_bytes(start + head)
    with pytest.raises(InputError, match=rf"t\.npy: cannot be read: {said}"):
        TimeSeries.read(tmp_path / "t.npy")


@pytest.mark.parametrize("suffix", [".h5", ".mat"])
def test_a_library_cannot_be_made_to_fill_the_memory(suffix, tmp_path):
    """Of arrays that were never written, HDF5 keeps the shape alone: 8 GB in a small file.

    The same shape, where it is small, is read.
    """
    h5py = pytest.importorskip("h5py", reason="needs dynacl[files]")
    for name, rows in (("small", 10_000), ("large", 10**9)):
        with h5py.File(tmp_path / f"{name}{suffix}", "w") as file:
            file.create_dataset("x", (rows, 1), "f8", chunks=(1_000, 1))
    assert (tmp_path / f"large{suffix}").stat().st_size < 10_000
    assert len(TimeSeries.read(tmp_path / f"small{suffix}")) == 10_000
    with pytest.raises(InputError, match="bytes would become 12,096,000,000; wanted at most"):
        TimeSeries.read(tmp_path / f"large{suffix}")


def test_a_reader_in_a_process_of_many_addresses_has_room(tmp_path):
    """What the process mapped before a child begins is no use of memory by the reader."""

    class Fine(Reader):
        def write(self, place, rng):
            (place / "honest").write_bytes(bytes(1 << 20))
            return True

        def read(self, place):
            return len(np.ones(100 << 20, dtype=np.uint8))

        def original(self, place):
            return 100 << 20

    with mmap.mmap(-1, AT_MOST, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ):
        tally = many(Fine(tmp_path), 0, 1, tmp_path)
    assert (tally.accepted, tally.wrong) == (1, [])


def test_the_harness_tells_what_is_wrong_with_a_reader(tmp_path, monkeypatch):
    """A reader that fails in every way in turn is told of each; else the harness proves nothing."""

    class Bad(Reader):
        def write(self, place, rng):
            (place / "i").write_text(str(int((place / "i").read_text()) + 1))
            return True

        def read(self, place):
            i = int((place / "i").read_text())
            if i == 0:
                raise InputError("as it should be")
            if i == 1:
                raise KeyError("x")
            if i == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            if i == 3:
                np.ones(100 << 20, dtype=np.uint8)
            while i == 6:
                pass
            return "right" if i in (3, 4) else "another"

        def original(self, place):
            return "right"

    place, keep = tmp_path / "place", tmp_path / "kept"
    place.mkdir()
    (place / "i").write_text("-1")
    monkeypatch.setattr("fuzz.running.ENDLESS", 1)
    tally = many(Bad(tmp_path), 0, 7, place, keep)
    said = dict(tally.wrong)
    assert (tally.refused, tally.accepted) == (1, 1)
    assert "KeyError: 'x'" in said[1]
    assert "SIGKILL" in said[2]
    assert re.fullmatch(r"accepted with \d+ MB for 1 bytes", said[3])
    assert said[5] == "accepted, and is not what was written"
    assert "SIGXCPU" in said[6]
    kept = {path.name: (path / "i").read_text() for path in keep.iterdir()}
    assert kept == {str(i): str(i) for i in said}


@pytest.mark.parametrize("promised", [0.0, 1.5])
def test_the_harness_tells_when_a_library_is_stopped_later_than_promised(
    promised, tmp_path, monkeypatch
):
    class Endless(Reader):
        may_crash = True

        def seconds(self, place):
            return promised

        def write(self, place, rng):
            return False

        def read(self, place):
            signal.setitimer(signal.ITIMER_PROF, 1.0)
            while True:
                pass

    monkeypatch.setattr("fuzz.running.SECONDS", 0.2)
    monkeypatch.setattr("fuzz.running.LATE", 0.1)
    tally = many(Endless(tmp_path), 0, 1, tmp_path)
    assert 0.9 < tally.slowest < 1.5
    assert (tally.crashed, len(tally.wrong)) == ((0, 1) if promised == 0 else (1, 0))
    assert promised or "SIGPROF after 1." in tally.wrong[0][1]
