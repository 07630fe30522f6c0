"""Tables and figures of the paper: plans, verdicts, results that survive, and a run of each."""

import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import recipe
from dynacl.cli import main, parser
from dynacl.data import TimeSeries
from dynacl.encoders import Asymmetric
from dynacl.estimator import DCL
from dynacl.experiments import engines, verdicts
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.fitting import Outcome, run
from dynacl.experiments.plan import Experiment, Row, configuration, name, paper_numbers, plan, size
from dynacl.experiments.render import View, claims, table
from dynacl.experiments.reproduce import _command, count
from dynacl.experiments.runner import Store, expected, missing, sweep
from dynacl.settings import PROTOCOLS, tuples
from dynacl.training import Run

TABLE1 = EXPERIMENTS["table1"]


# -- verdicts ----------------------------------------------------------------------------------


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


def record(fit, numbers, **more):
    return {"config": fit.config, "state": "done", "metrics": numbers, "seconds": 2.0} | more


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


# -- the paper's numbers -----------------------------------------------------------------------


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


def test_quick_grid_has_every_rank_and_both_mixings():
    rows = EXPERIMENTS["noninjective"].rows
    quick, paper = (
        {(r.data["mixing"], r.data["rank"]) for r in rows(s)} for s in ("quick", "paper")
    )
    assert quick < paper
    assert {rank for _, rank in quick} == {rank for _, rank in paper} == {1, 2, 3}
    assert {mixing for mixing, _ in quick} == {mixing for mixing, _ in paper} == {"linear", "mlp"}
    assert {r.name for r in rows("quick")} < {r.name for r in rows("paper")}


# -- names and sizes ---------------------------------------------------------------------------


def tiny_row(**changed):
    row = TABLE1.rows("smoke")[4]
    assert row.name == "lds/linear"
    return replace(row, **changed)


def test_name_depends_on_everything_but_where_files_lie():
    def named(row=None, scale="smoke", protocol="ours", dataset=0, seed=0, threads=1):
        config = configuration(TABLE1, row or tiny_row(), scale, protocol, dataset, seed, threads)
        assert name(config | {"where": {"path": "/elsewhere"}}) == name(config)
        return name(config)

    variants = [
        named(),
        named(scale="quick"),
        named(protocol="paper"),
        named(dataset=1),
        named(seed=1),
        named(threads=2),
        named(tiny_row(post_hoc="linear")),
        named(tiny_row(control=False)),
        named(tiny_row(model={"n_components": 4, "dynamics": "linear"})),
        named(tiny_row(data={"system": "lds", "trials": 9, "steps": 9})),
    ]
    assert len(set(variants)) == len(variants)
    assert named(tiny_row(cells=("r2",), name="another")) == variants[0]  # what is shown


def test_name_is_a_sha256_whatever_the_order_of_settings():
    config = {"b": "ö", "a": [1, 1e-4], "where": {}}
    assert name(config) == hashlib.sha256(b'{"a":[1,0.0001],"b":"\\u00f6"}').hexdigest()[:24]
    assert name(dict(reversed(config.items()))) == name(config)
    real = configuration(TABLE1, tiny_row(), "quick", "ours", 0, 0)
    assert name(json.loads(json.dumps(dict(reversed(real.items()))))) == name(real)


def test_name_changes_with_the_settings_of_a_protocol(monkeypatch):
    before = name(configuration(TABLE1, tiny_row(), "quick", "ours", 0, 0))
    changed = replace(PROTOCOLS["default"], learning_rate=1e-5)
    monkeypatch.setitem(PROTOCOLS, "default", changed)
    assert name(configuration(TABLE1, tiny_row(), "quick", "ours", 0, 0)) != before


def test_experiments_share_the_fits_they_have_in_common():
    def names(experiment, pattern, scale="paper"):
        return {f.name for f in plan(EXPERIMENTS[experiment], scale=scale, only=[pattern])}

    slds = names("table1", "slds/switching")
    assert slds == names("slds", "angle=10,noise=0.0001/switching")
    assert slds == names("ablations", "layers=4/switching") == names("dynr2", "slds/switching")
    assert slds == names("baselines", "low/switching") == names("test_split", "modes=5/switching")
    assert names("table1", "lorenz/identity") == names("lorenz", "dt=0.01,noise=0.001/identity")
    small = names("lorenz", "dt=0.0005,noise=0.1/switching")
    assert names("table1", "lorenz-small-dt/switching") == small
    assert names("mcc", "slds/truth") == names("table1", "slds/truth")


