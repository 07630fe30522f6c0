"""Bad input, case by case: one clear sentence that names what came, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dynacl import DCL, InputError, TimeSeries, __version__, evaluate, metrics, simulate
from dynacl.cli import main
from dynacl.configuration import FORMAT
from dynacl.persistence import MODEL
from dynacl.sealing import sealed, unsealed
from dynacl.training import TrainingError

X = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
U = np.random.default_rng(1).standard_normal((40, 2)).astype(np.float32)
HOLE = np.where(np.arange(200).reshape(40, 5) == 17, np.nan, X)
OBJECTS = np.array([[{}]], dtype=object)
NEWER = f"was saved in format 99 by dynacl '{__version__}'; this is dynacl {__version__}, which "
of = TimeSeries.of


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def dcl(*args: Any, **settings: Any) -> DCL:
    return DCL(*args, **{"max_iter": 2, "random_state": 0, "device": "cpu", **settings})


@pytest.fixture(scope="module")
def w(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A folder of good and bad files, and small models."""
    p = tmp_path_factory.mktemp("world")
    lds = simulate.lds(rng=rng(), trials=4, steps=20, observed=5)
    lds.write(p / "lds.npz")
    np.save(p / "x.npy", X)
    np.save(p / "hole.npy", HOLE)
    np.save(p / "wide.npy", np.tile(X, 2))
    np.savez(p / "two.npz", a=X, b=U)
    np.savez(p / "objects.npz", OBJECTS)
    np.savez(p / "bounds.npz", observations=X, bounds=[0, 50])
    for name, text in {
        "words.csv": "a,b\n1,2\n1,two\n",
        "notes.txt": "mine",
    }.items():
        (p / name).write_text(text)
    fit = "--max-iter 2 --components 2 --quiet --device cpu"
    assert main(f"fit {p}/x.npy --out {p}/run {fit}".split()) == 0
    driven = "--key a --control-key b --dynamics switching --modes 2"
    assert main(f"fit {p}/two.npz --out {p}/driven {fit} {driven}".split()) == 0
    models = {"model": DCL.load(p / "run"), "driven": DCL.load(p / "driven")}
    for name, file, change in (
        ("torn", "model.safetensors", lambda b: b[:100]),
        ("garbled", "config.json", lambda b: b[:100]),
    ):
        shutil.copytree(p / "run", p / name)
        (p / name / file).write_bytes(change((p / name / file).read_bytes()))
    # Whole models, with a right checksum, that say something else.
    tensors, texts = unsealed(p / "run" / MODEL)
    for name, was, now in (
        ("future", f'"format": {FORMAT}', '"format": 99'),
        ("alien", '"n_modes"', '"n_moods"'),
        ("other", '"n_components": 2', '"n_components": 3'),
    ):
        assert was in texts["config"]
        config = texts["config"].replace(was, now)
        shutil.copytree(p / "run", p / name)
        (p / name / MODEL).write_bytes(sealed(tensors, texts | {"config": config}))
        (p / name / "config.json").write_text(config)
    (p / "hollow").mkdir()
    models |= {"linear": dcl(2).fit(X, u=U), "still": dcl(2, "identity").fit(X, u=U)}
    return SimpleNamespace(path=p, lds=lds, **models)


# -- through Python ----------------------------------------------------------------------------

