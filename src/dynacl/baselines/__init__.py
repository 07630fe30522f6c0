"""The methods that DCL is compared with: TCL, PCL and TDRL, and the data they are checked on.

Written from the papers (Hyvärinen & Morioka 2016, 2017; Yao et al. 2022). Nothing else in the
library depends on this corner.
"""

from dynacl.baselines.changing import changing
from dynacl.baselines.fit import BASELINES, Baseline, fit_baseline
from dynacl.baselines.windows import windows

__all__ = ["BASELINES", "Baseline", "changing", "fit_baseline", "windows"]
