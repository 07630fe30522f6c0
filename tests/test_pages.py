"""The pages do what they say: Python runs, commands are those of the parser, lists are whole.

Blocks of a page run in order, on small data and with five training steps. A block stays out if the
line before it is an HTML comment, `<!-- not run: why -->`.
"""

import importlib.util
import re
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dynacl
from dynacl import recipe, simulate
from dynacl.cli import COMMANDS, parser
from dynacl.dynamics import AUTO, BY_NAME

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
# Pages whose blocks are parts of files; these tests put them together and run them.
ELSEWHERE = {"extending.md": "test_extending.py", "reproduction.md": "test_experiments_plan.py"}
BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?^```python\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^(?: {4}|)(?:\$ )?(dynacl (?:.*\\\n)*.*)$", re.M)


def blocks(page):
    return [code for left_out, code in BLOCK.findall(page.read_text()) if not left_out]


@pytest.fixture(scope="module")
def model(trials, small):
    return small().fit(trials)


@pytest.fixture
def names(monkeypatch, tmp_path, trials, model):
    """What pages take for granted, in a folder of its own; simulators and fits are small."""
    said_by_data = recipe.said_by_data

    def five_steps(*given):
        return dict(said_by_data(*given)) | {"max_iter": (5, "This is a test.")}

    def fewer(simulator, trials=6, steps=60, **options):
        return simulator(trials=min(trials, 20), steps=min(steps, 60), **options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recipe, "said_by_data", five_steps)
    monkeypatch.setattr(dynacl, "select", partial(dynacl.select, folds=1, max_iter=5))
    for name in ("controlled", "lds", "slds"):
        monkeypatch.setattr(simulate, name, partial(fewer, getattr(simulate, name)))
    rng = np.random.default_rng(0)
    parts = trials.split(trials.observations)
    frame = pd.DataFrame(parts[0], columns=[f"cell {i}" for i in range(8)])
    arm = {"time": np.arange(60) / 100, "trial": np.repeat([0, 1], 30), "force": rng.random(60),
           "left": rng.random(60), "right": rng.random(60),
           "action": ["reach", "rest"] * 30}  # fmt: skip
    pd.DataFrame(arm).to_csv("arm.csv", index=False)
    actions, places = ["reach", "rest"] * (len(trials) // 2), rng.random(len(trials))
    inputs = [rng.random((len(y), 1)) for y in parts]
    return {"data": trials, "trials": parts, "model": model, "frame": frame, "inputs": inputs,
            "action": actions, "actions": actions, "position": places,
            "places": places}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")  # five steps are a bad fit, and say so
@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p) and p.name not in ELSEWHERE], ids=lambda page: page.name
)
def test_blocks_of_a_page_run_in_order(page, names):
    for code in blocks(page):
        exec(compile(code, f"{page.name}: {code.splitlines()[0]}", "exec"), names)


def commands():
    for page in PAGES:
        for found in COMMAND.findall(page.read_text()):
            words = shlex.split(found.replace("\\\n", " "), comments=True)[1:]
            if "…" not in words and words[0] in COMMANDS and "--help" not in words:
                yield pytest.param(words, id=f"{page.name}: {' '.join(words)}")


@pytest.mark.parametrize("words", list(commands()))
def test_commands_of_a_page_are_those_of_the_parser(words):
    assert parser(words).parse_args(words).name == words[0]


def test_a_command_that_is_not_there_is_found_out():
    with pytest.raises(SystemExit):
        parser(["fit"]).parse_args(["fit", "x.npz", "--no-such-option", "--out", "runs/x"])


def test_targets_modules_and_scripts_of_the_pages_are_there():
    text = "\n".join(page.read_text() for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
    made = re.findall(r"(?:^ {4}|`)make ([a-z]+(?: [a-z]+)*)", text, re.M)
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    assert {"demo", "test"} <= {name for words in made for name in words.split()} <= {*targets}
    modules = {*re.findall(r"python -m ((?:benchmarks|fuzz)[\w.]*\w)", text)}
    scripts = {*re.findall(r"python ((?:examples|docs)/[\w/]+\.py)", text)}
    assert "benchmarks.zoo" in modules
    assert "examples/custom_parts.py" in scripts
    for path in [ROOT / name.replace(".", "/") for name in modules]:
        assert (path / "__main__.py").exists() or path.with_suffix(".py").exists()
    for name in scripts:
        assert (ROOT / name).exists()


def test_the_readme_is_one_screen_with_ten_lines_of_each():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 75
    (code,) = blocks(ROOT / "README.md")
    assert len(code.splitlines()) <= 10
    assert len(COMMAND.findall(text)) <= 10


def test_every_public_name_is_in_the_reference():
    text = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    modules = set(re.findall(r"automodule:: dynacl\.(\w+)", text))
    named = set(re.findall(r"auto(?:class|function|exception):: (\w+)", text))
    assert set(dynacl.__all__) - {"__version__"} == named | (modules - {"baselines"})
    assert "baselines" in modules


def test_every_script_is_in_the_gallery():
    scripts = {path.stem for path in (ROOT / "examples").rglob("*.py")}
    assert scripts == {path.stem for path in (DOCS / "gallery").glob("*.md")}
    listed = re.findall(r"^gallery/(\w+)$", (DOCS / "gallery.md").read_text(), re.M)
    assert sorted(listed) == sorted(scripts)


def test_the_picture_of_dynamics_is_drawn_from_its_questions():
    spec = importlib.util.spec_from_file_location("which", DOCS / "which.py")
    which = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(which)
    assert which.draw() == (DOCS / "which.svg").read_text()
    taken = {name for _, answers in which.QUESTIONS for _, name in answers if name}
    assert taken < {AUTO, *BY_NAME}
    listed = re.findall(r'^\| `"(\w+)"` \|', (DOCS / "which.md").read_text(), re.M)
    assert sorted(listed) == sorted([AUTO, *BY_NAME])
