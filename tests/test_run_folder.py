"""A run folder is one thing: replaced as one, for one process at a time, resumed or refused."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

from command_line import dynacl, refusal
from dynacl import DCL, InputError, TimeSeries, writing
from dynacl.cli import fit as fit_command
from dynacl.cli import main
from dynacl.persistence import BESIDE, CHECKPOINT, MODEL, half_made, run_of
from dynacl.sealing import unsealed

warnings.filterwarnings("ignore")
DATA = {"a": 0, "b": 1}
SIZE = ["--components", "2", "--max-iter", "20", "--batch-size", "16", "--device", "cpu",
        "--validation", "off", "--quiet"]  # fmt: skip


class Killed(BaseException):
    """As if the process were gone."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two data sets; for each, a run that was stopped and the same when it was not."""
    p = tmp_path_factory.mktemp("place")
    for name, seed in DATA.items():
        y = np.cumsum(np.random.default_rng(seed).standard_normal((200, 4)), axis=0)
        np.save(p / f"{name}.npy", y)
        stop(p, name, p / f"{name}-stopped")
        shutil.copytree(p / f"{name}-stopped", p / f"{name}-whole")
        dynacl("fit", p / f"{name}.npy", "--out", p / f"{name}-whole", "--resume", "--quiet")
    return p


def stop(place, name, out, *flags):
    """A fit that is killed after its first step, its files written."""
    with pytest.MonkeyPatch.context() as patch:
        keep = fit_command.keep

        def kept_then_killed(*arguments):
            keep(*arguments)
            raise Killed

        patch.setattr(fit_command, "CHECKPOINT_SECONDS", -1.0)
        patch.setattr(fit_command, "keep", kept_then_killed)
        with pytest.raises(Killed), contextlib.redirect_stderr(io.StringIO()):
            main(["fit", str(place / f"{name}.npy"), "--out", str(out), *SIZE, *flags])


def stored(folder):
    tensors = unsealed(folder / MODEL)[0]
    return {name: x.numpy().tobytes() for name, x in tensors.items()}


def kill_at(patch, n):
    """Kill the process, so to speak, before the n-th change that it makes to a folder."""
    calls = []

    def counted(do):
        def wrapped(*arguments, **rest):
            calls.append(do)
            if len(calls) > n:
                raise Killed
            return do(*arguments, **rest)

        return wrapped

    patch.setattr(os, "replace", counted(os.replace))
    patch.setattr(writing.Path, "unlink", counted(writing.Path.unlink))
    return calls


def changes(place, tmp_path):
    """How many changes a fit makes to a folder with an older run in it until it is first kept."""
    shutil.copytree(place / "a-stopped", tmp_path / "counted")
    with pytest.MonkeyPatch.context() as patch:
        calls = kill_at(patch, 1000)
        stop(place, "b", tmp_path / "counted", "--force")
    return len(calls)


def test_force_over_an_older_run_killed_anywhere_resumes_the_right_one_or_says_no(place, tmp_path):
    """Fail at the n-th change for every n: the old run whole, the new one, or a clear refusal."""
    whole = {name: stored(place / f"{name}-whole") for name in DATA}
    old = run_of(place / "a-stopped" / CHECKPOINT)
    total, seen = changes(place, tmp_path), set()
    assert total > 6
    for n in range(total + 1):
        out = tmp_path / str(n)
        shutil.copytree(place / "a-stopped", out)
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, n)
            stop(place, "b", out, "--force")
        begun = run_of(out / CHECKPOINT)
        name = "a" if begun == old else "b"
        other = {"a": "b", "b": "a"}[name]
        seen.add((name, half := half_made(out)))
        if half:
            with pytest.raises(InputError, match="stopped before it had written a model"):
                DCL.load(out)
        else:
            assert DCL.load(out).run_.id == begun
        for file in BESIDE:
            if (out / file).exists() and file.endswith(".json"):
                assert json.loads((out / file).read_text())["run"] == run_of(out / MODEL)
        said = refusal("fit", place / f"{other}.npy", "--out", out, "--resume")
        assert "is not the data that this run was begun with" in said
        dynacl("fit", place / f"{name}.npy", "--out", out, "--resume", "--quiet")
        assert stored(out) == whole[name], n
    assert seen == {("a", False), ("b", True), ("b", False)}


def test_a_fit_that_is_killed_in_its_last_writes_is_brought_to_its_end(place, tmp_path):
    """All steps are done, but the model may be that of an earlier one."""
    command = ["fit", place / "a.npy", "--out", *SIZE]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(io.StringIO()):
        patch.setattr(fit_command, "CHECKPOINT_SECONDS", -1.0)
        calls = kill_at(patch, 1000)
        dynacl(*command[:3], tmp_path / "counted", *SIZE)
    seen = set()
    for n in range(len(calls) - 12, len(calls) - 5, 3):  # in the last look, and after it
        out = tmp_path / str(n)
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(io.StringIO()):
            patch.setattr(fit_command, "CHECKPOINT_SECONDS", -1.0)
            kill_at(patch, n)
            with pytest.raises(Killed):
                main(list(map(str, [*command[:3], out, *SIZE])))
        seen.add(stored(out) == stored(place / "a-whole"))
        if not fit_command._is_whole(out, run_of(out / MODEL)):
            dynacl("fit", place / "a.npy", "--out", out, "--resume", "--quiet")
        assert stored(out) == stored(place / "a-whole"), n
    assert seen == {True, False}


