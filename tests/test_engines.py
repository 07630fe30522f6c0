"""Real workers that really die: every result is found, each once, and the same everywhere."""

import multiprocessing
import os
import signal
from functools import partial

import pytest

import light_work
from clusters import workers
from dynacl.dynamics import BY_NAME
from dynacl.experiments import engines
from dynacl.experiments.fitting import run
from dynacl.experiments.plan import name
from dynacl.experiments.runner import missing, sweep
from dynacl.experiments.store import Store
from small_fits import light, tiny


@pytest.fixture(scope="module")
def cluster():
    """One worker, so that what waits there always waits behind a fit that kills it."""
    yield from workers(1)


@pytest.fixture(scope="module")
def two_workers():
    yield from workers(2)


def and_then(engine, act):
    """The engine, with `act` called once, after the first outcome; notes what came."""
    came = []

    def acting(configs):
        for outcome in engine(configs):
            came.append(name(outcome.record["config"]))
            if len(came) == 1:
                act()
            yield outcome

    return acting, came


@pytest.fixture
def lightly(monkeypatch):
    monkeypatch.setattr(engines, "run", light_work.work)


def test_local_processes_survive_a_killed_worker(lightly):
    before = set()

    def kill():
        before.update(process.pid for process in multiprocessing.active_children())
        os.kill(min(before), signal.SIGKILL)

    engine, came = and_then(partial(engines.local, jobs=2), kill)
    configs = [f.config for f in light()]
    processes = {outcome.record["metrics"]["pid"] for outcome in engine(configs)}
    assert sorted(came) == sorted(map(name, configs))
    assert processes - before  # new ones after the death
    assert os.getpid() not in processes


@pytest.mark.parametrize("n", [1, 2])
def test_dask_cluster_survives_a_killed_worker(n, lightly, tmp_path, request):
    cluster = request.getfixturevalue("cluster" if n == 1 else "two_workers")
    killed = cluster.workers[0].pid

    def kill():
        os.kill(killed, signal.SIGKILL)

    engine, came = and_then(partial(engines.dask, scheduler=cluster.scheduler_address), kill)
    fits, store = light(4 + 4 * n), Store(tmp_path)
    sweep(missing(fits, store), store, engine)
    assert sorted(came) == sorted(f.name for f in fits)
    assert {store.state(f.name) for f in fits} == {"done"}
    # Another one did the rest: the second, or with one worker the one that took its place.
    assert {store.get(f.name)["metrics"]["pid"] for f in fits} - {killed}


def test_fits_on_two_workers_are_those_of_this_machine_although_one_dies(two_workers):
    """Of every dynamics model, bit for bit."""
    configs = [f.config for f in tiny(tuple(BY_NAME), max_iter=5)[1]]
    here = {name(o.record["config"]): o.record["metrics"]["loss"] for o in map(run, configs)}
    pids = [w.pid for w in two_workers.workers.values()]
    engine, came = and_then(
        partial(engines.dask, scheduler=two_workers.scheduler_address),
        lambda: os.kill(pids[0], signal.SIGKILL),
    )
    there = {name(o.record["config"]): o.record["metrics"]["loss"] for o in engine(configs)}
    assert len(came) == len(BY_NAME)
    assert there == here


@pytest.mark.parametrize("kind", ["local", "dask"])
def test_fit_that_kills_every_worker_fails_and_its_neighbours_do_not(
    kind, lightly, tmp_path, request
):
    """One neighbour is under way whenever it strikes (local); all wait behind it (Dask)."""
    if kind == "dask":
        address = request.getfixturevalue("cluster").scheduler_address
        engine = partial(engines.dask, scheduler=address)
    else:
        engine = partial(engines.local, jobs=2)
    engine, came = and_then(engine, lambda: None)
    fits = light(5, fit1={"fate": "kills", "sleep": 0.1}, fit0={"sleep": 0.6})
    store = Store(tmp_path)
    sweep(missing(fits, store), store, engine)
    assert sorted(came) == sorted(f.name for f in fits)
    states = [store.state(f.name) for f in fits]
    assert states == ["done", "failed", "done", "done", "done"]
    assert "its worker process died" in store.get(fits[1].name)["error"]
    assert missing(fits, store) == []


def test_fit_gives_the_same_numbers_here_and_on_a_cluster_of_its_own():
    pytest.importorskip("distributed", reason="needs dynacl[cluster]")
    configs = [f.config for f in tiny(("linear",), seeds=(1,), max_iter=50)[1]]
    (here,) = engines.local(configs)
    (there,) = engines.dask(configs, jobs=1)
    for metric in ("r2", "loss"):
        assert there.record["metrics"][metric] == here.record["metrics"][metric]
    assert there.arrays.keys() == here.arrays.keys() != set()
    assert all((there.arrays[k] == v).all() for k, v in here.arrays.items())


def test_no_cluster_at_the_scheduler_is_bad_input():
    pytest.importorskip("distributed", reason="needs dynacl[cluster]")
    from dynacl.data import InputError

    with pytest.raises(InputError, match="no cluster at"):
        list(engines.dask([light(1)[0].config], scheduler="nonsense://here"))


def test_a_cluster_of_its_own_that_ends_slowly_costs_no_result(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs dynacl[cluster]")

    class Slow:
        def __init__(self, *arguments, **how):
            pass

        def close(self):
            raise TimeoutError

    class Client(Slow):
        def close(self):
            pass

    monkeypatch.setattr(distributed, "LocalCluster", Slow)
    monkeypatch.setattr(distributed, "Client", Client)
    monkeypatch.setattr(engines, "on_client", lambda client, configs: map(light_work.work, configs))
    configs = [fit.config | {"sleep": 0} for fit in light(2)]
    assert [outcome.record["config"] for outcome in engines.dask(configs)] == configs


def test_environment_of_new_processes_has_one_thread_budget(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with engines.environment(2):
        assert {os.environ[k] for k in engines.POOLS} == {"2"}
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
