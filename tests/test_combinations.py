"""What combines with what: every two parts are fitted together, or refused with a reason.

What must be refused, and what a part implies, is written down here. The table "What combines with
what" of docs/method.md is compared with that.
"""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, InputError, TimeSeries, evaluate, simulate
from dynacl.dynamics import BY_NAME, Recurrent
from dynacl.encoders import MLP, Asymmetric
from dynacl.whitening import Whitening
from quick_models import Laplace

METHOD = Path(__file__).parents[1] / "docs" / "method.md"


def table():
    """{part: (what it is refused with, what else there is to know)}; a row may have many parts."""
    text = METHOD.read_text().split("## What combines with what")[1].split("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    found = {}
    for parts, refused, note in rows[2:]:
        for part in parts.split(", "):
            found[plain(part)] = [plain(r) for r in refused.split("; ") if r.strip()], note
    return found


def plain(cell):
    return cell.replace("`", "").strip().removeprefix("dynamics=")


class Turn(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(3))

    def forward(self, x, x_next=None, u=None):
        return x @ self.matrix.T


NAMED = tuple(BY_NAME)
FIT = {f'"{name}"': {"dynamics": name} for name in NAMED} | {
    "custom dynamics": {"dynamics": Turn()},
    'similarity="dot"': {"similarity": "dot"},
    "custom similarity": {"similarity": Laplace()},
    "asymmetric=True": {"asymmetric": True},
    'density_correction="euclidean"': {"density_correction": "euclidean"},
    'density_correction="vmf"': {"density_correction": "vmf"},
    "time_lags": {"time_lags": (0, 1, 3)},
    "time_offset Δ > 1": {"time_offset": 2},
    "control": {"control": True},
    "custom encoder": {"encoder": MLP(6, 3)},
    "paper protocols": {"protocol": "paper-slds", "n_negatives": 20},
}
SETTINGS = {
    "bias=True",
    "stable=True",
    "degree",
    "lipschitz",
    "bandwidth",
    "n_support",
}  # of one part, so no part
DATA = {"observation noise", "non-isotropic noise", "new trials"}
USE = {
    'forecast(modes="hold")': lambda m, X: m.forecast(X, 2, modes="hold"),
    '"markov"': lambda m, X: m.forecast(X, 2, modes="markov"),
    'forecast(modes="gated")': lambda m, X: m.forecast(X, 2, modes="gated"),
    "modes": lambda m, X: m.modes(X),
}
TABLE = table()
REFUSED = [
    # A density estimate needs the kernel of the space where latents live.
    {'similarity="dot"', 'density_correction="euclidean"'},
    {"custom similarity", 'density_correction="vmf"'},
    # A context is made of embeddings of references, which live in another space than positives.
    {"asymmetric=True", '"recurrent"'},
    # The true system is the map over one step.
    {'"truth"', "time_offset Δ > 1"},
]
# Parts with which several steps cannot be contrasted, or of which nothing is known.
ONE_STEP = {
    '"identity"', '"tiles"', '"mlp"', '"gated"', '"recurrent"', "custom dynamics",
    'similarity="dot"', 'density_correction="vmf"', "asymmetric=True", "paper protocols",
}  # fmt: skip
NOT_WHITENED = {"custom encoder", "paper protocols"}
HIDDEN = {"switching", "tiles", "oracle of a switching system"}
USED_BY = {
    'forecast(modes="hold")': HIDDEN,
    '"markov"': HIDDEN,
    'forecast(modes="gated")': {"gated"},
    "modes": HIDDEN | {"gated"},
}
LEFT_OUT = {
    "asymmetric=True": {"no dynR²", "no LDS error"},
    "time_offset Δ > 1": {"no LDS error", "no mode accuracy"},
}


def merged(*parts):
    """The parameters of these parts together; None where they are two choices of one thing."""
    found = {}
    for part in parts:
        if found.keys() & FIT[part].keys():
            return None
        found |= FIT[part]
    if found.get("density_correction") == "vmf":  # it needs the sphere, so it brings it along
        found.setdefault("similarity", "dot")
    if "time_lags" in found and "encoder" in found:
        found["encoder"] = MLP(3 * 6, 3)
    return found


PAIRS = [pair for pair in combinations(FIT, 2) if merged(*pair) is not None]
DRIVEN = [(*pair, "control") for pair in PAIRS if "control" not in pair]


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch, short_descents):
    monkeypatch.setattr("dynacl.refitting.PAIRS", 200)


