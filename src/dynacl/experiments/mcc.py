"""Component-wise against linear identifiability: MCC beside R², the fits of table1."""

from __future__ import annotations

from dynacl.experiments.plan import Claim, Experiment
from dynacl.experiments.table1 import of_system

CELLS = ("mcc", "r2")
ROWS = [*of_system("slds", CELLS), *of_system("lorenz", CELLS)]

EXPERIMENT = Experiment(
    name="mcc",
    title="Component-wise identifiability",
    source="tab:componentwise",
    rows=lambda scale: ROWS,
    note="The fits are those of `table1`. Only the oracle is claimed to reach an MCC of 100 %.",
    claims=(
        Claim("SLDS: oracle minus DCL, MCC", ("slds/truth", "mcc"), ("slds/switching", "mcc")),
    ),
)
