"""Real workers that really die: every result is found, each once, and the same everywhere."""

import multiprocessing
import os
import signal
from functools import partial

import pytest

import light_work
from dynacl.experiments import engines
from dynacl.experiments.plan import name
from dynacl.experiments.runner import Store, missing, sweep
from test_experiments import tiny


@pytest.fixture(scope="module")
def fits():
    """Six fits, long enough for a worker to die in one."""
    return tiny(("linear", "truth"), seeds=(0, 1, 2), max_iter=150)[1]


@pytest.fixture(scope="module")
def alone(fits):
    return {name(o.record["config"]): o for o in engines.local([f.config for f in fits])}


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


def same(store, fits, alone):
    for fit in fits:
        found, expected = store.get(fit.name), alone[fit.name]
        assert found["metrics"]["r2"] == expected.record["metrics"]["r2"]
        assert found["metrics"]["loss"] == expected.record["metrics"]["loss"]
        arrays = store.arrays(fit.name)
        assert all((arrays[k] == v).all() for k, v in expected.arrays.items())


def test_local_processes_survive_a_killed_worker(monkeypatch):
    monkeypatch.setattr(engines, "run", light_work.work)

    def kill():
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    engine, came = and_then(partial(engines.local, jobs=2), kill)
    configs = [{"threads": 1, "i": i} for i in range(8)]
    processes = {outcome.record["pid"] for outcome in engine(configs)}
    assert sorted(came) == sorted(map(name, configs))
    assert len(processes) > 2  # new ones after the death
    assert os.getpid() not in processes


def test_dask_cluster_survives_a_killed_worker(fits, alone, tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs dynacl[cluster]")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                 dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip

        def kill():
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)

        engine, came = and_then(partial(engines.dask, scheduler=cluster.scheduler_address), kill)
        store = Store(tmp_path)
        sweep(missing(fits, store), store, engine)
    assert sorted(came) == sorted(f.name for f in fits)
    assert sorted(p.stem for p in store.runs.glob("*.json")) == sorted(f.name for f in fits)
    assert {store.state(f.name) for f in fits} == {"done"}
    same(store, fits, alone)


def test_fit_whose_worker_always_dies_is_recorded_as_failed(fits, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "ProcessPoolExecutor", Doomed)
    store = Store(tmp_path)
    sweep(fits[:2], store, partial(engines.local, jobs=2))
    assert "died" in store.get(fits[0].name)["error"]
    assert [store.state(f.name) for f in fits[:2]] == ["failed", "failed"]


class Doomed:
    """A pool whose every process dies."""

    def __init__(self, *_, **__):
        pass

    def submit(self, *_):
        future = engines.Future()
        future.set_exception(engines.BrokenProcessPool("killed"))
        return future

    def shutdown(self, **_):
        pass


def test_no_cluster_at_the_scheduler_is_bad_input(fits):
    pytest.importorskip("distributed", reason="needs dynacl[cluster]")
    from dynacl.data import InputError

    with pytest.raises(InputError, match="no cluster at"):
        list(engines.dask([fits[0].config], scheduler="nonsense://here"))


def test_environment_of_new_processes_has_one_thread_budget(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with engines.environment(2):
        assert {os.environ[k] for k in engines.POOLS} == {"2"}
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
