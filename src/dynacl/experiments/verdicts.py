"""How our numbers compare with the paper's: one word per cell, one per claim. Pure functions.

Cells and differences are in points: percent of R², hundredths of an LDS error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST = 0.5  # points that are never a difference
SPREAD = 5.0  # points of standard deviation from which the paper's mean decides nothing


@dataclass(frozen=True)
class Metric:
    label: str
    claim: str = "none"  # "higher" where the paper claims so


METRICS = {
    "r2": Metric("R² [%]", "higher"),
    "lds_error": Metric("LDS error [10⁻²]"),
    "lds_error_post_hoc": Metric("LDS error, post hoc [10⁻²]"),
    "dyn_r2_1": Metric("dynR², n = 1 [%]", "higher"),
    "dyn_r2_1_control": Metric("control, n = 1 [%]"),
    "dyn_r2_10": Metric("dynR², n = 10 [%]", "higher"),
    "dyn_r2_10_control": Metric("control, n = 10 [%]"),
    "mode_accuracy": Metric("mode accuracy [%]", "higher"),
    "mcc": Metric("MCC [%]"),
    "mcc_last": Metric("MCC, last [%]"),
    "r2_last": Metric("R², last [%]"),
    "fresh.r2": Metric("R², fresh trials [%]", "higher"),
    "fresh.r2_train_map": Metric("R², fresh trials, map fitted on train [%]"),
    "fresh.mode_accuracy": Metric("mode accuracy, fresh trials [%]", "higher"),
    "consistency": Metric("consistency, fitted on train, scored on validation [%]"),
    "consistency_validation": Metric("consistency, fitted and scored on validation [%]"),
    "consistency_train": Metric("consistency, fitted and scored on train [%]"),
}


def cell(
    paper: tuple[float, float | None] | None, ours: Sequence[float], higher_is_claim: bool
) -> str:
    """agrees: within max(2 std, 0.5 points) of the paper's mean, std being the paper's.

    better: above that, where higher is what the paper claims. not decidable: the paper's own std
    exceeds 5 points, or is not printed. differs: all else.
    """
    if not ours:
        return "not run"
    if paper is None:
        return "–"
    mean, std = paper
    difference = sum(ours) / len(ours) - mean
    if std is None or std > SPREAD:
        return "not decidable"
    if abs(difference) <= max(2 * std, LEAST) + 1e-9:
        return "agrees"
    return "better" if higher_is_claim and difference > 0 else "differs"


def claim(paper: float | None, ours: float | None, sign: int | None = None) -> str:
    """Sign and size of a difference between two cells; where it has no numbers, the sign alone.

    holds: the same sign and at least half the paper's size (or, as in the paper, nothing beyond
    0.5 points). smaller: the same sign, less than half. not seen: the paper has a difference, we
    have none. new: the other way round. reversed: the other sign.
    """
    if ours is None:
        return "not run"
    if paper is None and sign is None:
        return "positive" if ours > LEAST else "negative" if ours < -LEAST else "none"
    if paper is None:  # any size above nothing will do
        paper = 2 * LEAST * (sign or 0)
    if abs(paper) <= LEAST + 1e-9:
        return "holds" if abs(ours) <= LEAST else "new"
    if abs(ours) <= LEAST:
        return "not seen"
    if paper * ours < 0:
        return "reversed"
    return "holds" if abs(ours) >= abs(paper) / 2 else "smaller"
