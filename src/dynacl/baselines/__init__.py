"""The methods that DCL is compared with, and the data they are checked on.

TCL, PCL and TDRL, written from the papers (Hyvärinen & Morioka 2016, 2017; Yao et al. 2022); and
the linear models `ARX` and `LinearStateSpace`, which take no training. Nothing else in the library
depends on this corner.
"""

from dynacl.baselines.changing import changing
from dynacl.baselines.fit import BASELINES, Baseline, fit_baseline
from dynacl.baselines.windows import windows
from dynacl.linear_models import ARX, LinearStateSpace

__all__ = [
    "ARX",
    "BASELINES",
    "Baseline",
    "LinearStateSpace",
    "changing",
    "fit_baseline",
    "windows",
]
