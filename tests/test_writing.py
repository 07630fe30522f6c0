"""A file is written whole or not at all, and what killed processes left goes away."""

import ast
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import dynacl
from dynacl.writing import remove_leftovers, replacing, save_figure, write

SOURCE = Path(dynacl.__file__).parent
# Writes half of a file, says so, and waits to be killed.
HALF = """
import sys, time
from dynacl.writing import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    time.sleep(60)
"""


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def half_written(tmp_path):
    """A process in the middle of replacing tmp_path / "x"."""
    write(tmp_path / "x", b"old")
    command = [sys.executable, "-c", HALF, str(tmp_path / "x")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "half\n"
        yield process
        process.kill()


def test_a_new_file_takes_the_place_of_the_old_one(tmp_path):
    write(tmp_path / "x", b"old")
    with replacing(tmp_path / "x") as file:
        file.write(b"new")
        assert (tmp_path / "x").read_bytes() == b"old"
    assert (tmp_path / "x").read_bytes() == b"new"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("error", [OSError("no space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, error):
    write(tmp_path / "x", b"old")

    def fail():
        with replacing(tmp_path / "x") as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert (tmp_path / "x").read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_end_leaves_the_old_file_alone(tmp_path, monkeypatch, call):
    write(tmp_path / "x", b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*/x'$"):
        write(tmp_path / "x", b"new")
    monkeypatch.undo()
    assert (tmp_path / "x").read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_file_is_on_the_disk_before_it_is_renamed_and_the_folder_after(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    kind = {True: "folder", False: "file"}

    def synced(handle):
        done.append(kind[stat.S_ISDIR(os.fstat(handle).st_mode)])
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("rename"), replace(*paths)))
    write(tmp_path / "x", b"new")
    assert done == ["file", "rename", "folder"]


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path, half_written):
    remove_leftovers(tmp_path)
    assert len(names(tmp_path)) == 2  # it is still being written
    half_written.send_signal(signal.SIGKILL)
    half_written.wait()
    remove_leftovers(tmp_path, "another")
    assert len(names(tmp_path)) == 2
    remove_leftovers(tmp_path, "x")
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"


def test_a_file_that_was_just_made_and_removed_is_made_again(tmp_path, monkeypatch):
    from dynacl import writing

    lock, tries = writing.fcntl.flock, []

    def removed_first(file, how):
        if not tries:
            Path(file.name).unlink()
        tries.append(file)
        lock(file, how)

    monkeypatch.setattr(writing.fcntl, "flock", removed_first)
    write(tmp_path / "x", b"new")
    assert len(tries) == 2
    assert (tmp_path / "x").read_bytes() == b"new"


def test_links_are_followed_and_modes_are_kept(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing/x'$"):
        write(tmp_path / "missing" / "x", b"")
    write(tmp_path / ("n" * 255), b"as long as a name may be")


def test_a_figure_is_written_as_its_suffix_says(tmp_path):
    for suffix, begins in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        save_figure(Figure(figsize=(1, 1)), tmp_path / f"x{suffix}")
        assert (tmp_path / f"x{suffix}").read_bytes().startswith(begins)


def test_nothing_in_the_package_writes_a_file_in_any_other_way():
    """Calls by which a file is written in place, outside of the room that replaces files."""
    in_place = {"write_text", "write_bytes", "savefig", "tofile"}
    for path in SOURCE.rglob("*.py"):
        if path.name == "writing.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in in_place, f"{path}:{node.lineno}: {node.attr}"
