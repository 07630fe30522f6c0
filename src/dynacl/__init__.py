"""dynacl: identify hidden dynamics from time series by dynamics contrastive learning."""

import os

if "OMP_WAIT_POLICY" not in os.environ:
    # OpenMP's threads spin for milliseconds while they wait for work, and two fits side by side
    # starve each other. Microseconds are enough. Read when PyTorch is loaded, so it comes first.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

from dynacl import metrics, simulate
from dynacl._version import __version__
from dynacl.data import InputError, TimeSeries
from dynacl.estimator import DCL
from dynacl.evaluation import evaluate
from dynacl.objective import info_nce

__all__ = [
    "DCL",
    "InputError",
    "TimeSeries",
    "__version__",
    "evaluate",
    "info_nce",
    "metrics",
    "simulate",
]
