"""The tables and figures of the paper by name."""

from __future__ import annotations

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
from dynacl.experiments.plan import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        table1.EXPERIMENT,
        slds.EXPERIMENT,
        lorenz.EXPERIMENT,
        lorenz.NUMBER_OF_MODES,
        ablations.EXPERIMENT,
        ablations.TEST_SPLIT,
        dynr2.EXPERIMENT,
        noninjective.EXPERIMENT,
        control.EXPERIMENT,
        vmf.EXPERIMENT,
        vmf.FOUR,
        kde.EXPERIMENT,
        mcc.EXPERIMENT,
        baselines.EXPERIMENT,
        baselines.CHECKED,
        allen.EXPERIMENT,
        compute.EXPERIMENT,
    )
}
