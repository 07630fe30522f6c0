"""docs/extending.md is followed to the letter, in a copy of the package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dynacl

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
SOURCE = Path(dynacl.__file__).parent


def steps():
    """Of each block of code: the file that it names, the place in it, and the code."""
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S):
        first, code = block.split("\n", 1)
        file, _, place = first.removeprefix("# src/dynacl/").partition(", ")
        yield file, place, code


def insert(path, place, code):
    text = path.read_text()
    if place == "at the top":
        # After the last import, which the imports of these files end with a blank line.
        at = max(m.end() for m in re.finditer(r"^from dynacl.*\n", text, flags=re.M))
    else:
        at = re.search(rf"^{place.removeprefix('in ')}\b[^\n]*{{\n", text, flags=re.M).end()
        code = "    " + code
    path.write_text(text[:at] + code + text[at:])


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the package with all that the page adds."""
    root = tmp_path_factory.mktemp("extended")
    shutil.copytree(SOURCE, root / "dynacl", ignore=shutil.ignore_patterns("__pycache__"))
    for file, place, code in steps():
        path = root / "dynacl" / file
        if place:
            insert(path, place, code)
        else:
            assert not path.exists(), f"{file} is there already"
            path.write_text(code)
    return root


def run(root, *words):
    done = subprocess.run(
        [sys.executable, *words], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_adds_one_file_and_the_lines_of_one_dictionary_for_each_part():
    files = [file for file, place, _ in steps() if not place]
    assert sorted(Path(f).parts[0] for f in files) == ["data", "dynamics", "simulate"]
    lines = [code for _, place, code in steps() if place]
    assert all(code.count("\n") == 1 for code in lines)


def test_a_named_dynamics_trains_from_python_and_from_the_command_line(extended):
    code = """
import numpy as np
from dynacl import DCL, evaluate, simulate
from dynacl.dynamics.rotation import Rotation
data = simulate.lds(rng=np.random.default_rng(0), d=2, trials=20, steps=100, mixing="linear")
model = DCL(2, "rotation", random_state=0).fit(data)
same = DCL(2, Rotation(2), random_state=0).fit(data)
assert model.settings_ == same.settings_ and model.settings_.horizon == 4
assert model.history_[-1]["loss"] == same.history_[-1]["loss"]
found = evaluate(model, data)
assert found["r2"] > 0.99 and found["lds_error"] < 0.01, found
assert np.allclose(model.spectral_radius_, 1, atol=1e-5)
assert evaluate(model, data, post_hoc="rotation")["dyn_r2_1"] > 0.9
data.write("lds.npz")
"""
    run(extended, "-c", code)
    words = ["fit", "lds.npz", "--dynamics", "rotation", "--components", "2", "--max-iter", "5"]
    assert "5 steps" in run(extended, "-m", "dynacl", *words, "--out", "run", "--quiet")
    assert "rotation" in run(extended, "-m", "dynacl", "fit", "--help")


def test_a_system_is_simulated_drawn_again_and_has_an_oracle(extended):
    words = ["simulate", "van-der-pol", "--trials", "10", "--steps", "50", "--observed", "5"]
    run(extended, "-m", "dynacl", *words, "--out", "vdp.npz")
    run(extended, "-m", "dynacl", "simulate", "--again", "vdp.npz", "--out", "more.npz")
    code = """
import numpy as np, torch
from dynacl import DCL, TimeSeries, evaluate, simulate
data = TimeSeries.read("vdp.npz")
system = simulate.system(data.truth.system)
x = data.truth.latents[:20].astype(float)
told = system.oracle().double()(torch.from_numpy(x)).detach().numpy()
assert np.allclose(told, system.step(x))
assert system.has_flow and system.time_step == 0.1
model = DCL(2, "truth", max_iter=5, random_state=0).fit(data)
assert evaluate(model, TimeSeries.read("more.npz"))["dyn_r2_10"] is not None
"""
    run(extended, "-c", code)


def test_a_file_format_is_read_and_written(extended):
    table = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    np.savetxt(extended / "x.dat", table)
    words = ["fit", "x.dat", "--max-iter", "3", "--out", "dat", "--quiet"]
    run(extended, "-m", "dynacl", *words)
    run(extended, "-m", "dynacl", "embed", "dat", "x.dat", "--out", "z.dat")
    assert np.loadtxt(extended / "z.dat").shape == (60, 3)
