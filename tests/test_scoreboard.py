"""The scoreboard: one judge for all, scripts that are there, exact pins, rows that stay."""

import ast
import importlib
import json
import re

import numpy as np
import pytest
from benchmarks.scoreboard import environments, running, summary, tasks
from benchmarks.scoreboard.judging import judged

PEERS = sorted({tool for tools in running.METHODS.values() for tool in tools})


@pytest.fixture(scope="module")
def lds():
    return tasks.TASKS["lds"]("tiny", 0)


@pytest.fixture(scope="module")
def switching():
    return tasks.TASKS["slds-linear"]("tiny", 0)


def test_a_tool_that_knows_the_truth_up_to_an_affine_map_has_full_marks(lds):
    x = lds.truth.truth.latents.astype(float)
    A = np.asarray(lds.truth.truth.system["matrix"], dtype=float)
    L = np.array([[2.0, 1, 0], [0, 1, -1], [0.5, 0, 3]])
    ahead = x @ np.linalg.matrix_power(A, tasks.AHEAD).T
    found = judged(lds, {"latents": x @ L.T + 7, "ahead": ahead @ L.T + 7})
    assert found["r2"] == pytest.approx(1)
    assert found["dyn_r2_10"] == pytest.approx(1)
    assert found["dyn_r2_10_control"] < 0.9


def test_noise_instead_of_latents_has_no_marks(lds):
    x = np.random.default_rng(0).standard_normal(lds.truth.truth.latents.shape)
    found = judged(lds, {"latents": x, "ahead": x})
    assert abs(found["r2"]) < 0.1
    assert found["dyn_r2_10"] < 0.1


def test_names_of_modes_do_not_matter_and_unknown_steps_do_not_count(switching):
    true = switching.truth.truth.modes
    named = (true + 1) % (true.max() + 1)
    named[::7] = -1
    assert judged(switching, {"modes": named})["mode_accuracy"] == 1


def test_fresh_trials_are_not_those_that_are_learned_from(lds):
    assert not np.isin(lds.given["test_y"][:, 0], lds.given["y"][:, 0]).any()


def test_simulations_are_judged_after_the_warm_up_and_a_run_off_has_no_r2():
    y = np.random.default_rng(0).standard_normal((80, 1))
    task = tasks.Task("tanks", "machine", {}, y)
    assert judged(task, {"predicted": y[tasks.WARMUP :]}) == {"rmse": 0, "r2": 1}
    assert judged(task, {"predicted": y[tasks.WARMUP :] + np.inf})["r2"] == -np.inf


def test_the_budget_is_for_steps_and_what_every_fit_costs(monkeypatch):
    monkeypatch.syspath_prepend(environments.SCRIPTS)
    exchange = importlib.import_module("exchange")
    now = [0.0]
    monkeypatch.setattr(exchange.time, "process_time", lambda: now[0])
    first = [30.0]

    def work(steps):
        now[0] += 2 + 0.5 * steps + (first.pop() if first else 0)

    clock = exchange.Clock()
    assert clock.steps_within(60, work, 20, 10**6) == 116
    assert clock.steps_within(60, work, 20, 50) == 50
    clock.timed(lambda: work(116))
    assert clock.fit == 60


@pytest.mark.parametrize("tool", PEERS)
def test_a_script_has_the_methods_that_it_is_asked_for(tool):
    tree = ast.parse((environments.SCRIPTS / f"with_{tool}.py").read_text())
    call = tree.body[-1].value
    assert ast.unparse(call.func) == "exchange.main"
    offered = {key.value for key in call.args[0].keys}
    asked = {m for tools in running.METHODS.values() for m in tools.get(tool, ())}
    assert asked == offered


@pytest.mark.parametrize("tool", sorted(set(PEERS) - {"dynacl"}))
def test_scripts_of_peers_do_not_import_dynacl(tool):
    text = (environments.SCRIPTS / f"with_{tool}.py").read_text()
    assert not re.search(r"^\s*(import|from) (dynacl|benchmarks)", text, re.M)


@pytest.mark.parametrize("tool", sorted(set(PEERS) - set(environments.OURS)))
def test_every_package_of_a_peer_is_pinned_exactly(tool):
    lines = (environments.SCRIPTS / f"{tool}.txt").read_text().split("\n")
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines if line)
    assert environments.version(tool)


def test_a_failure_and_a_size_are_said_on_the_page():
    row = running.key("lds", "tiny", "cebra", "time", 5.0, 0) | {"words": "4,000 samples"}
    done = row | {"seconds": 4.0, "compiled": 1.0, "r2": 0.5}
    failed = row | {"method": "offset10", "failed": "ValueError: no"}
    text = summary.tables([done, failed])
    assert "### lds, tiny, 5 s" in text
    assert "| CEBRA, single frames, euclidean | 0.500 | 4.0 | 0 |" in text
    assert "ValueError: no" in text


def test_rows_stay_and_one_that_was_cut_off_or_failed_is_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ROWS", tmp_path / "rows" / "rows.jsonl")
    row = running.key("lds", "tiny", "cebra", "time", 5.0, 0)
    assert not running.is_there(row)
    running.add(row | {"failed": "no"})
    assert not running.is_there(row)
    running.add(row | {"r2": 0.5})
    assert running.is_there(row)
    assert not running.is_there(row | {"budget": 60.0})
    with running.ROWS.open("a") as end:
        end.write(json.dumps(row)[:20])
    running.add(row | {"seed": 1, "r2": 0.6})
    assert [r["r2"] for r in running.rows()] == [0.5, 0.6]
