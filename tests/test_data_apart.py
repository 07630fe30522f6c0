"""Reading in a process apart: its time and its room."""

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dynacl.data.formats import BY_SUFFIX, apart


def test_a_library_that_finds_no_end_of_a_file_is_stopped(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"")
    child = os.fork()
    if child == 0:
        apart.SECONDS = 1
        apart._bound_time(path)
        while True:
            pass
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGXCPU


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
