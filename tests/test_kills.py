"""SIGKILL at a fit over an older run, by the hundred: `make soak`.

test_run_folder.py holds the same in one process, in which a kill is an exception.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not os.environ.get("DYNACL_SOAK"), reason="takes minutes: make soak"
)


def test_a_fit_that_is_killed_at_any_moment_is_resumed_bit_for_bit(tmp_path):
    script = Path(__file__).with_name("kills.py")
    env = os.environ | {"OMP_NUM_THREADS": "1"}  # pools of threads do not outlive a fork
    done = subprocess.run([sys.executable, script, tmp_path], env=env, stdout=subprocess.PIPE,
                          text=True, check=True)  # fmt: skip
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [x["ended"] for x in told] == [-signal.SIGKILL] * (len(told) - 1) + [0]
    assert all(x["exact"] and x["clean"] for x in told)
    assert {(x["run"], x["half"]) for x in told} == {("a", False), ("b", True), ("b", False)}
    assert any(x["left"] for x in told)  # which the next start has removed
