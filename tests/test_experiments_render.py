"""From results to words: verdicts on cells and claims, and the tables made of them."""

from dataclasses import replace

import pytest

from dynacl.experiments import verdicts
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.fitting import Outcome
from dynacl.experiments.plan import plan
from dynacl.experiments.render import View, claims, render, table
from dynacl.experiments.store import Store
from small_fits import record

TABLE1 = EXPERIMENTS["table1"]


@pytest.mark.parametrize(
    ("paper", "ours", "claimed", "verdict"),
    [
        ((99.0, 0.1), [99.5], True, "agrees"),  # within 0.5 points
        ((99.0, 0.1), [98.5], True, "agrees"),
        ((99.0, 0.4), [98.3, 98.1], True, "agrees"),  # mean 98.2, two std are 0.8
        ((99.0, 0.4), [98.1], True, "differs"),
        ((94.0, 2.0), [99.0], True, "better"),  # two std are 4
        ((94.0, 2.0), [99.0], False, "differs"),  # a baseline, or a control column
        ((94.0, 2.0), [89.0], True, "differs"),
        ((73.56, 24.45), [73.56], True, "not decidable"),
        ((90.0, 5.0), [90.0], True, "agrees"),  # 5 does not exceed 5
        ((90.0, 5.01), [90.0], True, "not decidable"),
        ((90.0, 1.0), [], True, "not run"),
        (None, [90.0], True, "–"),
    ],
)
def test_verdict_of_a_cell_follows_the_rules(paper, ours, claimed, verdict):
    assert verdicts.cell(paper, ours, claimed) == verdict


@pytest.mark.parametrize(
    ("paper", "ours", "verdict"),
    [
        (22.7, 20.0, "holds"),
        (22.7, 11.0, "smaller"),
        (22.7, 0.4, "not seen"),
        (22.7, -3.0, "reversed"),
        (-2.0, -1.0, "holds"),
        (0.3, -0.3, "holds"),  # nothing in the paper, nothing here
        (0.3, 4.0, "new"),
        (100 * (0.99 - 0.995), -0.2, "holds"),  # 0.5 points, rounded
        (None, 4.0, "positive"),
        (None, -4.0, "negative"),
        (None, 0.1, "none"),
        (1.0, None, "not run"),
    ],
)
def test_verdict_of_a_claim_is_sign_and_size(paper, ours, verdict):
    assert verdicts.claim(paper, ours) == verdict


@pytest.mark.parametrize(
    ("sign", "ours", "verdict"),
    [
        (1, 0.6, "holds"),
        (1, 0.4, "not seen"),
        (1, -0.6, "reversed"),
        (-1, -0.6, "holds"),
        (0, 0.4, "holds"),
        (0, 0.6, "new"),
        (1, None, "not run"),
    ],
)
def test_verdict_of_a_claim_without_numbers_is_its_sign(sign, ours, verdict):
    assert verdicts.claim(None, ours, sign) == verdict


def test_cell_is_not_decidable_where_the_paper_prints_no_spread():
    assert verdicts.cell((66.0, None), [66.0], True) == "not decidable"


def test_identity_rows_and_controls_are_never_better(tmp_path):
    experiment = EXPERIMENTS["dynr2"]
    fits = plan(experiment, scale="quick")
    store = Store(tmp_path)
    for fit in fits:
        numbers = dict.fromkeys(fit.row.cells, 1.0)  # above everything that the paper prints
        store.put(fit.name, Outcome(record(fit, numbers)))
    lines = {(x["row"], x["metric"]): x["verdict"] for x in table(View(experiment, fits, store))}
    assert "better" not in {v for (row, _), v in lines.items() if row.endswith("/identity")}
    assert "better" not in {v for (_, m), v in lines.items() if m.endswith("_control")}
    assert lines["slds/switching", "dyn_r2_10"] == "better"  # 95.53 ± 0.47 in the paper


def test_claims_are_differences_of_the_same_data_and_seed(tmp_path):
    fits = [f for f in plan(TABLE1, scale="paper") if f.row.name.startswith("lds/")]
    store = Store(tmp_path)
    for fit in fits:
        if fit.dataset == 2:
            continue  # not run yet
        r2 = 0.5 + 0.1 * fit.dataset + (0.25 if fit.row.name == "lds/linear" else 0.0)
        store.put(fit.name, Outcome(record(fit, {"r2": r2})))
    first = claims(View(TABLE1, fits, store))[0]
    assert first["ours"]["n"] == 6
    assert first["ours"]["mean"] == pytest.approx(25.0)
    assert first["ours"]["std"] == pytest.approx(0.0, abs=1e-9)
    assert first["paper"] == pytest.approx(99.03 - 73.56)
    assert first["verdict"] == "holds"


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_a_table_says_what_its_scale_leaves_out_and_what_made_it(tmp_path, scale):
    experiment = EXPERIMENTS["ablations"]
    fits = plan(experiment, scale=scale, only=["layers=4/switching"], datasets=[0], seeds=[0])
    store = Store(tmp_path / "store")
    made = {"dynacl": "9.8.7", "sources": "abc123", "torch": "2.0", "machine": "riscv",
            "finished": "2031-01-02T03:04:05+0000"}  # fmt: skip
    store.put(fits[0].name, Outcome(record(fits[0], {"r2": 0.5}) | made))
    about = {"scale": scale, "protocol": "ours", "command": "dynacl reproduce ablations"}
    render(View(replace(experiment, figures=None), fits, store), tmp_path / "out", about)
    said = (tmp_path / "out" / "table.md").read_text()
    assert "Made by dynacl 9.8.7 (sources abc123); PyTorch 2.0; riscv; 2031-01-02." in said
    assert ("fewer values per panel" in said) == (scale == "quick")
    assert ("three data sets, one seed" in said) == (scale == "standard")
    assert ("Reduced" in said) == (scale != "paper")