Case = tuple[Callable[[Any], Any], str]
FOLDERS: dict[str, Case] = {
    "load nothing": (lambda w: DCL.load(w.path / "nowhere"), "has no model.safetensors; wanted"),
    "load hollow": (lambda w: DCL.load(w.path / "hollow"), "has no model.safetensors; wanted"),
    "load torn": (lambda w: DCL.load(w.path / "torn"), "is damaged, or was not written by dynacl"),
    "load garbled": (
        lambda w: DCL.load(w.path / "garbled"),
        "config.json: is not as it was written",
    ),
    "load future": (lambda w: DCL.load(w.path / "future"), NEWER),
    "load alien": (lambda w: DCL.load(w.path / "alien"), "parameters: none is called 'n_moods'"),
    "load other": (lambda w: DCL.load(w.path / "other"), "its encoder has 5123 weights"),
    "load device": (lambda w: DCL.load(w.path / "run", device="tpu"), "device: 'tpu' cannot be"),
}
PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"n_components": 0}, "n_components: got 0; wanted a whole number of at least 1"),
    ({"n_components": -1}, "n_components: got -1; wanted a whole number"),
    ({"n_components": 1.5}, "n_components: got 1.5; wanted a whole number"),
    ({"n_components": "3"}, "n_components: got '3'; wanted a whole number"),
    ({"n_components": None, "dynamics": "truth"}, "n_components: got None"),
    ({"n_modes": 0}, "n_modes: got 0; wanted a whole number"),
    ({"batch_size": 0}, "batch_size: got 0; wanted a whole number"),
    ({"batch_size": 1}, "batch_size: got 1; with the batch as negatives it needs at least 2"),
    ({"n_negatives": 0}, "n_negatives: got 0; wanted a whole number"),
    ({"n_negatives": "all"}, "n_negatives: got 'all'; wanted"),
    ({"max_iter": 0}, "max_iter: got 0; wanted a whole number"),
    ({"learning_rate": 0}, "learning_rate: got 0; wanted a positive number"),
    ({"learning_rate": float("nan")}, "learning_rate: got nan; wanted a positive number"),
    ({"learning_rate": float("inf")}, "learning_rate: got inf; wanted a positive number"),
    ({"dynamics_learning_rate": -1e-3}, "dynamics_learning_rate: got -0.001; wanted a positive"),
    ({"time_offset": 0}, "time_offset: got 0; wanted a whole number of at least 1"),
    ({"time_offset": 20}, "trial 0 has 20 samples; time_offset=20 needs at least 21"),
    ({"dynamics": "quadratic"}, "dynamics: got 'quadratic'; wanted one of identity, linear"),
    ({"dynamics": "truth", "n_components": 2}, "n_components: got 2; the true system has 3"),
    ({"encoder": "mlp"}, "encoder: got str; wanted an nn.Module"),
    ({"protocol": "fast"}, "protocol: got 'fast'; wanted one of default, paper-lds"),
    ({"protocol": []}, "protocol: got []; wanted one of default"),
    ({"device": "tpu"}, "device: 'tpu' cannot be used here"),
    ({"device": None}, "device: None cannot be used here"),
    ({"device": "meta"}, "device: 'meta' cannot be used here"),
    ({"random_state": -1}, "random_state: Seed must be between 0 and 2**32 - 1"),
    ({"random_state": "x"}, "random_state: 'x' cannot be used to seed"),
    ({"settings": "horizon=2"}, "settings: got 'horizon=2'; wanted a dict of settings"),
    ({"settings": {"nothing": 1}}, "settings: no setting is called 'nothing'; wanted one of batch"),
    ({"settings": {"horizon": 0}}, "settings: horizon: got 0; wanted a whole number of at least 1"),
    ({"settings": {"max_iter": 2}}, "max_iter: given twice, as a parameter and in settings"),
    ({"bias": True, "dynamics": "mlp"}, "bias: got True, which has no effect here; it needs dyn"),
]
TRUTHLESS = 'dynamics: "truth" needs data that carry their system'
MODELS: dict[str, Case] = {
    **{str(k): (lambda w, k=k: dcl(**k).fit(w.lds), text) for k, text in PARAMETERS},
    "fit NaN": (lambda w: dcl(2).fit(HOLE), "X: holds NaN or infinity"),
    "fit truth": (lambda w: dcl(2, "truth").fit(X), TRUTHLESS),
    "features": (lambda w: w.model.transform(X[:, :4]), "X has 4 features, but DCL is expecting 5"),
    "modes": (lambda w: w.model.modes(X), "dynamics: Linear has no modes; wanted a model"),
    "u unasked": (lambda w: w.model.predict(X, u=U), "u: given, but this model was fitted without"),
    "no u": (lambda w: w.linear.predict(X), "u: missing; this model was fitted with a control"),
    "no u, modes": (lambda w: w.driven.modes(X), "u: missing; this model was fitted with a"),
    "no u, more": (lambda w: w.linear.partial_fit(X), "u: missing; this model was fitted with a"),
    "wide u": (lambda w: w.linear.score(X, u=X), "u: has 5 columns; this model was fitted with"),
    "score short": (lambda w: w.model.score(X[:1]), "X: trial 0 has 1 sample; time_offset=1 needs"),
    "forecast 0": (lambda w: w.model.forecast(X, 0), "steps: got 0; wanted a whole number"),
    "forecast 2.5": (lambda w: w.model.forecast(X, 2.5), "steps: got 2.5; wanted a whole number"),
    "forecast, no u": (lambda w: w.linear.forecast(X, 3), "u: missing; this model forecasts with"),
    "forecast, past": (lambda w: w.driven.forecast(X, 3, u=U[:3]), "X: the mode to go on"),
    "forecast, short": (lambda w: w.linear.forecast(X, 3, u=U[:2]), "u: got shape (2, 2); wanted"),
    "forecast, turned": (lambda w: w.linear.forecast(X, 6, u=U[:6].T), "u: got shape (2, 6)"),
    "forecast, unequal": (
        lambda w: w.linear.forecast([X, X], 3, u=[U[:2], U[:4]]),
        "u[0]: got shape (2, 2); wanted (3, 2), once or for each of the 2 trials",
    ),
    "forecast, trials": (
        lambda w: w.linear.forecast([X, X, X, X], 3, u=[U[:6], U[:6]]),
        "u: got 2 trials; wanted (3, 2), once or for each of the 4 trials",
    ),
    "forecast, still": (lambda w: w.still.forecast(X, 3, u="nowhere.npz"), "nowhere.npz: no such"),
    "forecast, still, short": (lambda w: w.still.forecast(X, 3, u=U[:2]), "u: got shape (2, 2)"),
    "forecast, still, u": (
        lambda w: dcl(2, "identity").fit(X).forecast(X, 3, u=U[:3]),
        "u: given, but this model was fitted without",
    ),
    "forecast, u": (lambda w: w.model.forecast(X, 3, u=U[:3]), "u: given, but this model was"),
    "evaluate": (
        lambda w: evaluate(w.model, of(X), post_hoc="linear"),
        "post_hoc: given, but data carry no true latents to compare with",
    ),
    "evaluate how": (
        lambda w: evaluate(w.model, w.lds, post_hoc="cubic"),
        "post_hoc: got 'cubic'; wanted one of identity, linear, switching",
    ),
    "r2": (lambda w: metrics.r2(X, X[1:]), "latents: got shapes (39, 5) and (40, 5); wanted two"),
    "r2 NaN": (lambda w: metrics.r2(X, HOLE), "latents: hold NaN or infinity"),
    "modes of runs": (lambda w: metrics.mode_accuracy([0, 1], [0]), "got shapes (2,) and (1,)"),
}  # fmt: skip
SYSTEMS: list[tuple[str, dict[str, Any], str]] = [
    ("lds", {"d": 0}, "d: got 0; wanted a whole number of at least 1"),
    ("identity", {"d": -1}, "d: got -1; wanted a whole number"),
    ("slds", {"d": 2.5}, "d: got 2.5; wanted a whole number"),
    ("lds", {"noise": -0.1}, "noise: got -0.1; wanted standard deviations of at least 0"),
    ("lds", {"noise": float("nan")}, "noise: got nan; wanted finite numbers"),
    ("lds", {"noise": "loud"}, "noise: got 'loud'; wanted numbers"),
    ("lds", {"noise": [0.1, 0.1]}, "noise: got 2 standard deviations for 3 latents"),
    ("lds", {"noise": np.eye(2)}, "noise: got shape (2, 2); wanted a number, (3,) or (3, 3)"),
    ("lds", {"angle": float("inf")}, "angle: got inf; wanted finite numbers"),
    ("lds", {"steps": 1}, "steps: got 1; wanted a whole number of at least 2"),
    ("lds", {"trials": 0}, "trials: got 0; wanted a whole number of at least 1"),
    ("lds", {"trials": 2.5}, "trials: got 2.5; wanted a whole number"),
    ("lds", {"observed": 2}, "observed: got 2 dimensions for 3 latents; an injective mixing needs"),
    ("lds", {"mixing": "salt"}, "mixing: got 'salt'; wanted one of mlp, linear, none"),
    ("lds", {"layers": 0}, "layers: got 0; wanted a whole number of at least 1"),
    ("lds", {"observation_noise": -1}, "observation_noise: got -1; wanted at least 0"),
    ("slds", {"modes": 0}, "modes: got 0; wanted a whole number of at least 1"),
    ("slds", {"switch_probability": 0.5}, "switch_probability: got 0.5 for each of 4 other modes"),
    ("slds", {"switch_probability": -0.1}, "their sum must lie in [0, 1]"),
    ("lorenz", {"dt": 0}, "dt: got 0; wanted a positive number"),
    ("lorenz", {"dt": 5.0}, "lorenz: the system ran off to infinity; wanted"),
    ("lorenz", {"start": (1, 2)}, "start: got shape (2,); wanted three numbers"),
    ("duffing", {}, "system: got 'duffing'; wanted one of identity, lds"),
]
SMALL = {"trials": 2, "steps": 50}
DRAWS: dict[str, Case] = {
    **{
        f"{name} {k}": (lambda w, n=name, k=k: simulate.preset(n, rng=rng(), **SMALL | k), text)
        for name, k, text in SYSTEMS
    },
    "again": (lambda w: simulate.again(of(X), rng=rng()), "series: carries no system to draw from"),
    "again 1": (lambda w: simulate.again(w.lds, rng=rng(), steps=1), "steps: got 1; wanted"),
    "again 0": (lambda w: simulate.again(w.lds, rng=rng(), trials=0), "trials: got 0; wanted"),
}
API = {
    f"{part}: {name}": case
    for part, cases in {"folder": FOLDERS, "model": MODELS, "draw": DRAWS}.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", API)
def test_api_refuses_in_one_sentence(name: str, w: SimpleNamespace) -> None:
    call, fragment = API[name]
    with pytest.raises(InputError) as caught:
        call(w)
    assert fragment in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "use",
    [
        lambda m: m.transform(X),
        lambda m: m.predict(X),
        lambda m: m.modes(X),
        lambda m: m.forecast(X, 3),
        lambda m: m.score(X),
        lambda m: m.resume(X),
        lambda m: m.save("never"),
    ],
    ids=["transform", "predict", "modes", "forecast", "score", "resume", "save"],
)
def test_a_model_that_is_not_fitted_says_so(use: Callable[[DCL], Any]) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        use(DCL())