@pytest.fixture(scope="module")
def data():
    """A free, a driven and a switching system, three trials each."""
    size = {"d": 3, "trials": 3, "steps": 30, "observed": 6, "layers": 1}
    makers = {"free": simulate.lds, "driven": simulate.controlled, "switching": simulate.slds}
    return {name: make(rng=np.random.default_rng(0), **size) for name, make in makers.items()}


def fitted(X, n_components=3, **parameters):
    small = {"max_iter": 5, "batch_size": 16, "n_modes": 2, "random_state": 0}
    return DCL(n_components, **(small | parameters)).fit(X)


def cut(series, steps):
    """The first steps of each trial."""
    rows = [x[:steps] for x in series.split(series.observations)]
    return TimeSeries.of(rows)


def name(part):
    """How an error must name a part: "vmf" of density_correction="vmf", asymmetric of =True."""
    return re.search(r'".+"|\w+', part.removeprefix("custom ")).group()


def finite(values):
    return bool(np.isfinite(np.concatenate(values)).all())


def test_the_table_and_this_file_know_the_same_parts():
    assert set(TABLE) == set(FIT) | set(USE) | SETTINGS | DATA
    mentioned = {r for refused, _ in TABLE.values() for r in refused}
    assert mentioned - set(FIT) == set(CONDITIONS)
    told = [{a, b} for a, (refused, _) in TABLE.items() for b in refused if b in FIT]
    assert {frozenset(pair) for pair in told} == {frozenset(pair) for pair in REFUSED}
    for pair in told:  # each says it of the other, so that one row is enough to read
        assert told.count(pair) == 2 or pair == {"custom similarity", 'density_correction="vmf"'}


@pytest.mark.parametrize("part", FIT)
def test_the_table_says_what_a_part_implies(part):
    note = TABLE[part][1]
    assert ("one-step contrast" in note) == (part in ONE_STEP)
    assert ("no whitening" in note) == (part in NOT_WHITENED)
    for words in ("no dynR²", "no LDS error", "no mode accuracy"):
        assert (words in note) == (words in LEFT_OUT.get(part, set()))


@pytest.mark.parametrize("parts", [*PAIRS, *DRIVEN], ids=" + ".join)
def test_parts_combine_or_are_refused(data, parts):
    parameters = merged(*parts)
    driven = parameters.pop("control", False)
    X = data["driven" if driven else "free"]
    refused = next((pair for pair in REFUSED if pair <= set(parts)), None)
    if refused:
        with pytest.raises(InputError) as error:
            fitted(X, **parameters)
        assert all(name(part) in str(error.value) for part in refused)
        return
    model = fitted(X, **parameters)
    lost = max(parameters.get("time_lags", (0,)))
    latents = model.transform(X)
    assert [x.shape for x in latents] == [(30 - lost, 3)] * 3
    assert finite(latents)
    assert finite(model.predict(X))
    assert np.isfinite(model.score(X))
    assert (model.settings_.horizon == 1) == bool(ONE_STEP & set(parts))
    whitened = any(
        isinstance(part, Whitening) for part in model.run_.encoder.of_observations.modules()
    )
    assert whitened == (not NOT_WHITENED & set(parts))
    if driven:
        leaves_out = bool({'"identity"', "custom dynamics"} & set(parts))
        assert (model.run_.dynamics.input_map is None) == leaves_out
    u = np.ones((4, X.n_controls), np.float32) if driven else None
    if "asymmetric=True" in parts:
        with pytest.raises(InputError, match=r"asymmetric.*forecast"):
            model.forecast(X, 4, u=u)
    else:
        ahead = model.forecast(X, 4, u=u)
        assert [x.shape for x in ahead] == [(4, 3)] * 3
        assert finite(ahead)


