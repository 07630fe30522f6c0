"""Where fits run: in processes of this machine, or on a Dask cluster. Both yield outcomes as
they come.

An engine decides nothing about a fit: what it computes, and with how many threads, is in its
configuration. A worker that dies takes nothing with it; its fit is started again elsewhere.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from dynacl.data import InputError
from dynacl.experiments import workers
from dynacl.experiments.fitting import Outcome, run
from dynacl.experiments.plan import Config, name

DEATHS = 3  # of a worker, from which its fit counts as failed
LOOK = 5.0  # seconds between two looks at a cluster that is silent
LOST = 90.0  # seconds without work, after which what is pending counts as lost
POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def named(
    engine: str, *, jobs: int = 1, scheduler: str | None = None
) -> Callable[[Sequence[Config]], Iterator[Outcome]]:
    """The engine of this name, with so many fits at a time."""
    if engine not in ("local", "dask"):
        raise InputError(f"engine: got {engine!r}; wanted local or dask")
    if engine == "dask":
        return partial(dask, scheduler=scheduler, jobs=jobs)
    if scheduler is not None:
        raise InputError("scheduler: is for the engine dask")
    return partial(local, jobs=jobs)


def jobs_for(threads: int) -> int:
    """Fits at a time: one per GPU, or as many as there are cores for."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.device_count()
    return max(1, (os.cpu_count() or 1) // threads)


def local(configs: Sequence[Config], *, jobs: int = 1) -> Iterator[Outcome]:
    """`jobs` processes with one fit each; one job runs in this process."""
    if jobs == 1:
        for config in configs:
            yield run(config)
        return
    deaths: Counter[str] = Counter()
    queue = deque(configs)
    while queue:
        # After a death, each fit that may have caused it runs alone: neighbours are innocent.
        suspect = deaths[name(queue[0])] > 0
        running: dict[Future[Outcome], Config] = {}
        with environment(queue[0]["threads"]):  # before a worker loads its OpenMP runtime
            pool = ProcessPoolExecutor(
                jobs,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=workers.prepare,
            )
            try:
                while queue or running:
                    while queue and len(running) < (1 if suspect else jobs):
                        if running and deaths[name(queue[0])]:
                            break
                        running[pool.submit(run, queue[0])] = queue[0]
                        queue.popleft()
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        outcome = _result(future, running[future])
                        del running[future]
                        yield outcome
                        suspect = bool(queue) and deaths[name(queue[0])] > 0
            except BrokenProcessPool:
                for config in running.values():
                    deaths[name(config)] += 1
                    if deaths[name(config)] < DEATHS:
                        queue.appendleft(config)
                    else:
                        yield _failed(config)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def _result(future: Future[Outcome], config: Config) -> Outcome:
    """What a fit gave. Its own errors are in its record: others are of the way back from it."""
    try:
        return future.result()
    except BrokenProcessPool:
        raise
    except Exception as error:
        return _failed(config, f"its result could not be fetched: {error!r}")


def dask(
    configs: Sequence[Config], *, scheduler: str | None = None, jobs: int = 1
) -> Iterator[Outcome]:
    """On the cluster behind this scheduler; without one, on a LocalCluster of `jobs` workers."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError("--engine dask: needs Dask; pip install 'dynacl[cluster]'") from error
    if not configs:
        return
    with environment(configs[0]["threads"]):
        try:
            cluster = scheduler or LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=":0"
            )
            client = Client(cluster, timeout="30s")
        except (OSError, ValueError) as error:
            raise InputError(f"--scheduler: no cluster at {scheduler}: {error}") from error
        try:
            yield from on_client(client, configs)
        finally:
            client.close()
            if not isinstance(cluster, str):
                with suppress(TimeoutError):  # of a worker that ends slowly: all is done
                    cluster.close()


def on_client(client: Any, configs: Sequence[Config]) -> Iterator[Outcome]:
    """All of these fits, also where the scheduler is killed and started again on the way.

    It then knows nothing of us: what has not come back is asked for once more.
    """
    left = {name(config): config for config in configs}
    in_vain = 0
    while left:
        try:
            for outcome in _asked_for(client, list(left.values())):
                del left[name(outcome.record["config"])]
                in_vain = 0
                yield outcome
        except _LostError as error:
            in_vain += 1
            if in_vain > DEATHS or not _is_back(client):
                raise InputError(
                    "--engine dask: the scheduler is gone. Results so far are kept; when it is up, "
                    "the same command goes on from here"
                ) from error


class _LostError(Exception):
    """The connection to the scheduler is lost, and with it all that was asked for."""


def _is_back(client: Any) -> bool:
    """Wait while a client tries to find its scheduler again, which it does for its timeout."""
    while client.status == "connecting":
        time.sleep(0.1)
    return bool(client.status == "running")


def _asked_for(client: Any, configs: Sequence[Config]) -> Iterator[Outcome]:
    """Submit all; the key is the fit's name, so that a cluster never does one twice.

    A scheduler suspects all that a dead worker held, also what only waited there. What it gives up
    is tried once more, each alone, when all else is done: neighbours are innocent.
    """
    futures = {
        # In this order: fits of the same data together, which a worker keeps.
        client.submit(run, c, key=f"dynacl-{name(c)}", pure=True, priority=-i): c
        for i, c in enumerate(configs)
    }
    suspects = []
    for future in _completed(client, futures):
        outcome = "the cluster lost it" if future.status == "pending" else _fetch(future)
        if isinstance(outcome, str):
            suspects.append(futures[future])
        else:
            yield outcome
    for config in suspects:
        yield _alone(client, config)


def _alone(client: Any, config: Config) -> Outcome:
    """One fit by itself, again if the cluster loses it."""
    why: Outcome | str = ""
    for again in range(DEATHS):
        key = f"dynacl-{name(config)}-alone-{again}"
        (future,) = _completed(client, [client.submit(run, config, key=key, pure=True)])
        if future.status == "pending":
            why = "the cluster lost it"
            continue
        why = _fetch(future)
        break
    return _failed(config, why) if isinstance(why, str) else why


def _completed(client: Any, futures: Iterable[Any]) -> Iterator[Any]:
    """Futures as they are done. Those that are still pending when they come are lost.

    A scheduler may forget a fit whose worker dies at the wrong moment: it waits for ever, and no
    worker has it. So if nothing of ours runs anywhere for a while, though there are workers, what
    is pending is given back as it is.
    """
    from distributed import wait

    left, idle = set(futures), 0.0
    while left:
        try:
            done = wait(list(left), timeout=LOOK, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            idle = 0.0 if _busy(client, list(left)) else idle + LOOK
            done = left if idle >= LOST else set()
        except CancelledError as error:
            raise _LostError from error
        yield from done
        left -= done


def _busy(client: Any, futures: list[Any]) -> bool:
    """Whether one of these runs, or could not, as there is no worker."""
    try:
        runs = any(client.call_stack(futures).values())
        return runs or not client.scheduler_info()["workers"]
    except OSError:  # the scheduler does not answer: `wait` says if it is gone
        return True


def _fetch(future: Any) -> Outcome | str:
    """What a fit gave; or why not, where the scheduler gave it up because its workers died."""
    from distributed import KilledWorker

    try:
        # Computed again if its worker died before it was fetched.
        outcome: Outcome = future.result()
    except KilledWorker as error:
        return f"its worker process died each time, also when it ran alone: {error}"
    except (CancelledError, OSError) as error:
        raise _LostError from error
    except Exception as error:  # a fit's own errors are in its record: this is the cluster's
        if _lacks_us(error):
            raise InputError(
                f"--engine dask: the cluster cannot go on ({error!r}); is this dynacl installed on "
                "its workers? Results so far are kept"
            ) from error
        return f"its result could not be fetched: {error!r}"
    finally:
        future.release()
    return outcome


def _lacks_us(error: BaseException | None) -> bool:
    """Whether a worker could not load what it was to run; then it is so for every fit."""
    while error is not None:
        if isinstance(error, ImportError | AttributeError):
            return True
        error = error.__cause__
    return False


@contextmanager
def environment(threads: int) -> Iterator[None]:
    """Thread pools of processes that are started meanwhile; ours stays as it is."""
    before = {k: os.environ.get(k) for k in POOLS}
    os.environ.update(dict.fromkeys(POOLS, str(threads)))
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _failed(config: Config, why: str = f"its worker process died {DEATHS} times") -> Outcome:
    return Outcome({"config": config, "state": "failed", "error": why, "seconds": 0.0})
