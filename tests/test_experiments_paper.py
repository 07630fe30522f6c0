"""The paper's numbers: as it prints them, in agreement with each other and with theory."""

import json
from importlib.resources import files
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynacl.experiments import verdicts
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.plan import SCALES, paper_numbers, plan
from dynacl.experiments.reproduce import count


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


def test_tables_agree_on_fits_that_they_share():
    """The paper prints the same fits in several tables, with more or fewer digits."""
    printed = {}
    for e in (e for e in EXPERIMENTS.values() if not e.needs_data):
        numbers = paper_numbers(e.name)
        for fit in plan(e, scale="paper", datasets=[0], seeds=[0]):
            for metric, value in numbers.get(fit.row.name, {}).items():
                printed.setdefault((fit.name, metric), {})[e.name] = value
    several = [list(tables.values()) for tables in printed.values() if len(tables) > 1]
    assert len(several) == 20  # R² of 11 fits, dynR² of 6, MCC of 3
    for (mean, std), *others in several:
        for other_mean, other_std in others:
            assert other_mean == pytest.approx(mean, abs=0.005)
            assert other_std == pytest.approx(std, abs=0.01)


@pytest.mark.parametrize(("row", "degrees"), [("lds/identity", 5), ("lds-low-dt/identity", 2)])
def test_lds_error_of_the_identity_is_that_of_three_rotations(row, degrees):
    """‖A − I‖ has one value for even and one for odd signs; three data sets, three fits each."""
    a = np.deg2rad(degrees)
    errors = set()
    for signs in product((-1, 1), repeat=3):
        A = np.eye(3)
        for sign, axis in zip(signs, "zyx", strict=True):
            A = Rotation.from_euler(axis, sign * a).as_matrix() @ A
        errors.add(round(np.linalg.norm(A - np.eye(3)), 12))
    assert len(errors) == 2
    draws = [np.repeat(drawn, 3) for drawn in combinations_with_replacement(errors, 3)]
    mean, std = paper_numbers("table1")[row]["lds_error"]
    assert any(
        abs(drawn.mean() - mean) < 6e-5 and abs(drawn.std(ddof=1) - std) < 6e-5 for drawn in draws
    )


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_numbers_of_the_paper_are_possible(experiment):
    for cells in paper_numbers(experiment).values():
        for metric, (mean, std) in cells.items():
            assert mean <= 1
            assert mean >= 0 or metric.startswith("dyn_r2_")
            assert std is None or 0 <= std < 1


def test_paper_scale_has_the_paper_s_number_of_fits():
    paper = json.loads((files("dynacl.experiments") / "paper" / "compute.json").read_text())
    assert sum(paper["fits"].values()) == 3213  # as its text says
    for name in ("table1", "vmf"):  # where it prints its whole grid, or the size of it
        assert len(plan(EXPERIMENTS[name], scale="paper")) == paper["fits"][name]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("experiment", [e for e in EXPERIMENTS.values() if not e.needs_data],
                         ids=lambda e: e.name)  # fmt: skip
def test_count_of_fits_is_that_of_the_plan(experiment, scale):
    assert count(experiment, scale) == len({f.name for f in plan(experiment, scale=scale)})