def short(steps, **parameters):
    """Refused with trials of this many steps; one more is enough."""

    def attempt(data):
        fitted(cut(data["free"], steps + 1), **parameters)
        fitted(cut(data["free"], steps), **parameters)

    return attempt


def each(takers, **parameters):
    """Taken by these dynamics and refused by all others; the last error is the one to judge."""

    def attempt(data):
        for kind in takers:
            fitted(data["free"], dynamics=kind, **parameters)
        for kind in [name for name in NAMED if name not in takers]:
            with pytest.raises(InputError, match="which has no effect here"):
                fitted(data["free"], dynamics=kind, **parameters)
        fitted(data["free"], dynamics=Turn(), **parameters)  # a module has its own

    return attempt


def uncorrected(data):
    with pytest.raises(InputError, match=r"n_support: got 2, .* density_correction"):
        fitted(data["free"], n_support=2)
    fitted(data["free"], bandwidth=2)


# What a row is refused with that is no part itself: how to get there, and what the error names.
CONDITIONS = {
    "n_components=1": (
        lambda data: fitted(data["free"], 1, similarity="dot"),
        ("n_components", 'similarity="dot"'),
    ),
    "an encoder pair": (
        lambda data: fitted(data["free"], encoder=Asymmetric(MLP(6, 3), MLP(6, 3))),
        ("encoder", "asymmetric=True"),
    ),
    "forecast": (
        lambda data: fitted(data["free"], asymmetric=True).forecast(data["free"], 2),
        ("asymmetric", "forecast"),
    ),
    'any similarity but "dot"': (
        lambda data: fitted(data["free"], density_correction="vmf"),
        ('"vmf"', 'similarity="euclidean"'),
    ),
    "trials of max(time_lags) + Δ steps or fewer": (
        short(7, time_lags=(0, 5), time_offset=2),
        ("trial 0 has 7", "time_offset=2", "time_lags"),
    ),
    "trials of Δ steps or fewer": (short(4, time_offset=4), ("trial 0 has 4", "time_offset=4")),
    "trials of 9 Δ + max(time_lags) steps or fewer": (
        short(21, dynamics="recurrent", time_lags=(0, 3), time_offset=2),
        ("trial 0 has 21", "time_lags", "recurrent"),
    ),
    "a module with a context": (
        lambda data: fitted(data["free"], dynamics=Recurrent(3), asymmetric=True),
        ("asymmetric", "context"),
    ),
    "a forecast without u, but of the identity": (
        lambda data: fitted(data["driven"]).forecast(data["driven"], 2),
        ("u: missing", "forecast", "control"),
    ),
    "a forecast with hidden modes if X lacks its past u": (
        lambda data: fitted(data["driven"], dynamics="switching").forecast(
            data["driven"].observations, 2, u=np.ones((2, 1))
        ),
        ("X: the mode", "control so far"),
    ),
    "a driven system without u": (
        lambda data: fitted(replace(data["driven"], control=None), dynamics="truth"),
        ('"truth"', "driven system", "u"),
    ),
    "dynamics other than linear, switching and tiles": (
        each({"linear", "switching", "tiles"}, bias=True),
        ("bias: got True", "linear, switching, tiles"),
    ),
    "the sphere or two encoders": (
        lambda data: fitted(data["free"], stable=True, similarity="dot"),
        ("stable: got True", "sphere", "one encoder"),
    ),
    "dynamics that are no polynomial": (
        each({"polynomial", "flow"}, degree=3),
        ("degree: got 3", "polynomial"),
    ),
    "dynamics other than mlp": (
        each({"mlp"}, lipschitz=0.5),
        ("lipschitz: got 0.5", "mlp"),
    ),
    "no density correction": (
        uncorrected,
        ("bandwidth: got 2", "density_correction"),
    ),
    "simulate.sphere": (
        lambda data: simulate.sphere(rng=np.random.default_rng(0), noise=[0.1, 0.2, 0.1]),
        ("noise: got", "sphere"),
    ),
    "simulate.again of data without a system": (
        lambda data: simulate.again(
            TimeSeries.of(data["free"].observations), rng=np.random.default_rng(0)
        ),
        ("series: carries no system",),
    ),
    "data without a system": (
        lambda data: fitted(data["free"].observations, dynamics="truth"),
        ('"truth"', "system"),
    ),
    "n_components not that of the system": (
        lambda data: fitted(data["free"], 2, dynamics="truth"),
        ("n_components", "true system", '"truth"'),
    ),
    # Each named dynamics is tried below.
    "dynamics without hidden modes": (None, ()),
    "dynamics that do not read modes off the state": (None, ()),
    "dynamics without modes": (None, ()),
}


