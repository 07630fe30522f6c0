"""Dask clusters of this machine, whose workers may be killed."""

import threading
from contextlib import suppress

import pytest


def workers(n):
    """A cluster of n processes. The scheduler gives a fit up after two deaths, not four: that is
    quicker."""
    distributed = pytest.importorskip("distributed", reason="needs dynacl[cluster]")
    import dask

    with dask.config.set({"distributed.scheduler.allowed-failures": 1}):
        made = distributed.LocalCluster(n_workers=n, threads_per_worker=1, processes=True,
                                        dashboard_address=":0")  # fmt: skip
        over = threading.Event()
        threading.Thread(target=keep_up, args=(made, n, over), daemon=True).start()
        try:
            yield made
        finally:
            over.set()
            with suppress(TimeoutError):  # of a worker that ends slowly
                made.close()


def keep_up(cluster, n, over, patience=20):
    """A nanny may fail to start its worker again: then the cluster has none, and waits for ever.

    That is no fault of ours, and clusters on which workers come later are waited for.
    """
    idle = 0
    while not over.wait(1):
        idle = 0 if cluster.scheduler.workers else idle + 1
        if idle > patience:
            cluster.scale(0)
            cluster.scale(n)
            idle = 0