def test_a_refused_fit_leaves_a_fitted_model_as_it_was() -> None:
    model = dcl(2).fit(X)
    before = model.transform(X)
    with pytest.raises(InputError):
        model.fit(HOLE)
    np.testing.assert_array_equal(model.transform(X), before)


@pytest.mark.parametrize(
    "changed",
    [
        {"density_correction": "euclidean", "bandwidth": 1e-30},
        {"dynamics": "switching", "learning_rate": 1e30},
        {"dynamics": "mlp", "learning_rate": 1e30},
    ],
    ids=str,
)
def test_a_fit_that_runs_off_says_so(changed: dict[str, Any], w: SimpleNamespace) -> None:
    with pytest.raises(TrainingError, match="the loss is nan at step"):
        dcl(max_iter=6, batch_size=16, **changed).fit(w.lds)


# -- through the command line ------------------------------------------------------------------

OUT = "--out new.npz"
CLI: dict[str, str] = {
    "": "the following arguments are required: COMMAND",
    "train x.npy": "invalid choice: 'train'",
    "fit --out new": "the following arguments are required: DATA",
    "fit x.npy": "the following arguments are required: --out",
    "fit nowhere.npz --out new": "fit: error: nowhere.npz: no such file",
    "fit notes.txt --out new": "notes.txt: cannot read .txt; wanted one of .npy, .npz, .csv",
    "fit objects.npz --out new": "objects.npz: holds no array of numbers, but Python objects",
    "fit two.npz --out new": "two.npz: holds several arrays (a, b); choose one with --key",
    "fit two.npz --key c --out new": "two.npz: has no array 'c'; it has a, b",
    "fit hole.npy --out new": "hole.npy: observations: holds NaN or infinity at 1 of 40 steps, "
    "in feature 2 (first at step 3, feature 2: nan); wanted finite numbers, or --missing split",
    "fit words.csv --out new": "words.csv: column 'b' has 'two' in row 1; wanted a number",
    "fit bounds.npz --out new": "bounds.npz: bounds must rise from 0 to 40",
    "fit x.npy --trial-length 0 --out new": "--trial-length: got 0; wanted a whole number",
    "fit x.npy --time-offset 40 --out new": "time_offset=40 needs at least 41",
    "fit x.npy --components 0 --out new": "--components: got 0; wanted",
    "fit x.npy --components 1.5 --out new": "--components: got '1.5'; wanted a whole",
    "fit x.npy --dynamics cubic --out new": "--dynamics: invalid choice: 'cubic'",
    "fit x.npy --dynamics truth --out new": TRUTHLESS,
    "fit x.npy --protocol fast --out new": "--protocol: invalid choice: 'fast'",
    "fit x.npy --device tpu --out new": "device: 'tpu' cannot be used here",
    "fit x.npy --batch-size 0 --out new": "--batch-size: got 0; wanted",
    "fit x.npy --learning-rate -1 --out new": "--learning-rate: got -1.0; wanted a positive number",
    "fit x.npy --n-negatives many --out new": "--n-negatives: got 'many'",
    "fit x.npy --seed -1 --out new": "--seed: got -1; wanted a number from 0 to",
    "fit x.npy --out run": "--out: run is there already; --resume goes on with it",
    "fit x.npy --out run --force --components 0": "--components: got 0; wanted",
    "fit x.npy --out run --force --device tpu": "device: 'tpu' cannot be used here",
    "fit x.npy --out notes.txt": "--out: notes.txt is a file; wanted a folder",
    "fit x.npy --out notes.txt/new": "Not a directory: 'notes.txt/new'",
    "fit x.npy --out new --resume": "new: has no checkpoint to resume from",
    "fit x.npy --out run --resume": "run: its 2 steps are done; a larger --max-iter goes on",
    "evaluate run x.npy --post-hoc linear": "--post-hoc: given, but x.npy carries no true latents",
    "evaluate run x.npy --nulls noise": "--nulls: got 'noise'; wanted some of shuffle, phase",
    "evaluate run x.npy --nulls shift": '--nulls: "shift" is of the control input',
    "evaluate run x.npy --seeds 0": "--seeds: got 0; wanted a whole number of at least 1",
    "evaluate run x.npy --mean-embedding z.csv": "--mean-embedding: is of several runs",
    "evaluate run lds.npz --post-hoc cubic": "--post-hoc: invalid choice: 'cubic'",
    "evaluate nowhere lds.npz": "nowhere: has no model.safetensors",
    "evaluate torn lds.npz": "model.safetensors: is damaged, or was not written by dynacl",
    "evaluate garbled lds.npz": "config.json: is not as it was written",
    "evaluate future lds.npz": NEWER,
    "embed alien x.npy --out new.npz": "parameters: none is called 'n_moods'",
    f"embed run wide.npy {OUT}": "X has 10 features, but DCL is expecting 5",
    f"embed driven x.npy {OUT}": "embed: error: --control-key: missing; this model was",
    "embed run x.npy --out z.txt": "--out: cannot write .txt; wanted .npy or .npz or .csv or "
    ".tsv or .parquet",
    "embed run x.npy --out z": "--out: cannot write a file without suffix; wanted .npy",
    "embed run x.npy --out x.npy": "--out: x.npy is there already; --force overwrites it",
    "embed run x.npy --out notes.txt/z.npz": "notes.txt",
    "forecast run x.npy --steps 0": "steps: got 0; wanted a whole number of at least 1",
    "forecast run x.npy --steps 0 --out x.npy --force": "steps: got 0; wanted",
    "forecast run x.npy": "the following arguments are required: --steps",
    "forecast run x.npy --steps 3 --out x.npy": "--out: x.npy is there already",
    "forecast driven two.npz --key a --control-key b --steps 3": "--control: missing; this model",
    f"simulate duffing {OUT}": "invalid choice: 'duffing'",
    f"simulate {OUT}": "simulate: wanted either a system or --again FILE",
    f"simulate lds --again lds.npz {OUT}": "simulate: wanted either a system or --again FILE",
    f"simulate --again two.npz {OUT}": "two.npz: holds several arrays",
    f"simulate --again x.npy {OUT}": "series: carries no system to draw from",
    f"simulate --again lds.npz --noise 1 {OUT}": "--noise: comes from the file with --again",
    f"simulate --again lds.npz --steps 1 {OUT}": "steps: got 1; wanted",
    f"simulate slds --dt 0.1 {OUT}": "--dt: is not a setting of slds",
    f"simulate lds --modes 3 {OUT}": "--modes: is not a setting of lds",
    f"simulate lds --noise -1 {OUT}": "noise: got -1.0; wanted standard deviations of at least 0",
    f"simulate lds --noise 0.1,0.2 {OUT}": "noise: got 2 standard deviations for 3 latents",
    f"simulate sphere --noise 0.1,0.2,0.3 {OUT}": "wanted one positive number on the sphere",
    f"simulate lds --noise loud {OUT}": "--noise: got 'loud'; wanted a number, or one for each",
    f"simulate lds --noise nan {OUT}": "noise: got nan; wanted finite numbers",
    f"simulate lds --steps 1 {OUT}": "steps: got 1; wanted a whole number of at least 2",
    f"simulate lds --observed 2 {OUT}": "observed: got 2 dimensions for 3 latents",
    f"simulate lds --seed x {OUT}": "--random-state: got x",
    "simulate lds --out lds.npz": "--out: lds.npz is there already; --force overwrites it",
    "simulate lds --steps 1 --out lds.npz --force": "steps: got 1; wanted",
    "simulate lds --out lds.csv": "--out: cannot write .csv; wanted .npz",
    "demo --out run": "--out: run is there already; --force overwrites it",
    "demo --out notes.txt": "--out: notes.txt is a file; wanted a folder",
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("command", CLI)
def test_cli_says_what_is_wrong_and_keeps_every_file(
    command: str,
    w: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(w.path)
    before = contents(w.path)
    try:
        code = main(command.split())
    except SystemExit as leaving:  # argparse
        code = leaving.code
    said = capsys.readouterr()
    assert CLI[command] in said.err
    assert code == 2
    assert said.out == ""
    assert "Traceback" not in said.err
    assert contents(w.path) == before


def test_cli_in_a_process_of_its_own_ends_with_two_and_one_sentence(w: SimpleNamespace) -> None:
    commands = (
        "fit nowhere.npz --out new",
        "evaluate run x.npy --seeds 0",
        "simulate slds --dt 0.1 --out new.npz",
    )
    before = contents(w.path)
    source = os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder)
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "dynacl", *command.split()],
            env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
            cwd=w.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    for command, process in zip(commands, started, strict=True):
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (2, "")
        assert err.count("\n") == 1
        assert CLI[command] in err
    assert contents(w.path) == before


def test_a_truth_that_cannot_be_judged_does_not_cost_the_trained_model(
    tmp_path: Path, w: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    flat = {"observations": w.lds.observations, "latents": np.ones((len(w.lds), 3))}
    of(flat).write(tmp_path / "flat.npz")
    code = main(f"fit {tmp_path}/flat.npz --out {tmp_path}/run --max-iter 2 --quiet".split())
    assert code == 2
    assert "a dimension is constant" in capsys.readouterr().err
    assert DCL.load(tmp_path / "run").transform(X).shape == (40, 3)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["n_iter"] == 2
