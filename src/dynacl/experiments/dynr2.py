"""dynR² after 1 and 10 steps, each beside identity: the lower rows of table1, the same fits."""

from __future__ import annotations

from dynacl.experiments.plan import Claim, Experiment
from dynacl.experiments.table1 import of_system

CELLS = ("dyn_r2_1", "dyn_r2_1_control", "dyn_r2_10", "dyn_r2_10_control")
ROWS = [*of_system("slds", CELLS), *of_system("lorenz", CELLS)]

EXPERIMENT = Experiment(
    name="dynr2",
    title="Dynamics after one and ten steps, beside the identity control",
    source="tab:appendix_dyn_r2",
    rows=lambda scale: ROWS,
    note="The fits are those of `table1`.",
    claims=tuple(
        Claim(f"{name}: dynR² minus identity control, n = {n}",
              (name, f"dyn_r2_{n}"), (name, f"dyn_r2_{n}_control"))
        for name in ("slds/switching", "slds/truth", "lorenz/switching")
        for n in (1, 10)
    ),
)  # fmt: skip
