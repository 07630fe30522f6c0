"""Stands in for a fit where only processes are tested: a worker without PyTorch starts at once."""

import os
import time
from pathlib import Path
from types import SimpleNamespace


class StubbornError(Exception):
    """Cannot be unpickled: its arguments are not those that it was made with."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def work(config):
    time.sleep(config.get("sleep", 0.2))
    record = {"config": config, "state": "done", "seconds": 0.2}
    match config.get("fate"):
        case "kills":
            os._exit(1)  # no exception, no clean-up: as a process that is out of memory
        case "kills once":
            try:
                Path(config["where"]["mark"]).touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os._exit(1)
        case "fails":
            return SimpleNamespace(record=record | {"state": "failed", "error": "by chance"},
                                   arrays={})  # fmt: skip
        case "raises":
            raise StubbornError("cannot", "be sent")
    return SimpleNamespace(record=record | {"metrics": {"pid": os.getpid()}}, arrays={})