def test_sizes_are_cut_by_trials_first():
    assert size(1000, 1000, None, "paper") == {"trials": 1000, "steps": 1000}
    assert size(1000, 1000, 200_000, "quick") == {"trials": 200, "steps": 1000}
    assert size(1, 1_000_000, 200_000, "quick") == {"trials": 1, "steps": 200_000}
    assert size(1000, 10, 200_000, "quick") == {"trials": 1000, "steps": 10}
    assert size(500_000, 2, 200_000, "quick") == {"trials": 100_000, "steps": 2}


PAGE = Path(__file__).parent.parent / "docs" / "reproduction.md"


def documented(protocol):
    """Experiment → settings that differ between its models, as the documentation lists them."""
    lines = re.findall(
        r"^\| `(\w+)` \| (ours|both) \| .* \| (`.*`) \|$", PAGE.read_text(), flags=re.M
    )
    assert len(lines) == 13
    found = {}
    for setting, of, experiments in lines:
        if of in (protocol, "both"):
            for experiment in re.findall(r"`(\w+)`", experiments):
                found.setdefault(experiment, set()).add(setting)
    return found


@cache
def silence(trials, steps):
    return TimeSeries.of(np.zeros((trials * steps, 1), np.float32), trial_length=steps)


def resolved(fit):
    """The settings that training gets, once the recipe has seen model and data."""
    size = fit.config["data"]
    trials, steps = (9, 900) if "sha256" in size else (size["trials"], size["steps"])
    model = DCL(**tuples(fit.config["model"]), **fit.config["training"])
    series = silence(trials, steps)
    if fit.config["control"] and size.get("system") in ("control-step", "control-lds"):
        series = replace(series, control=series.observations)
    settings = recipe.settings(model, series)
    encoder = nn.Identity()
    run = Run(Asymmetric(encoder, encoder) if model.asymmetric else encoder, encoder, settings,
              torch.Generator())  # fmt: skip
    return asdict(settings) | {"n_negatives": run.n_negatives}


def models_by_data(experiment, protocol, folder):
    groups = {}
    for fit in plan(experiment, scale="quick", protocol=protocol, seeds=[0], data_dir=folder):
        if "baseline" not in fit.row.model:
            key = json.dumps(fit.config["data"], sort_keys=True)
            groups.setdefault(key, []).append((fit, resolved(fit)))
    return groups.values()


@pytest.mark.parametrize("protocol", ["ours", "paper"])
def test_models_of_a_table_are_trained_alike_but_for_what_is_documented(protocol, tmp_path):
    (tmp_path / "x-VISp-800-x.npy").write_bytes(b"")
    found = {}
    for experiment in EXPERIMENTS.values():
        for models in models_by_data(experiment, protocol, tmp_path):
            for setting in models[0][1]:
                if len({settings[setting] for _, settings in models}) > 1:
                    found.setdefault(experiment.name, set()).add(setting)
    assert found == documented(protocol)


def test_steps_of_models_differ_by_no_more_than_documented(tmp_path):
    (tmp_path / "x-VISp-800-x.npy").write_bytes(b"")
    more = {}  # length of a trial: by which the baseline trains longer, at the same lags and offset
    for experiment in EXPERIMENTS.values():
        for models in models_by_data(experiment, "ours", tmp_path):
            steps = {}
            for _, s in models:
                steps.setdefault((s["time_lags"], s["time_offset"]), []).append(s["max_iter"])
            length = models[0][0].config["data"].get("steps", "allen")
            worst = max(max(alike) / min(alike) - 1 for alike in steps.values())
            more[length] = max(worst, more.get(length, 0))
    large = {length: round(v, 2) for length, v in more.items() if v > 0.002}
    assert large == {10: 0.14, 100: 0.01}


# -- results that survive ----------------------------------------------------------------------


def tiny(dynamics=("identity", "linear", "truth"), seeds=(0,), max_iter=3):
    """An experiment of its own, in a few lines: how a new system is added."""
    experiment = Experiment(
        name="tiny",
        title="A small rotation",
        source="–",
        rows=lambda scale: [
            Row(f"lds/{kind}", {"system": "lds", "d": 2, "trials": 8, "steps": 30, "layers": 1,
                                "observed": 4},
                {"n_components": 2, "dynamics": kind}, ("r2",), family="lds",
                paper_training={"max_iter": max_iter, "batch_size": 16, "n_negatives": 64})
            for kind in dynamics
        ],
    )  # fmt: skip
    return experiment, plan(experiment, scale="paper", protocol="paper", datasets=[0], seeds=seeds)