@pytest.mark.parametrize("condition", [c for c, (attempt, _) in CONDITIONS.items() if attempt])
def test_what_no_other_part_refuses_ends_in_an_error_that_names_it(data, condition):
    attempt, named = CONDITIONS[condition]
    with pytest.raises(InputError) as error:
        attempt(data)
    for word in named:
        assert word in str(error.value)


@pytest.mark.parametrize("part", FIT)
def test_every_part_takes_noisy_data_and_new_trials(part):
    parameters = merged(part)
    simulator = simulate.controlled if parameters.pop("control", False) else simulate.lds
    data = simulator(
        rng=np.random.default_rng(0), d=3, trials=3, steps=30, observed=6, layers=1,
        noise=[0.01, 0.02, 0.05], observation_noise=0.01,
    )  # fmt: skip
    fresh = simulate.again(data, rng=np.random.default_rng(1), trials=2)
    found = evaluate(fitted(data, **parameters), fresh, train=data)
    assert np.isfinite([found["r2"], found["r2_train_map"]]).all()


@pytest.mark.parametrize("dynamics", [*NAMED, "custom dynamics", "oracle of a switching system"])
def test_modes_and_forecasts_by_modes_are_for_dynamics_that_have_them(data, dynamics):
    X = data["switching" if dynamics.startswith("oracle") else "free"]
    kind = {"custom dynamics": Turn(), "oracle of a switching system": "truth"}.get(dynamics)
    model = fitted(X, dynamics=kind or dynamics)
    for part, use in USE.items():
        if dynamics in USED_BY[part]:
            assert np.isfinite(np.concatenate(use(model, X))).all()
        else:
            with pytest.raises(InputError, match=type(model.dynamics_).__name__):
                use(model, X)


@pytest.mark.parametrize("part", LEFT_OUT)
def test_evaluation_leaves_out_what_has_no_meaning(data, part):
    said = {
        "no dynR²": "dyn_r2_1",
        "no LDS error": "lds_error",
        "no mode accuracy": "mode_accuracy",
    }
    plainly = evaluate(fitted(data["free"]), data["free"])
    plainly |= modes_of(fitted(data["switching"], dynamics="switching"), data)
    found = evaluate(fitted(data["free"], **FIT[part]), data["free"])
    found |= modes_of(fitted(data["switching"], dynamics="switching", **FIT[part]), data)
    for words, name in said.items():
        assert plainly[name] is not None
        assert (found[name] is None) == (words in LEFT_OUT[part])


def modes_of(model, data):
    return {"mode_accuracy": evaluate(model, data["switching"])["mode_accuracy"]}
