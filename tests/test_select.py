"""`select`: it finds what was simulated, keeps what it has, and says what failed."""

import json
from dataclasses import replace

import numpy as np
import pytest

from command_line import dynacl, refusal
from dynacl import InputError, TimeSeries, select, simulate
from dynacl.choosing.rule import NOTHING, Row, Selection
from dynacl.cli import parser
from dynacl.experiments import selecting

QUICK = {"max_iter": 40, "batch_size": 128}


@pytest.fixture(scope="module")
def noisy():
    """Three dimensions, seen in eight through a linear map, with noise."""
    return simulate.lds(rng=np.random.default_rng(1000), d=3, trials=20, steps=150, observed=8,
                        mixing="linear", angle=8.0, noise=0.05, observation_noise=0.02)  # fmt: skip


def test_the_dimensions_of_a_linear_system_are_found(noisy, tmp_path):
    found = select(noisy, (2, 3, 4), folds=1, out=tmp_path, **QUICK)
    assert found.parameters == {"n_components": 3, "dynamics": "linear"}
    ratios = [row.decibels for row in found.rows]
    assert ratios[1] > ratios[0] + 3
    assert {"score", "seconds"} <= found.rows[0].about.keys()
    assert {"persistence", "VAR"} <= found.beside.keys()


def test_shuffled_data_have_no_dynamics_beyond_noise(noisy):
    order = np.random.default_rng(0).permutation(len(noisy))
    shuffled = replace(noisy, observations=noisy.observations[order])
    found = select(shuffled, (1, 3), folds=1, **QUICK)
    assert found.recommended is None
    assert NOTHING in str(found)[-200:].lower()


def test_what_is_there_is_not_fitted_again(two_modes, tmp_path, monkeypatch):
    few = {"max_iter": 3, "batch_size": 32}
    first = select(two_modes, (1, 2), folds=1, out=tmp_path, **few)
    fitted = []
    fit = selecting.fit
    monkeypatch.setattr(selecting, "fit", lambda c: (fitted.append(c["choice"]), fit(c))[1])
    again = select(two_modes, (1, 2), folds=1, out=tmp_path, **few)
    assert again == first
    assert not fitted
    select(two_modes, (1, 2, 3), folds=1, out=tmp_path, **few)
    assert fitted == [{"n_components": 3, "dynamics": "linear"}]


def test_consistency_compares_embeddings_of_all_folds(two_modes):
    found = select(two_modes, (2,), (2,), ("switching",), max_iter=3, batch_size=32)
    (row,) = found.rows
    assert row.choice == {"n_components": 2, "dynamics": "switching", "n_modes": 2}
    assert -1 < row.about["consistency"] <= 1


def test_modes_are_tried_where_there_are_any():
    choices = selecting._choices((2, 3), (1, 4), ("linear", "switching"))
    assert choices == [
        {"n_components": 2, "dynamics": "linear"},
        {"n_components": 3, "dynamics": "linear"},
        *({"n_components": d, "dynamics": "switching", "n_modes": k} for d in (2, 3)
          for k in (1, 4)),
    ]  # fmt: skip


def test_a_choice_that_fails_says_why_and_the_others_go_on(two_modes):
    data = TimeSeries.of(two_modes.split(two_modes.observations))  # without its system
    found = select(data, (2,), dynamics=("truth", "linear"), folds=1, max_iter=3, batch_size=32)
    assert found.rows[0].choice["dynamics"] == "linear"
    assert found.rows[0].decibels is not None
    assert "needs data that carry their system" in found.rows[-1].failed
    assert "needs data that carry their system" in str(found)
    with pytest.raises(InputError, match="no choice could be fitted"):
        select(data, (2,), dynamics=("truth",), folds=1, max_iter=3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"components": 3}, "components: got 3; wanted a list"),
        ({"components": (0, 2)}, r"components: got \(0, 2\); wanted a list, each a whole number"),
        ({"dynamics": "linear"}, "dynamics: got 'linear'; wanted a list"),
        ({"dynamics": ("auto",)}, r"dynamics: got \('auto',\)"),
        ({"folds": 6}, "folds: got 6; wanted a whole number from 1 to 5"),
        ({"n_components": 3}, "n_components: is no parameter that all choices can share"),
        ({"nonsense": 3}, "nonsense: is no parameter that all choices can share"),
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"engine": "slurm"}, "engine: got 'slurm'; wanted local or dask"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_requests_end_in_a_sentence(two_modes, given, message):
    with pytest.raises(InputError, match=message):
        select(two_modes, **given)


def test_the_command_line_says_how_to_fit_what_was_chosen(world, capsys, monkeypatch):
    chosen = {"n_components": 2, "dynamics": "switching", "n_modes": 3}
    found = Selection([Row(chosen)], {}, (1,), 0, "it is the only one")
    monkeypatch.setattr("dynacl.experiments.selecting.select", lambda *_, **__: found)
    monkeypatch.setattr(Selection, "__str__", lambda _: "a table")
    dynacl("select", world / "slds.npz", "--quiet")
    said = capsys.readouterr().err.splitlines()[-1].partition(": dynacl ")[2]
    options = parser().parse_args(said.split())
    assert (options.name, options.data) == ("fit", str(world / "slds.npz"))
    assert {name: getattr(options, name) for name in chosen} == chosen


def test_the_command_line_writes_a_table_and_json(world, tmp_path):
    words = ("select", world / "slds.npz", "--components", "1,2", "--folds", 1, "--max-iter", 3,
             "--batch-size", 16, "--jobs", 1, "--quiet", "--out", tmp_path)  # fmt: skip
    shown = dynacl(*words)
    assert "n_components=1, dynamics='linear'" in shown
    assert (tmp_path / "selection.txt").read_text() == shown
    kept = json.loads((tmp_path / "selection.json").read_text())
    assert json.loads(dynacl(*words, "--json")) == kept
    assert kept["rows"][1]["choice"] == {"n_components": 2, "dynamics": "linear"}
    assert (tmp_path / "selection.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--components", "0,2"), "--components: got (0, 2); wanted a list, each a whole number"),
        (("--dynamics", "linaer"), "--dynamics: got ('linaer',); wanted a list, each one of"),
        (("--folds", 9), "--folds: got 9; wanted a whole number from 1 to 5"),
        (("--scheduler", "tcp://x"), "--scheduler: is for the engine dask"),
    ],
)
def test_bad_options_are_refused_by_their_names(world, words, said):
    assert said in refusal("select", world / "slds.npz", *words)
