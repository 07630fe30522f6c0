"""The report: one file that needs nothing else, and that nothing in data can break."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from command_line import dynacl, refusal
from dynacl import TimeSeries, report
from dynacl.plots.embedding import principal_axes
from dynacl.portrait import Portrait
from dynacl.prediction import HeldOut
from dynacl.report import words
from dynacl.report.markup import Html, as_json, tag
from dynacl.report.points import COMPONENTS, FULL, MOST, chosen, points
from dynacl.spectrum import Spectrum
from quick_models import tiny

HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "'; window.hacked = 1; //",
    "$title ${body} {0} %s \u2028 & &lt; <!-- $\\frac{",
)
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """What a browser would see: elements, their attributes, the text of each kind."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], [], {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.elements.append((name, dict(attributes)))

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        where = "code" if "code" in self.open else self.open[-1] if self.open else ""
        self.text[where] = self.text.get(where, "") + text

    def attributes(self, name):
        return [value for _, found in self.elements for key, value in found.items() if key == name]


@pytest.fixture(scope="module")
def hostile(two_modes):
    """The same data with names that would like to be code."""
    T = len(two_modes)
    names = tuple(f"{HOSTILE[i % 4]} {i}" for i in range(two_modes.n_features))
    labels = {
        HOSTILE[0]: np.array(HOSTILE)[np.arange(T) % 4],
        HOSTILE[1]: np.linspace(0, 1, T),
    }
    return replace(two_modes, names=names, labels=labels)


