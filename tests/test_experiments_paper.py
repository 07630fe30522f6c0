"""The paper's numbers: as it prints them, in agreement with each other and with theory."""

import pytest

from dynacl.experiments import verdicts
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.plan import paper_numbers, plan
from dynacl.experiments.reproduce import count

TABLE1 = EXPERIMENTS["table1"]


@pytest.mark.parametrize(
    ("experiment", "row", "metric", "mean", "std"),
    [
        ("table1", "lds/identity", "lds_error", 0.2124, 0.0031),
        ("table1", "lds/linear", "r2", 0.9903, 0.0041),
        ("table1", "slds/truth", "dyn_r2_1", 0.9997, 0.0),
        ("table1", "lorenz/switching", "r2", 0.9408, 0.0275),
        ("dynr2", "slds/switching", "dyn_r2_10_control", -1.2465, 0.0697),
        ("dynr2", "lorenz/linear", "dyn_r2_10", -0.1307, 0.4103),
        ("control", "lds/identity", "r2", 0.7417, 0.138),
        ("control", "step/linear+u", "dyn_r2_1", 0.9953, 0.0027),
        ("mcc", "slds/truth", "mcc", 1.0, 0.0),
        ("mcc", "lorenz/linear", "r2", 0.812, 0.169),
        ("test_split", "samples=10000/identity", "fresh.r2", 0.801, 0.10568),
        ("test_split", "samples=10/truth", "r2", 0.954, 0.00397),
        ("baselines", "low/pcl", "r2", 0.9133, 0.0085),
        ("baselines", "high/truth", "mcc", 0.9857, 0.0016),
        ("baselines", "high/tdrl-large", "mcc", 0.6265, 0.0629),
        ("baselines_check", "tdrl", "mcc", 0.910, 0.067),
        ("baselines_check", "pcl", "reported", 0.599, 0.041),
    ],
)
def test_numbers_are_those_printed_in_the_paper(experiment, row, metric, mean, std):
    assert paper_numbers(experiment)[row][metric] == pytest.approx((mean, std))


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.name)
def test_every_number_of_the_paper_has_its_cell(experiment):
    rows = {row.name: row for row in experiment.rows("paper")}
    for row, cells in paper_numbers(experiment.name).items():
        assert set(cells) - {"reported"} <= set(rows[row].cells)


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.name)
def test_claims_and_cells_name_what_is_there(experiment):
    rows = {row.name: row for scale in ("quick", "paper") for row in experiment.rows(scale)}
    assert len(experiment.rows("paper")) == len({r.name for r in experiment.rows("paper")})
    for claim in experiment.claims:
        for row, metric in (claim.more, claim.less):
            assert metric in rows[row].cells
    for row in rows.values():
        assert set(row.cells) <= set(verdicts.METRICS)


def test_paper_scale_has_the_paper_s_repeats():
    assert count(TABLE1, "paper") == len(plan(TABLE1, scale="paper")) == 171
    assert count(EXPERIMENTS["vmf"], "paper") == 432
    assert len(plan(EXPERIMENTS["lorenz"], scale="quick")) == 8
