"""`dynacl reproduce`: a run of every experiment, what it writes and what it says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dynacl.cli import main, parser
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.fitting import Outcome
from dynacl.experiments.plan import plan
from dynacl.experiments.reproduce import _command
from dynacl.experiments.runner import sweep
from dynacl.experiments.store import Store
from small_fits import record

TABLE1 = EXPERIMENTS["table1"]
PAGE = Path(__file__).parent.parent / "docs" / "reproduction.md"


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
    n = len(TABLE1.rows("smoke"))
    assert f"{n} fits, {n} to run: time not known" in capsys.readouterr().out
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
    assert "table1           smoke    ours   1 done, 0 failed, 14 missing of 15" in printed


def test_status_and_compute_see_fits_with_any_number_of_threads(tmp_path, capsys):
    store = Store(tmp_path)
    for threads, rows in ((1, ["lds/linear"]), (2, ["lds/linear", "lds/identity"])):
        for fit in plan(TABLE1, scale="quick", only=rows, threads=threads):
            store.put(fit.name, Outcome(record(fit, {"r2": 1.0})))  # of two seconds each
    assert main(["reproduce", "--status", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "quick    ours   1 done, 0 failed, 14 missing of 15\n" in printed
    assert "quick    ours   2 done, 0 failed, 13 missing of 15, 2 threads per fit\n" in printed
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
    assert (
        "table1           smoke    ours   3 done, 0 failed, 14 missing" in capsys.readouterr().out
    )


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