def test_a_half_made_folder_is_begun_anew_without_force(place, tmp_path, capsys):
    shutil.copytree(place / "b-stopped", tmp_path / "run")
    shutil.copy(place / "a-stopped" / MODEL, tmp_path / "run" / MODEL)
    said = refusal("embed", tmp_path / "run", place / "b.npy", "--out", tmp_path / "z.npy")
    assert "--resume goes on with it, without begins anew" in said
    stop(place, "b", tmp_path / "run")
    assert stored(tmp_path / "run") == stored(place / "b-stopped")
    assert "is there already" in refusal("fit", place / "b.npy", "--out", tmp_path / "run")


def test_a_folder_with_leftovers_alone_is_as_good_as_empty(place, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / ".checkpoint.0a1b2c3d.tmp").write_bytes(b"half")
    (out / writing.LOCK).write_text("process 1 on nowhere, since long ago")
    stop(place, "a", out)
    assert sorted(p.name for p in out.iterdir()) == sorted(
        [MODEL, CHECKPOINT, "config.json", *BESIDE]
    )


def test_a_full_disk_at_any_write_leaves_a_run_that_can_be_resumed(place, tmp_path):
    whole = {name: stored(place / f"{name}-whole") for name in DATA}
    old = run_of(place / "a-stopped" / CHECKPOINT)
    for n in range(5):
        out = tmp_path / str(n)
        shutil.copytree(place / "a-stopped", out)
        with pytest.MonkeyPatch.context() as patch:
            fsync, calls = os.fsync, []

            def full(handle, fsync=fsync, calls=calls, n=n):
                calls.append(handle)
                if len(calls) > 2 * n:  # of the file, then of its folder
                    raise OSError(28, "No space left on device")
                fsync(handle)

            patch.setattr(os, "fsync", full)
            patch.setattr(fit_command, "CHECKPOINT_SECONDS", -1.0)
            said = refusal("fit", place / "b.npy", "--out", out, *SIZE, "--force")
        assert "No space left on device" in said
        assert not list(out.glob(".*.tmp"))
        name = "a" if run_of(out / CHECKPOINT) == old else "b"
        dynacl("fit", place / f"{name}.npy", "--out", out, "--resume", "--quiet")
        assert stored(out) == whole[name], n


def test_saving_another_model_takes_the_place_of_a_whole_run(place, tmp_path):
    shutil.copytree(place / "a-whole", tmp_path / "run")
    model = DCL.load(place / "b-whole")
    model.save(tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["config.json", MODEL]
    assert DCL.load(tmp_path / "run").run_.id == model.run_.id


def test_saving_the_same_model_again_keeps_what_is_beside_it(place, tmp_path):
    shutil.copytree(place / "a-whole", tmp_path / "run")
    names = sorted(p.name for p in (tmp_path / "run").iterdir())
    DCL.load(tmp_path / "run").save(tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == names


def test_going_on_with_other_data_is_another_run(place, tmp_path):
    model = DCL.load(place / "a-stopped", checkpoint=True)
    before = model.run_.id
    model.partial_fit(TimeSeries.read(place / "b.npy"), callback=lambda run, _: True)
    assert model.run_.id != before


def test_a_run_can_be_saved_and_resumed_in_python(place, tmp_path):
    a = TimeSeries.read(place / "a.npy")
    model = DCL.load(place / "a-stopped", checkpoint=True).resume(a)
    model.save(tmp_path / "run", checkpoint=True)
    assert stored(tmp_path / "run") == stored(place / "a-whole")


def test_a_fit_that_runs_off_leaves_its_last_good_weights_and_says_why(place, tmp_path):
    out = tmp_path / "run"
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(["fit", str(place / "a.npy"), "--out", str(out), *SIZE,
                     "--learning-rate", "1e30"])  # fmt: skip
    assert code == 1
    assert "lower learning_rate (now 1e+30)" in said.getvalue()
    assert "are kept" in said.getvalue()
    z = DCL.load(out).transform(np.load(place / "a.npy"))
    assert np.isfinite(z).all()
    assert "the loss is" in json.loads((out / "metrics.json").read_text())["error"]
    assert "has no checkpoint to resume from" in refusal(
        "fit", place / "a.npy", "--out", out, "--resume"
    )


# -- one process at a time ---------------------------------------------------------------------

WAITS = """
import sys, time
from pathlib import Path
from dynacl.writing import claimed
with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(60)
"""


def test_a_second_fit_is_refused_with_the_first_ones_number_and_start(place, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    command = [sys.executable, "-c", WAITS, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "claimed\n"
        for flags in ([], ["--force"], ["--resume"]):
            said = refusal("fit", place / "a.npy", "--out", out, *flags)
            assert f"{out}: is in use by process {first.pid} on " in said
            assert ", since 2" in said
        first.kill()
        first.wait()
        assert (out / writing.LOCK).exists()
        stop(place, "a", out)  # what the dead process left is not in the way
    assert not (out / writing.LOCK).exists()


def test_a_folder_that_cannot_be_written_to_fails_before_training(place, tmp_path, monkeypatch):
    def denied(path, *rest, **more):
        raise PermissionError(13, "Permission denied", str(path))

    def trained(*arguments, **more):
        raise AssertionError("it was trained")

    monkeypatch.setattr(DCL, "fit", trained)
    monkeypatch.setattr(writing.Path, "open", denied)
    assert "Permission denied" in refusal("fit", place / "a.npy", "--out", tmp_path / "run")
    monkeypatch.undo()
    monkeypatch.setattr(os, "access", lambda path, how: False)
    monkeypatch.setattr(DCL, "transform", trained)
    said = refusal("embed", place / "a-whole", place / "a.npy", "--out", tmp_path / "z.npy")
    assert f"--out: {tmp_path} cannot be written to" in said