def noted(calls):
    def engine(configs):
        for config in configs:
            calls.append(name(config))
            yield run(config)

    return engine


def test_sweep_started_again_does_only_what_is_missing(tmp_path):
    _, fits = tiny()
    store, calls = Store(tmp_path), []
    sweep(missing(fits[:2], store), store, noted(calls))
    before = {p: p.read_bytes() for p in store.runs.iterdir()}
    sweep(missing(fits, store), store, noted(calls))
    assert calls == [f.name for f in fits]
    assert missing(fits, store) == []
    assert all(p.read_bytes() == content for p, content in before.items())


def test_same_configuration_is_run_once(tmp_path):
    _, fits = tiny()
    assert [f.name for f in missing([*fits, *fits], Store(tmp_path))] == [f.name for f in fits]


def test_failed_fit_is_recorded_and_does_not_stop_the_rest(tmp_path):
    _, fits = tiny(("identity", "no such dynamics", "linear"))
    store = Store(tmp_path)
    sweep(missing(fits, store), store, engines.local)
    assert [store.state(f.name) for f in fits] == ["done", "failed", "done"]
    failed = store.get(fits[1].name)
    assert failed["error"].startswith("InputError: dynamics: got 'no such dynamics'")
    assert "Traceback" in failed["traceback"]
    assert missing(fits, store) == []
    assert missing(fits, store, again=True) == [fits[1]]


def test_result_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    _, (fit, *_) = tiny(("identity",))
    store, outcome = Store(tmp_path), run(fit.config)

    def crash(*_):
        raise OSError("no power")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", crash)
        with pytest.raises(OSError, match="no power"):
            store.put(fit.name, outcome)
    assert store.state(fit.name) == "missing"
    store.put(fit.name, outcome)
    before = (store.runs / f"{fit.name}.json").read_bytes()
    with monkeypatch.context() as broken:
        broken.setattr("dynacl.experiments.runner.write", crash)
        with pytest.raises(OSError, match="no power"):
            store.put(fit.name, Outcome(record(fit, {"r2": 0.0})))
    assert (store.runs / f"{fit.name}.json").read_bytes() == before
    assert store.get(fit.name)["metrics"]["r2"] == outcome.record["metrics"]["r2"]


