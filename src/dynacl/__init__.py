"""dynacl: identify hidden dynamics from time series by dynamics contrastive learning.

`__all__` names what is public. Each name is loaded when it is first used: importing the
package costs milliseconds, where PyTorch costs seconds.
"""

import os
from typing import TYPE_CHECKING

from dynacl._lazy import lazy
from dynacl._version import __version__

if "OMP_WAIT_POLICY" not in os.environ:
    # OpenMP's threads spin for milliseconds while they wait for work, and two fits side by side
    # starve each other. Microseconds are enough. Read when PyTorch is loaded, so it comes first.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

if TYPE_CHECKING:
    from dynacl import dynamics, metrics, plots, report, simulate
    from dynacl.behaviour import decode_labels
    from dynacl.choosing.rule import one_standard_error
    from dynacl.data import InputError, TimeSeries
    from dynacl.estimator import DCL
    from dynacl.evaluation import evaluate
    from dynacl.experiments.selecting import select
    from dynacl.flows import equations, fixed_points
    from dynacl.objective import info_nce
    from dynacl.pipelines import OnSteps
    from dynacl.ranking import held_out_prediction, prediction_score, simplest
    from dynacl.settings import Settings
    from dynacl.without_truth import evidence
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "DCL": "estimator",
            "InputError": "data",
            "OnSteps": "pipelines",
            "Settings": "settings",
            "TimeSeries": "data",
            "decode_labels": "behaviour",
            "equations": "flows",
            "evaluate": "evaluation",
            "evidence": "without_truth",
            "fixed_points": "flows",
            "held_out_prediction": "ranking",
            "info_nce": "objective",
            "one_standard_error": "choosing.rule",
            "prediction_score": "ranking",
            "select": "experiments.selecting",
            "simplest": "ranking",
        },
    )

__all__ = [
    "DCL",
    "InputError",
    "OnSteps",
    "Settings",
    "TimeSeries",
    "__version__",
    "decode_labels",
    "dynamics",
    "equations",
    "evaluate",
    "evidence",
    "fixed_points",
    "held_out_prediction",
    "info_nce",
    "metrics",
    "one_standard_error",
    "plots",
    "prediction_score",
    "report",
    "select",
    "simplest",
    "simulate",
]
