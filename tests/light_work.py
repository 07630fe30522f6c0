"""Stands in for a fit where only processes are tested: a worker without PyTorch starts at once."""

import os
import time
from types import SimpleNamespace


def work(config):
    time.sleep(config.get("sleep", 0.2))
    return SimpleNamespace(record={"config": config, "pid": os.getpid()})
