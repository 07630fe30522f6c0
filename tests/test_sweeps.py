"""Sweeps among failures: every configuration ends with one result or one recorded error.

DYNACL_SOAK=200 (`make soak`) makes them long, and adds what takes long to start.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

import light_work
from clusters import workers
from dynacl.experiments import engines
from dynacl.experiments.runner import missing, sweep
from dynacl.experiments.store import Store
from small_fits import light

LONG = int(os.environ.get("DYNACL_SOAK", "0"))
only_long = pytest.mark.skipif(not LONG, reason="takes half a minute: make soak")
TESTS = Path(__file__).parent
ENDS = {"kills": "failed", "fails": "failed", "raises": "failed"}  # all others: done


@pytest.fixture
def lightly(monkeypatch):
    monkeypatch.setattr(engines, "run", light_work.work)


def adversity(n, folder, seed=0):
    """Light fits with fates: some fail, are slow, or kill their worker, once or each time."""
    rng, named = random.Random(seed), ["kills", "kills once", "fails", "raises", "slow"]
    fates = named[: 4 if n < 50 else 5] + rng.choices(["", *named], [30, 1, 1, 3, 1, 3], k=n)
    fates = fates[:n]
    rng.shuffle(fates)
    changed = {
        f"fit{i}": {"fate": fate, "sleep": rng.random() * (0.8 if fate == "slow" else 0.05),
                    "where": {"mark": str(folder / f"mark{i}")}}
        for i, fate in enumerate(fates)
    }  # fmt: skip
    return light(n, **changed), [ENDS.get(fate, "done") for fate in fates]


def counted(engine, came):
    """The engine; `came` counts what it gives for each fit."""

    def counting(configs):
        for outcome in engine(configs):
            came.append(outcome.record["config"]["seed"])
            yield outcome

    return counting


def strike(victims, over, seed=0, times=10):
    """Kill a worker now and then, whatever it does: not for ever, or none would ever start."""
    rng = random.Random(seed)
    for _ in range(times):
        if over.wait(rng.random() * 4):
            return
        if pids := victims():
            with suppress(ProcessLookupError):
                os.kill(rng.choice(pids), signal.SIGKILL)


def test_every_fit_ends_once_on_this_machine_whatever_happens(lightly, tmp_path):
    fits, ends = adversity(LONG or 10, tmp_path)
    store, came = Store(tmp_path), []
    sweep(missing(fits, store), store, counted(partial(engines.local, jobs=2), came))
    assert sorted(came) == list(range(len(fits)))
    assert [store.state(f.name) for f in fits] == ends
    assert all(store.get(f.name)["error"] for f, end in zip(fits, ends, strict=True)
               if end == "failed")  # fmt: skip
    assert missing(fits, store) == []
    assert len(list(store.runs.iterdir())) == len(fits)  # and nothing else


@only_long
def test_every_fit_ends_once_on_a_cluster_whose_workers_are_killed(lightly, tmp_path):
    fits, ends = adversity(LONG, tmp_path, seed=1)
    store, came, over = Store(tmp_path), [], threading.Event()
    with contextmanager(workers)(2) as cluster:
        pids = lambda: [w.pid for w in cluster.workers.values() if w.pid]
        threading.Thread(target=strike, args=(pids, over), daemon=True).start()
        engine = partial(engines.dask, scheduler=cluster.scheduler_address)
        try:
            sweep(missing(fits, store), store, counted(engine, came))
        finally:
            over.set()
    assert sorted(came) == list(range(len(fits)))
    states = [store.state(f.name) for f in fits]
    # A fit that was struck again and again by chance may count as one that kills: with its error.
    assert {"done", "failed"} >= set(states)
    assert all(now == "failed" for now, end in zip(states, ends, strict=True) if end == "failed")
    assert sum(a != b for a, b in zip(states, ends, strict=True)) <= len(fits) // 20
    assert missing(fits, store) == []


SWEEP = """
import multiprocessing, sys, types
import light_work
fitting = types.ModuleType("dynacl.experiments.fitting")  # whose workers start at once
fitting.Outcome, fitting.run = types.SimpleNamespace, light_work.work
sys.modules["dynacl.experiments.fitting"] = fitting
from dynacl.experiments import engines
if __name__ == "__main__":
    configs = [{"threads": 1, "seed": i, "sleep": 60 if i > 1 else 0} for i in range(6)]
    for i, _ in enumerate(getattr(engines, sys.argv[1])(configs, jobs=2)):
        if i == 1:
            print("busy", flush=True)
"""


@pytest.mark.parametrize("engine", ["local", pytest.param("dask", marks=only_long)])
def test_workers_end_when_the_process_of_the_sweep_is_killed(engine, tmp_path):
    (tmp_path / "sweep.py").write_text(SWEEP)
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, tmp_path / "sweep.py", engine],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "busy\n"
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=20)
    for worker in alive:
        worker.kill()
    assert not alive


class Cluster:
    """A scheduler and a worker, each a process of its own, at an address that stays."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.processes = []
        self.start()

    def start(self):
        self.scheduler = self._run("dask_scheduler", "--host", "127.0.0.1", "--port", self.port)
        self._run("dask_worker", self.address, "--nthreads", 1, "--no-nanny")

    def _run(self, module, *arguments):
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard"]
        self.processes.append(
            subprocess.Popen(
                [*command, *map(str, arguments)],
                env=os.environ | {"PYTHONPATH": path},
                stderr=subprocess.DEVNULL,
            )
        )
        return self.processes[-1]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@only_long
def test_sweep_goes_on_when_the_scheduler_is_killed_and_started_again(lightly, tmp_path):
    pytest.importorskip("distributed", reason="needs dynacl[cluster]")
    cluster, store, came = Cluster(), Store(tmp_path), []
    fits = light(12, **{f"fit{i}": {"sleep": 0.3} for i in range(12)})

    def struck(configs):
        for outcome in engines.dask(configs, scheduler=cluster.address):
            came.append(outcome.record["config"]["seed"])
            if len(came) in (2, 6):
                cluster.scheduler.kill()
                time.sleep(0.5)
                cluster.start()
            yield outcome

    try:
        sweep(missing(fits, store), store, struck)
    finally:
        cluster.close()
    assert sorted(came) == list(range(12))
    assert {store.state(f.name) for f in fits} == {"done"}


@only_long
def test_scheduler_that_does_not_come_back_is_said_and_the_same_sweep_goes_on(lightly, tmp_path):
    pytest.importorskip("distributed", reason="needs dynacl[cluster]")
    from dynacl.data import InputError

    cluster, store = Cluster(), Store(tmp_path)
    fits = light(4)

    def struck(configs):
        for outcome in engines.dask(configs, scheduler=cluster.address):
            yield outcome
            cluster.scheduler.kill()

    try:
        with pytest.raises(InputError, match=r"the scheduler is gone\. Results so far are kept"):
            sweep(fits, store, struck)
        done = [f for f in fits if store.state(f.name) == "done"]
        assert 0 < len(done) < 4
        sweep(missing(fits, store), store, partial(engines.local, jobs=2))
    finally:
        cluster.close()
    assert {store.state(f.name) for f in fits} == {"done"}
