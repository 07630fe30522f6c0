"""Every table and figure of the paper: a small module of data each, and what runs them."""

from dynacl.experiments import (
    ablations,
    allen,
    baselines,
    compute,
    control,
    dynr2,
    kde,
    lorenz,
    mcc,
    noninjective,
    slds,
    table1,
    vmf,
)
from dynacl.experiments.plan import Claim, Experiment, Row

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        table1.EXPERIMENT,
        slds.EXPERIMENT,
        lorenz.EXPERIMENT,
        lorenz.MODES,
        ablations.EXPERIMENT,
        ablations.TEST_SPLIT,
        dynr2.EXPERIMENT,
        noninjective.EXPERIMENT,
        control.EXPERIMENT,
        vmf.EXPERIMENT,
        kde.EXPERIMENT,
        mcc.EXPERIMENT,
        baselines.EXPERIMENT,
        baselines.CHECKED,
        allen.EXPERIMENT,
        compute.EXPERIMENT,
    )
}

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Row"]
