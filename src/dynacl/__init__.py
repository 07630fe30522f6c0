"""dynacl: identify hidden dynamics from time series by dynamics contrastive learning."""

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
