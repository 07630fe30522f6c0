"""From rows to configurations: names, sizes, shared fits, and models that are trained alike."""

import hashlib
import json
import re
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import recipe
from dynacl.data import TimeSeries
from dynacl.encoders import Asymmetric
from dynacl.estimator import DCL
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.plan import configuration, name, plan, size
from dynacl.settings import PROTOCOLS, tuples
from dynacl.training import Run

TABLE1 = EXPERIMENTS["table1"]
PAGE = Path(__file__).parent.parent / "docs" / "reproduction.md"


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


def test_quick_grid_has_every_rank_and_both_mixings():
    rows = EXPERIMENTS["noninjective"].rows
    quick, paper = (
        {(r.data["mixing"], r.data["rank"]) for r in rows(s)} for s in ("quick", "paper")
    )
    assert quick < paper
    assert {rank for _, rank in quick} == {rank for _, rank in paper} == {1, 2, 3}
    assert {mixing for mixing, _ in quick} == {mixing for mixing, _ in paper} == {"linear", "mlp"}
    assert {r.name for r in rows("quick")} < {r.name for r in rows("paper")}


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
