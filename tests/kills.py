"""python kills.py FOLDER: fits over an older run, each killed at another moment, and resumed.

Loads the library once and forks: each fit is a process of its own, and SIGKILL ends it. Prints a
line of JSON per kill.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np

from dynacl import DCL
from dynacl.cli import fit, main
from dynacl.persistence import CHECKPOINT, MODEL, half_made, run_of
from dynacl.sealing import unsealed
from dynacl.writing import LOCK

SIZE = ["--components", "2", "--max-iter", "8", "--batch-size", "16", "--device", "cpu",
        "--validation", "off", "--quiet"]  # fmt: skip
CHANGES = ("replace", "unlink", "fsync", "chmod")
FEW = 60  # things done to files, among them the first whole run; after it, only some are tried


def killed_at(n):
    """From now on this process kills itself when it has done n things to files."""
    done = []

    def counted(do):
        def wrapped(*arguments, **rest):
            done.append(do)
            if len(done) > n:
                os.kill(os.getpid(), signal.SIGKILL)
            return do(*arguments, **rest)

        return wrapped

    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))


def in_a_process(words, n=None):
    """How the command ended: its exit code, or minus the signal."""
    child = os.fork()
    if child == 0:
        fit.CHECKPOINT_SECONDS = -1.0  # at every look
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        if n is not None:
            killed_at(n)
        os._exit(main([str(word) for word in words]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def weights(folder):
    return {name: x.numpy().tobytes() for name, x in unsealed(folder / MODEL)[0].items()}


def every_kill(place):
    whole = {}
    for seed, name in enumerate("ab"):
        y = np.random.default_rng(seed).standard_normal((200, 4)).cumsum(0)
        np.save(place / f"{name}.npy", y)
        words = ["fit", place / f"{name}.npy", "--out", place / name, *SIZE]
        assert in_a_process(words) == 0
        whole[name] = weights(place / name)
    old, out = run_of(place / "a" / CHECKPOINT), place / "run"
    n, ended = 0, -signal.SIGKILL
    while ended == -signal.SIGKILL:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(place / "a", out)
        ended = in_a_process(["fit", place / "b.npy", "--out", out, *SIZE, "--force"], n)
        half, left = half_made(out), len(list(out.glob(".*.tmp")))
        name = "a" if run_of(out / CHECKPOINT) == old else "b"
        if not half:
            DCL.load(out)
        in_a_process(["fit", place / f"{name}.npy", "--out", out, "--resume", "--quiet"])
        clean = not list(out.glob(".*.tmp")) and not (out / LOCK).exists()
        exact = weights(out) == whole[name]
        told = {"n": n, "ended": ended, "run": name, "half": half, "left": left}
        print(json.dumps(told | {"exact": exact, "clean": clean}), flush=True)
        n += 1 if n < FEW else 7


if __name__ == "__main__":
    every_kill(Path(sys.argv[1]))
