"""From rows to configurations: names, sizes, shared fits, and models that are trained alike."""

import hashlib
import json
import re
from dataclasses import asdict, replace
from functools import cache
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import assembly
from dynacl.data import TimeSeries
from dynacl.encoders import Asymmetric, CustomEncoder
from dynacl.estimator import DCL
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.fitting import simulated
from dynacl.experiments.plan import configuration, name, plan, size
from dynacl.objective.geometry.naming import resolve
from dynacl.request import Request
from dynacl.run import Run
from dynacl.settings import PROTOCOLS, tuples

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
        named(tiny_row(fresh=True)),
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
    ours = PROTOCOLS["default"]
    changed = replace(ours.settings, learning_rate=1e-5)
    for other in (ours._replace(settings=changed), ours._replace(adapts=False)):
        monkeypatch.setitem(PROTOCOLS, "default", other)
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


def test_standard_has_the_whole_grid_and_keeps_sizes_that_are_compared():
    for figure in ("slds", "lorenz", "lorenz_modes", "noninjective", "vmf", "kde", "control"):
        rows = EXPERIMENTS[figure].rows
        assert {r.name for r in rows("standard")} == {r.name for r in rows("paper")}
    fits = plan(EXPERIMENTS["ablations"], scale="standard")
    samples = {f.row.name: f.config["data"]["trials"] * f.config["data"]["steps"] for f in fits}
    assert samples["length=1000000/switching"] == samples["samples=1000/switching"] == 1_000_000
    assert samples["samples=100/switching"] == 100_000
    assert samples["layers=3/switching"] == 200_000
    assert max(samples.values()) == 1_000_000
    assert {f.dataset for f in fits} == {0, 1, 2}
    assert {f.seed for f in fits} == {0}


def test_standard_compares_runs_over_five_seeds():
    checked = plan(EXPERIMENTS["baselines_check"], scale="standard", only=["tdrl"])
    assert [(f.dataset, f.seed) for f in checked] == [(0, seed) for seed in range(5)]
    row = EXPERIMENTS["allen"].rows("standard")[0]
    assert row.repeats("standard") == (1, 5)


# -- trained alike -----------------------------------------------------------------------------


@cache
def silence(trials, steps):
    return TimeSeries.of(np.zeros((trials * steps, 1), np.float32), trial_length=steps)


@cache
def true_system(data):
    few = {"trials": 1, "steps": 2}
    return simulated({"data": json.loads(data) | few, "where": {}}).truth.system


def resolved(fit, trials=None, steps=None):
    """The settings that training gets, once the recipe has seen the model and so many samples."""
    data = fit.config["data"]
    series = silence(trials or data.get("trials", 9), steps or data.get("steps", 900))
    if fit.config["control"] and data["system"] in ("control-step", "control-lds"):
        series = replace(series, control=series.observations)
    model = DCL(**tuples(fit.config["model"]), **fit.config["training"])
    request, generator = Request.of(model.get_params(deep=False)), torch.Generator()
    system = true_system(json.dumps(data)) if model.dynamics == "truth" else None
    f = assembly.make_dynamics(request, series.n_controls, system, generator)
    geometry = resolve(model.similarity)
    settings, _ = assembly.settings_of(request, f, geometry, series)
    encoder = CustomEncoder(nn.Identity())
    run = Run(Asymmetric(encoder, encoder) if model.asymmetric else encoder, f, settings,
              generator, geometry)  # fmt: skip
    return asdict(settings) | {"n_negatives": run.n_negatives}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Protocol → [experiment, fits of the same data], of all experiments at quick scale."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "x-VISp-800-x.npy").write_bytes(b"")
    found = {}
    for protocol in ("ours", "paper"):
        groups = {}
        for e in EXPERIMENTS.values():
            for fit in plan(e, scale="quick", protocol=protocol, seeds=[0], data_dir=folder):
                if "baseline" not in fit.row.model:
                    key = e.name, json.dumps(fit.config["data"], sort_keys=True)
                    groups.setdefault(key, []).append(fit)
        found[protocol] = [(e, fits) for (e, _), fits in groups.items()]
    return found


def differing(*settings):
    return {key for key in settings[0] if len({s[key] for s in settings}) > 1}


@pytest.mark.parametrize("protocol", ["ours", "paper"])
def test_models_on_the_same_data_are_asked_to_train_alike(protocol, models):
    for _, (first, *others) in models[protocol]:
        for fit in others:
            assert fit.config["training"] == first.config["training"]
            assert fit.config["settings"] == first.config["settings"]
            assert fit.config["threads"] == first.config["threads"]


def test_paper_trains_models_alike_but_for_what_is_compared(models):
    for _, fits in models["paper"]:
        arguments = [f.config["model"] for f in fits]
        keys = {key for model in arguments for key in model}
        compared = differing(*({k: str(model.get(k)) for k in keys} for model in arguments))
        assert differing(*map(resolved, fits)) <= compared


def test_our_models_differ_by_their_own_wishes_and_not_by_the_experiment(models):
    """What differs on the data of a table differs on any data, here 50 trials of 1,000 steps."""
    for _, fits in models["ours"]:
        for a, b in combinations(fits, 2):
            anywhere = differing(resolved(a, 50, 1000), resolved(b, 50, 1000))
            assert differing(resolved(a), resolved(b)) <= anywhere


def test_documentation_names_the_settings_that_differ(models):
    """The page is judged here: a line has the setting and every experiment where it differs."""
    lines = [set(re.findall(r"`(\w+)`", line)) for line in PAGE.read_text().splitlines()]
    missing = {
        (protocol, setting, experiment)
        for protocol in ("ours", "paper")
        for experiment, fits in models[protocol]
        for setting in differing(*map(resolved, fits))
        if not any({setting, experiment} <= words for words in lines)
    }
    assert not missing


def test_a_model_trains_longer_only_by_the_cube_root_of_its_pairs(models):
    """Of a trial of T steps, T − past − offset · horizon are the first of a pair."""

    def pairs(fit, s):
        size = {"trials": 9, "steps": 900} | fit.config["data"]
        reach = max(s["time_lags"]) + s["time_offset"] * s["horizon"]
        return size["trials"] * (size["steps"] - reach)

    longest = 1
    for _, fits in models["ours"]:
        for a, b in permutations(((f, resolved(f)) for f in fits), 2):
            more = (pairs(*a) / pairs(*b)) ** (1 / 3)
            rounding = 1 / b[1]["max_iter"]  # half a step at either end
            assert a[1]["max_iter"] / b[1]["max_iter"] <= max(1, more) + rounding
            longest = max(longest, a[1]["max_iter"] / b[1]["max_iter"])
    assert longest > 1.1  # at 10 samples per trial: nothing here holds for want of cases