@pytest.fixture(scope="module")
def written(switching_model, hostile, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.write(path, switching_model, hostile, title=HOSTILE[0], source=HOSTILE[1],
                 commands=HOSTILE, doubts=HOSTILE)  # fmt: skip
    return path.read_text()


@pytest.fixture(scope="module")
def page(written):
    return Page(written)


# -- the file --------------------------------------------------------------------------------------


def test_page_is_whole_and_needs_nothing_from_outside(written, page):
    for name in ("src", "href", "xlink:href"):
        for link in page.attributes(name):
            assert link.startswith(("#", "data:")), link
    assert "@import" not in written
    assert not re.search(r"url\((?!#)", written)
    assert len(written.encode()) < 15e6


def test_identifiers_are_unique_and_every_link_leads_somewhere(page):
    names = page.attributes("id")
    assert len(names) == len(set(names))
    links = [*page.attributes("href"), *page.attributes("xlink:href")]
    assert {link[1:] for link in links if link.startswith("#")} <= set(names)
    used = re.findall(r"url\(#([^)]*)\)", "".join(filter(None, page.attributes("clip-path"))))
    assert set(used) <= set(names)


def test_nothing_that_comes_with_data_becomes_code(written, page):
    kinds = [name for name, _ in page.elements]
    assert kinds.count("script") == 2  # our data, our code
    assert kinds.count("img") == 0
    assert not [key for _, found in page.elements for key in found if key.startswith("on")]
    assert page.text["title"].startswith(HOSTILE[0])
    assert all(text in page.text["code"] for text in HOSTILE)
    assert all(text in page.text["caption"] for text in HOSTILE[:2])  # of what is decoded
    assert all(text[1:] in page.text["li"] for text in HOSTILE)  # a sentence has a capital
    (data,) = re.findall(r'id="points">(.*?)</script>', written, re.DOTALL)
    found = json.loads(data)
    assert {HOSTILE[0], HOSTILE[1]} <= {c["name"] for c in found["colours"]}
    assert sorted(HOSTILE) in [c.get("kinds") for c in found["colours"]]


def test_only_our_own_script_may_run(written):
    (script,) = re.findall(r"<script>(.*?)</script>", written, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', written).group(1)
    assert f"script-src &#x27;sha256-{digest}&#x27;" in policy
    assert "default-src &#x27;none&#x27;" in policy


@settings(deadline=None)
@given(st.text(), st.text())
def test_text_and_attributes_come_back_as_they_were(text, attribute):
    clean = [re.sub(r"[\r\x00]", "", part) for part in (text, attribute)]
    page = Page(tag("p", clean[0], title=clean[1]))
    assert page.text.get("p", "") == clean[0]
    assert page.elements == [("p", {"title": clean[1]})]


@given(
    st.recursive(st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_json_in_a_page_is_the_same_json_and_cannot_end_its_script(value):
    text = as_json(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


def test_html_is_not_escaped_twice():
    assert tag("p", tag("b", "<")) == "<p><b>&lt;</b></p>"
    assert isinstance(tag("p", Html("<i>")), Html)


# -- what it shows ---------------------------------------------------------------------------------


def unpacked(text, kind):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def test_points_are_the_latents_in_principal_components(switching_model, hostile):
    seen = Portrait.of(switching_model, hostile)
    found = points(seen)
    shown = np.stack([unpacked(c, "<i2") for c in found["components"]], 1) / FULL
    x = np.concatenate(switching_model.transform(hostile))
    wanted = PCA(3).fit_transform(x)
    wanted *= np.sign((wanted * shown).sum(0)) / abs(wanted).max()
    np.testing.assert_allclose(shown, wanted, atol=2e-4)
    colours = {c["name"]: c for c in found["colours"]}
    modes = np.split(unpacked(colours["mode"]["index"], "<i2"), 10)
    for trial, decoded in zip(modes, switching_model.modes(hostile), strict=True):
        np.testing.assert_array_equal(trial, [*decoded, -1])
    label = unpacked(colours[HOSTILE[0]]["index"], "<i2")
    kinds = np.array(colours[HOSTILE[0]]["kinds"])
    np.testing.assert_array_equal(kinds[label], hostile.labels[HOSTILE[0]])
    np.testing.assert_allclose(unpacked(colours[HOSTILE[1]]["values"], "<f4"),
                               hostile.labels[HOSTILE[1]], atol=1e-6)  # fmt: skip
    assert unpacked(found["step"], "<i4").tolist() == [*range(40)] * 10


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=300))
def test_a_page_has_so_many_points_at_most_and_some_of_each_trial_shown(lengths):
    rows, trials, stride = chosen(lengths)
    assert sum(map(len, rows)) <= MOST + len(trials)
    starts = np.cumsum([0, *lengths])
    for trial, mine in zip(trials, rows, strict=True):
        assert mine[0] == starts[trial]
        assert mine[-1] < starts[trial + 1]
        assert (np.diff(mine) == stride).all()
    assert trials[0] == 0
    assert len(trials) == min(len(trials), 60)


def test_the_largest_page_stays_below_fifteen_megabytes(switching_model):
    rng = np.random.default_rng(0)
    y = rng.standard_normal((10, 2000, 8)).astype(np.float32)
    labels = {f"label {i}": rng.standard_normal(20_000) for i in range(10)}
    series = TimeSeries.of(list(y), labels=labels)
    found = as_json(points(Portrait.of(switching_model, series)))
    assert len(found) < 4e6
    assert COMPONENTS <= 8


def test_axes_do_not_depend_on_the_signs_that_an_algorithm_gives():
    x = np.random.default_rng(0).standard_normal((50, 4)) * [4, 3, 2, 1]
    _, axes, share = principal_axes(x)
    assert (axes.sum(0) >= 0).all()
    np.testing.assert_allclose(share, PCA().fit(x).explained_variance_ratio_)


def judged(model, start):
    return HeldOut((1, 8), {"model": np.array([0.1, model]), "linear start": np.array([0.1, start]),
                            "persistence": np.array([0.5, 2.0])})  # fmt: skip


def of(model, two_modes, found):
    seen = Portrait.of(model, two_modes)
    seen.__dict__["judged"] = found
    return seen


def test_a_model_that_is_no_better_than_its_baselines_is_doubted(switching_model, two_modes):
    better = words.sentences(of(switching_model, two_modes, judged(0.2, 0.6)))
    assert "explains 90.0\u202f% of the variance one step ahead, and 80.0\u202f%" in better[0].text
    assert "more than the best baseline there (linear start), which explains 40.0" in better[1].text
    assert not better[1].doubt
    worse = words.sentences(of(switching_model, two_modes, judged(0.6, 0.2)))
    assert "not clearly better than the best baseline there (linear start)" in worse[1].text
    assert worse[1].doubt
    far_off = words.sentences(of(switching_model, two_modes, judged(2.5, 3.0)))
    assert "and nothing 8 steps ahead" in far_off[0].text
    assert "the mean predicts better, and no baseline beats it" in far_off[1].text


@pytest.mark.parametrize(("period", "lasts", "turns"), [(815, 4, False), (20, 40, True)])
def test_what_shrinks_before_it_turns_is_not_said_to_turn(
    switching_model, two_modes, period, lasts, turns
):
    c, s = np.cos(2 * np.pi / period), np.sin(2 * np.pi / period)
    spectrum = Spectrum.of(np.exp(-1 / lasts) * np.array([[[c, -s], [s, c]]]))
    model = SimpleNamespace(spectrum_=spectrum)
    said = " ".join(s.text for s in words._movement(SimpleNamespace(model=model)))
    assert ("The state turns, with a period of" in said) == turns
    assert f"shrinks to 1/e in {lasts} samples" in said


def test_what_latents_tell_of_labels_stands_in_the_result(switching_model, two_modes):
    """The mode, as a label: latents and observations are told apart by the same figures."""
    labels = {"phase": two_modes.truth.modes.astype(str)}
    seen = Portrait.of(switching_model, replace(two_modes, labels=labels))
    assert seen.decoded
    figures = seen.decoded["phase"].figures
    (said,) = [s for s in words.sentences(seen) if s.text.startswith("phase is decoded")]
    best = {source: max(told.values()) for source, told in figures.items()}
    assert f"latents with accuracy {best['latents']:.3f}" in said.text
    assert f"{best['observations']:.3f} from observations" in said.text
    assert said.doubt == (best["latents"] <= max(best["observations"],
                                                 best["principal components"]))  # fmt: skip


def test_one_channel_is_no_channels(tmp_path):
    y = np.sin(np.arange(300) / 9)[:, None]
    model = tiny(1, time_lags=(0, 1)).fit(y)
    report.write(tmp_path / "one.html", model, y)
    said = (tmp_path / "one.html").read_text()
    assert "of 1 latent dimension, on 300 samples of 1 channel in 1 trial" in said
    assert "behind 1 channel<" in said


def test_how_modes_go_with_a_label_stands_in_the_result(switching_model, two_modes):
    modes = np.concatenate([m[[0, *range(len(m))]] for m in switching_model.modes(two_modes)])
    labels = {"phase": np.array(["rest", "move"])[modes], "place": np.linspace(0, 1, len(modes))}
    seen = Portrait.of(switching_model, replace(two_modes, labels=labels))
    said = [s.text for s in words.sentences(seen) if s.text.startswith("Modes, matched")]
    (phase,) = said  # a quantity has no categories
    share = words.percent(seen.decoded["phase"].mode_accuracy)
    assert f"categories of phase, agree with it at {share} of the steps" in phase
    assert seen.decoded["phase"].mode_accuracy > 0.5


def test_figures_beside_the_truth_are_those_of_evaluate(page, switching_model, two_modes):
    seen = Portrait.of(switching_model, two_modes)
    assert f"{seen.against_truth['r2']:.4f}" in page.text["td"]
    assert f"{seen.against_truth['mode_accuracy']:.4f}" in page.text["td"]
    for n in (1, 10):
        control = f"{seen.against_truth[f'dyn_r2_{n}_control']:.4f}".replace("-", "\N{MINUS SIGN}")
        assert control in page.text["td"]


@pytest.mark.parametrize(
    ("n", "dynamics", "more"),
    [
        (1, "linear", {}),
        (2, "mlp", {}),
        (3, "identity", {"asymmetric": True}),
        (3, "switching", {"time_lags": (0, 2), "sampling_interval": 0.1}),
    ],
    ids=str,
)
def test_every_kind_of_model_has_a_report(two_modes, tmp_path, n, dynamics, more):
    model = tiny(n, dynamics, **more).fit(two_modes)
    report.write(tmp_path / "report.html", model, [two_modes.observations[:40]])
    headings = Page((tmp_path / "report.html").read_text()).text["h2"]
    assert headings.startswith("ResultEmbedding and timeline")


def test_a_report_needs_no_data(switching_model, tmp_path):
    report.write(tmp_path / "report.html", switching_model)
    headings = Page((tmp_path / "report.html").read_text()).text["h2"]
    assert "Embedding" not in headings
    assert "Dynamics" in headings


# -- the command -----------------------------------------------------------------------------------


def test_report_is_on_the_data_of_the_fit_unless_others_are_given(world, tmp_path):
    dynacl("fit", world / "slds.npz", "--components", 2, "--max-iter", 3, "--batch-size", 16,
           "--quiet", "--report", "--out", tmp_path / "run")  # fmt: skip
    first = Page((tmp_path / "run" / "report.html").read_text())
    assert dynacl("report", tmp_path / "run").strip() == str(tmp_path / "run" / "report.html")
    again = Page((tmp_path / "run" / "report.html").read_text())
    assert first.text["h1"] == again.text["h1"] == "slds.npz"
    assert f"dynacl fit {world / 'slds.npz'} --components 2" in again.text["code"]
    assert f"dynacl report {tmp_path / 'run'}" in again.text["code"]
    dynacl("report", tmp_path / "run", world / "new.npz", "--out", tmp_path / "new.html")
    assert Page((tmp_path / "new.html").read_text()).text["h1"] == "new.npz"
    said = refusal("report", tmp_path / "run", "--out", tmp_path / "new.html")
    assert "is there already" in said


def test_report_without_its_data_says_so(world, tmp_path, capsys):
    saved = dict(np.load(world / "lds.npz"))
    np.savez(tmp_path / "gone.npz", **saved)
    dynacl("fit", tmp_path / "gone.npz", "--components", 2, "--max-iter", 3, "--quiet", "--out",
           tmp_path / "run")  # fmt: skip
    (tmp_path / "gone.npz").unlink()
    dynacl("report", tmp_path / "run")
    assert "reported without data" in capsys.readouterr().err
    assert "without data" in Page((tmp_path / "run" / "report.html").read_text()).text["p"]


def test_report_refuses_a_file_that_is_no_page(world, tmp_path):
    said = refusal("report", world / "switching", "--out", tmp_path / "report.pdf")
    assert "cannot write .pdf; wanted .html" in said