def test_interrupt_is_not_taken_for_a_result(tmp_path, monkeypatch):
    _, fits = tiny(("identity",))
    monkeypatch.setattr("dynacl.experiments.fitting.fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(fits, Store(tmp_path), engines.local)
    assert missing(fits, Store(tmp_path)) == fits


def interrupted(config):
    raise KeyboardInterrupt


def test_time_is_that_of_last_time_or_of_the_row_s_other_repeats(tmp_path):
    _, fits = tiny(("identity", "linear"), seeds=(0, 1))
    store = Store(tmp_path)
    store.put(fits[0].name, Outcome(record(fits[0], {}, seconds=7.0)))
    known = expected(fits, store)
    assert known == {fits[0].name: 7.0, fits[1].name: 7.0}
    assert fits[0].row.name == fits[1].row.name


def test_number_of_threads_is_left_as_it_was():
    before = torch.get_num_threads()
    _, (fit, *_) = tiny(("identity",))
    run(fit.config | {"threads": before + 1})
    assert torch.get_num_threads() == before


# -- the command -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(0)
    np.save(out / "small-VISp-800-1.npy", rng.standard_normal((600, 6)).astype(np.float32))
    return out


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_smoke_run_writes_table_and_figures(experiment, results, capsys):
    command = ["reproduce", experiment, "--scale", "smoke", "--jobs", "1", "--out", str(results)]
    code = main([*command, "--data-dir", str(results)])
    folder = results / f"{experiment}-smoke-ours"
    found = json.loads((folder / "table.json").read_text())
    assert found["errors"] == []
    assert code == 0
    assert found["fits"]["missing"] == 0
    assert all(line["ours"] is not None for line in found["cells"])
    text = (folder / "table.md").read_text()
    assert text in capsys.readouterr().out + "\n"
    assert found["command"] in text
    pictures = {p.suffix for p in folder.iterdir()} - {".md", ".json"}
    assert pictures == ({".png", ".pdf"} if EXPERIMENTS[experiment].figures else set())


def smoke(results, *more):
    command = ["reproduce", "table1", "--scale", "smoke", "--jobs", "1", "--out", str(results)]
    return main([*command, *more])


def test_paper_protocol_runs_too_and_identity_rows_show_both(results):
    assert smoke(results, "--only", "lds/identity") == 0
    assert smoke(results, "--only", "lds/identity", "--protocol", "paper") == 0
    found = json.loads((results / "table1-smoke-paper" / "table.json").read_text())
    assert found["fits"]["done"] == 1
    others = found["identity_rows_other_protocol"]
    assert "lds/identity" in {line["row"] for line in others}
    assert all(line["row"].endswith("/identity") for line in others)


def test_dry_run_says_what_would_run_and_runs_nothing(results, tmp_path, capsys):
    assert smoke(tmp_path / "new", "--dry-run") == 0
    assert "15 fits, 15 to run: time not known" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()
    assert smoke(results, "--only", "identity/*") == 0
    before = sorted(results.rglob("*"))
    capsys.readouterr()
    assert smoke(results, "--only", "identity/*", "--seeds", "0", "1", "--dry-run") == 0
    printed = capsys.readouterr().out
    assert printed.count("done ") == 2
    assert printed.count("missing ") == 2
    assert "4 fits, 2 to run: about" in printed
    assert sorted(results.rglob("*")) == before


def test_status_counts_what_is_there(results, tmp_path, capsys):
    assert smoke(tmp_path, "--only", "lds/linear") == 0
    capsys.readouterr()
    assert main(["reproduce", "--status", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert f"{tmp_path}: 1 fits done, 0 failed" in printed
    assert "table1           smoke  ours   1 done, 0 failed, 14 missing of 15" in printed


def test_status_and_compute_see_fits_with_any_number_of_threads(tmp_path, capsys):
    store = Store(tmp_path)
    for threads, rows in ((1, ["lds/linear"]), (2, ["lds/linear", "lds/identity"])):
        for fit in plan(TABLE1, scale="quick", only=rows, threads=threads):
            store.put(fit.name, Outcome(record(fit, {"r2": 1.0})))  # of two seconds each
    assert main(["reproduce", "--status", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "quick  ours   1 done, 0 failed, 14 missing of 15\n" in printed
    assert "quick  ours   2 done, 0 failed, 13 missing of 15, 2 threads a fit\n" in printed
    text, lines = EXPERIMENTS["compute"].summary(store)
    found = next(line for line in lines if line["experiment"] == "table1")
    assert found["done"] == 3
    assert found["threads"] == [1, 2]
    assert found["core_hours"] == pytest.approx((2 + 2 * 2 + 2 * 2) / 3600)
    assert "| 3 | 1, 2 | 3 | 0.00 |" in text  # mean 10 / 3 core seconds


def test_command_of_a_table_names_the_repeats_that_are_there():
    words = ["reproduce", "table1", "--scale", "paper", "--only", "lds/*"]
    usual = plan(TABLE1, scale="paper")
    some = plan(TABLE1, scale="paper", only=["lds/*"], datasets=[0, 4], seeds=[0])
    said = _command(parser().parse_args(words), some, usual)
    assert said.endswith("--protocol ours --only 'lds/*' --datasets 0 4 --seeds 0")
    more = [*some, *plan(TABLE1, scale="paper", only=["slds/truth"], datasets=[0], seeds=[0])]
    assert "--only" not in _command(parser().parse_args(words), more, usual)
    with_threads = _command(parser().parse_args([*words[:4], "--threads", "2"]), usual, usual)
    assert with_threads == "dynacl reproduce table1 --scale paper --protocol ours --threads 2"


def test_table_grows_with_repeats_of_other_commands(tmp_path, capsys):
    def n(*words):
        assert smoke(tmp_path, "--only", "lds/linear", *words) == 0
        found = json.loads((tmp_path / "table1-smoke-ours" / "table.json").read_text())
        cell = next(c for c in found["cells"] if c["row"] == "lds/linear")
        return cell["ours"]["n"], found["command"]

    assert n()[0] == 1
    assert n("--datasets", "7", "--seeds", "3", "4")[0] == 3
    again, command = n()
    assert again == 3
    assert "--datasets 0 7 --seeds 0 3 4" in command
    capsys.readouterr()
    assert main(["reproduce", "--status", str(tmp_path)]) == 0
    assert "table1           smoke  ours   3 done, 0 failed, 14 missing" in capsys.readouterr().out


def test_status_names_failed_fits(tmp_path, capsys):
    (fit,) = plan(TABLE1, scale="smoke", only=["lds/linear"])
    failed = record(fit, {}) | {"state": "failed", "error": "ValueError: no\nmore"}
    sweep([fit], Store(tmp_path), lambda configs: iter([Outcome(failed)]))
    capsys.readouterr()
    assert main(["reproduce", "--status", str(tmp_path)]) == 0
    assert "lds/linear, data 0, seed 0: ValueError: no\n" in capsys.readouterr().out


def test_reader_that_has_seen_enough_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "dynacl", "reproduce", "--list"]
    ended = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_list_names_every_table_and_figure(capsys):
    assert main(["reproduce", "--list"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n{n} " in "\n" + printed for n in EXPERIMENTS)
    for label in ("tab:theory", "fig:slds", "fig:lorenz", "fig:variations", "tab:benchmarking"):
        assert label in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "NAME: missing"),
        (["table7"], "NAME: got 'table7'"),
        (["table1", "--only", "lds/mlp"], "--only: no row of table1 is 'lds/mlp'"),
        (["table1", "--scheduler", "tcp://here:1"], "--scheduler: is for --engine dask"),
        (["allen"], "--data-dir: missing"),
        (["allen", "--data-dir", "."], "--data-dir: . holds 0 files"),
        (["--status", "nowhere"], "--status: nowhere holds no results"),
        (["table1", "--out", __file__], "is a file; wanted a folder"),
    ],
)
def test_bad_input_is_one_clear_sentence(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNACL_DATA", raising=False)
    assert main(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_recordings_are_shuffled_within_repeats(results):
    row = EXPERIMENTS["allen"].rows("smoke")[0]
    from dynacl.experiments.fitting import simulated

    make = partial(configuration, EXPERIMENTS["allen"], scale="smoke", protocol="ours", dataset=0,
                   seed=0, data_dir=results)  # fmt: skip
    plain = simulated(make(row=row))
    shuffled = simulated(make(row=replace(row, data={**row.data, "shuffle": True})))
    assert plain.n_trials == shuffled.n_trials == 10
    assert not np.array_equal(plain.observations, shuffled.observations)
    for a, b in plain.spans():
        one, two = plain.observations[a:b], shuffled.observations[a:b]
        assert np.array_equal(np.sort(one, axis=0), np.sort(two, axis=0))


def test_recording_among_other_arrays_is_found(results, tmp_path):
    from dynacl.experiments.fitting import simulated

    y = np.load(results / "small-VISp-800-1.npy")
    np.savez(tmp_path / "movie_VISp_mouse800.npz", neural=y, frame=np.arange(len(y)))
    row = EXPERIMENTS["allen"].rows("smoke")[0]
    config = configuration(EXPERIMENTS["allen"], row, "smoke", "ours", 0, 0, data_dir=tmp_path)
    assert np.array_equal(simulated(config).observations, y)


@pytest.mark.skipif("DYNACL_DATA" not in os.environ, reason="DYNACL_DATA names no folder of data")
def test_recording_of_the_movie_has_ten_repeats(capsys):
    assert main(["reproduce", "allen", "--scale", "quick", "--dry-run"]) == 0
    from dynacl.experiments.fitting import simulated

    row = EXPERIMENTS["allen"].rows("quick")[0]
    folder = Path(os.environ["DYNACL_DATA"])
    config = configuration(EXPERIMENTS["allen"], row, "quick", "ours", 0, 0, data_dir=folder)
    assert simulated(config).lengths.tolist() == [900] * 10


def test_experiment_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    from dynacl import simulate

    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)
    system, experiment = (b for b in blocks if "spiral" in b)
    names = {}
    exec(system, names)
    monkeypatch.setitem(simulate.PRESETS, "spiral", (names["spiral"], {}))
    exec(experiment, names)
    monkeypatch.setitem(EXPERIMENTS, "spiral", names["EXPERIMENT"])
    command = ["reproduce", "spiral", "--scale", "smoke", "--jobs", "1", "--out", str(tmp_path)]
    assert main(command) == 0
    assert "| decay=0.99/linear | R² [%] | – |" in capsys.readouterr().out
    assert (tmp_path / "spiral-smoke-ours" / "spiral.pdf").exists()
