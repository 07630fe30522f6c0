"""Stands in for a fit where only processes are tested: a worker without PyTorch starts at once."""

import os
import time
from types import SimpleNamespace


def work(config):
    time.sleep(config.get("sleep", 0.2))
    if config.get("kills"):
        os._exit(1)  # no exception, no clean-up: as a process that is out of memory
    record = {"config": config, "pid": os.getpid(), "state": "done", "seconds": 0.2}
    return SimpleNamespace(record=record, arrays={})
