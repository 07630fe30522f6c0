"""Reading in a process apart: its time and its room."""

import mmap
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from dynacl import InputError
from dynacl.data.formats import BY_SUFFIX, apart


def test_a_library_that_finds_no_end_of_a_small_file_is_stopped_soon(tmp_path, monkeypatch):
    """By the processor's time, which a busy machine does not spend."""
    path = tmp_path / "x.h5"
    path.write_bytes(b"")
    assert apart.longest(path) == 2.0
    monkeypatch.setattr(apart, "SECONDS", 0.1)
    child = os.fork()
    if child == 0:
        apart.bound_time(path)
        while True:
            pass
    _, status, used = os.wait4(child, 0)
    assert os.WTERMSIG(status) == signal.SIGPROF
    assert 0.1 <= used.ru_utime + used.ru_stime < 2.0


def test_a_file_that_has_no_end_is_refused_in_one_sentence(tmp_path, monkeypatch):
    path = tmp_path / "x.h5"
    path.write_bytes(b"")
    (tmp_path / "endless.py").write_text(ENDLESS)
    (tmp_path / "library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    from endless import Endless, Late

    with pytest.raises(InputError, match=r"x\.h5: cannot be read: damaged; .* found no end of it"):
        apart.entries(Endless(), path)
    ((loaded_in_time_of_the_file, _, _),) = apart.entries(Late(), path)
    assert loaded_in_time_of_the_file == "False"  # nor in its room, which is less than it takes


ENDLESS = """
from dynacl.data.formats.hdf5 import Entry, Hdf5


class Endless(Hdf5):
    def entries(self, path):
        while True:
            pass


class Late(Hdf5):
    libraries = ("library",)

    def entries(self, path):
        import library

        return [Entry(str(library.TIMED), (), "f")]
"""
LIBRARY = """
import signal
import numpy
TAKEN = numpy.empty(200 << 20, dtype=numpy.uint8)
TIMED = signal.getitimer(signal.ITIMER_PROF)[0] > 0
"""


def test_large_files_have_time_in_proportion():
    assert longest_of(150_000) > 5  # NWB with its own specification takes 0.8 s
    assert longest_of(10**9) == pytest.approx(1062)
    assert longest_of(4_000) < 2.1


def longest_of(size):
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return apart.longest(Path(f"/proc/self/fd/{file.fileno()}"))


def test_a_library_has_room_whatever_threads_have_mapped_and_no_more(tmp_path):
    """On a machine of many cores, the pools of threads alone map gigabytes that nobody touches."""
    path = tmp_path / "x.h5"
    path.write_bytes(b"")
    child = os.fork()
    if child == 0:
        with mmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE):
            apart.bound_memory(BY_SUFFIX[".h5"], path)
            try:
                few = np.ones(32 << 20, dtype=np.uint8)
                np.ones(apart.most(BY_SUFFIX[".h5"], path), dtype=np.uint8)
            except MemoryError:
                os._exit(7 if "few" in locals() else 8)
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_reading_parquet_asks_for_little_beside_what_it_reads(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="parquet is written with pyarrow")
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"a": np.arange(3.0), "b": np.arange(3.0)}), path)
    program = f"""
from pathlib import Path
from dynacl.data.formats.parquet import Parquet
Parquet().read(Path({str(path)!r}), ["a", "b"])
status = dict(line.split(":") for line in open("/proc/self/status"))
print(int(status["VmData"].split()[0]))
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert int(ran.stdout) << 10 < 2 * BY_SUFFIX[".parquet"].room, ran.stderr
