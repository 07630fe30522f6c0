"""TCL, PCL and TDRL on the switching system, after a check on the data of Yao et al. (2022)."""

from __future__ import annotations

from typing import Any

from dynacl.experiments import slds
from dynacl.experiments.plan import Claim, Experiment, Row, grid_of

OTHERS = ("tcl", "pcl", "pcl-large", "tdrl", "tdrl-large")
NOISE: dict[str, dict[str, Any]] = {"low": {}, "high": {"noise": 1e-3, "angle": 5.0}}
# Length of training, and for the check also sequences of a domain.
LENGTH = {"smoke": {"steps": 20}, "quick": {"epochs": 5}, "paper": {"epochs": 50}}
CHECK_LENGTH = {"smoke": {"steps": 20}, "quick": {"epochs": 20}, "paper": {"epochs": 50}}
SEQUENCES = {"smoke": 40, "quick": 10_000, "paper": 40_000}
CELLS = ("mcc", "r2", "mcc_last", "r2_last")


def rows(scale: str) -> list[Row]:
    found = []
    for noise, changed in NOISE.items():
        data = slds.row("", "identity", (), None, **changed).data
        for name in OTHERS:
            model = {"baseline": name, "n_components": 6, **grid_of(scale, LENGTH)}
            found.append(Row(f"{noise}/{name}", data, model, CELLS))
        found += [slds.row(noise, model, ("mcc", "r2"), None, **changed) for model in slds.MODELS]
    return found


def check_rows(scale: str) -> list[Row]:
    data = {"system": "changing", "sequences": grid_of(scale, SEQUENCES)}
    return [
        Row(name, data, {"baseline": name, "n_components": 8, **grid_of(scale, CHECK_LENGTH)},
            ("mcc", "mcc_last"), datasets=1, seeds=5)
        for name in ("pcl", "tcl", "tdrl")
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="baselines",
    title="Other time-series models on switching dynamics",
    source="tab:benchmarking",
    rows=rows,
    note="identity is CEBRA-time. TCL, PCL and TDRL: the best during training, as the paper "
    "reports them, and the last; DCL the last.",
    reduced={"quick": "5 epochs of 100,000 samples, not 50 of a million",
             "standard": "50 epochs of 200,000 samples, as many steps as 10 of a million"},
    claims=tuple(
        Claim(f"{noise} noise: DCL minus {name}",
              (f"{noise}/switching", "r2"), (f"{noise}/{name}", "r2"))
        for noise in NOISE
        for name in ("pcl", "tdrl", "identity")
    ),
    quick_samples=100_000,
)  # fmt: skip
CHECKED = Experiment(
    name="baselines_check",
    title="The other models on the data they were made for",
    source="tab:tdrl-repro",
    rows=check_rows,
    note="Paper: its reproduction; Yao et al. report 59.9 (PCL), 39.9 (TCL), 95.8 (TDRL).",
    reduced={"quick": "a quarter of the sequences, 20 epochs, one seed"},
)
