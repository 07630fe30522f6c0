"""What is handed out: built twice it is the same, it is whole, and it asks for what is pinned."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dynacl import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and sdist of two copies of the sources, of other times, places and permissions."""
    pytest.importorskip("hatchling", reason="hatchling builds the package; it is in dynacl[dev]")
    found = []
    for i, mode in enumerate((0o644, 0o600)):
        tree = tmp_path_factory.mktemp(f"tree{i}") / "sources"
        tree.mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, tree)
        shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for path in tree.rglob("*"):
            if path.is_file():
                path.chmod(mode)
                os.utime(path, (10**9 + i, 10**9 + i))
        code = "from hatchling import build; build.build_wheel('dist'); build.build_sdist('dist')"
        env = os.environ | {"SOURCE_DATE_EPOCH": "1700000000", "TZ": ("UTC", "Asia/Tokyo")[i]}
        (tree / "dist").mkdir()
        subprocess.run([sys.executable, "-c", code], cwd=tree, env=env, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        found.append(sorted((tree / "dist").iterdir()))
    return found


def test_wheel_and_sdist_are_the_same_bytes_whenever_and_wherever_they_are_built(built):
    for one, other in zip(*built, strict=True):
        assert one.name == other.name
        assert one.read_bytes() == other.read_bytes()
    assert [path.suffix for path in built[0]] == [".whl", ".gz"]


def test_wheel_holds_every_file_of_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[0][0]) as wheel:
        inside = {n for n in wheel.namelist() if ".dist-info/" not in n}
    package = ROOT / "src" / "dynacl"
    wanted = {
        p.relative_to(package.parent).as_posix()
        for p in package.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert inside == wanted
    assert {"dynacl/py.typed", "dynacl/objective/kernel.c"} <= inside
    with tarfile.open(built[0][1]) as sdist:
        names = {n.partition("/")[2] for n in sdist.getnames()}
    assert {f"src/{name}" for name in wanted} | {"pyproject.toml", "LICENSE"} <= names


def test_version_is_the_same_wherever_it_is_written(built):
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert cited == newest == __version__
    assert [path.name.split("-")[1].removesuffix(".tar.gz") for path in built[0]] == [cited] * 2


def pins():
    """The versions that constraints.txt allows, by normalised name."""
    lines = (ROOT / "constraints.txt").read_text().split()
    assert all(re.fullmatch(r"[\w.-]+==[\w.+-]+", line) for line in lines)
    names = [canonicalize_name(line.split("==")[0]) for line in lines]
    assert len(set(names)) == len(names)
    return dict(zip(names, (line.split("==")[1] for line in lines), strict=True))


def asked():
    """What pyproject.toml asks for, in all of its extras."""
    return [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]


def needed():
    """Everything that the package and its extras need here, and what these need."""
    left, seen = asked(), set()
    while left:
        wanted = Requirement(left.pop())
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) in seen or name == "dynacl":
                continue
            seen.add((name, extra))
            try:
                found = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                pytest.skip(f"{name} is not installed: pip install -c constraints.txt '.[dev]'")
            for text in found.requires or []:
                other = Requirement(text)
                if other.marker is None or other.marker.evaluate({"extra": extra}):
                    left.append(text)
    return {name for name, _ in seen}


def test_constraints_pin_every_package_that_is_needed():
    pinned = pins()
    assert not needed() - set(pinned)


def test_an_audit_that_learned_nothing_of_a_package_does_not_end_well():
    """pip-audit says of packages that it could not ask about that they have no known weakness."""
    said = subprocess.run(["make", "-n", "audit"], cwd=ROOT, capture_output=True, text=True)
    (line,) = [line for line in said.stdout.splitlines() if "-r constraints.txt" in line]
    assert "pip-audit --strict" in line


def test_pins_are_within_what_the_project_asks_for():
    pinned = pins()
    for wanted in map(Requirement, asked()):
        if wanted.name != "dynacl":
            assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)])


BARE = """
import os, pwd, sys
from pathlib import Path
places = [Path(p) for p in (*sys.path, sys.base_prefix) if p]
if os.getuid() == 0 and all(q.stat().st_mode & 1 for p in places for q in p.parents if q.exists()):
    os.setgroups([]), os.setgid(54321), os.setuid(54321)
else:  # what such a user sees, where it could not read Python itself
    def nobody(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")
    pwd.getpwuid = nobody
from dynacl.cli import main
for line in (
    "simulate lds --trials 4 --steps 40 --observed 4 --layers 1 --d 2 --out x.npz",
    "fit x.npz --components 2 --max-iter 3 --batch-size 32 --quiet --out run",
    "embed run x.npz --out z.npy",
):
    assert main(line.split()) == 0, line
"""


def test_commands_work_without_a_home_a_compiler_or_a_known_user(tmp_path):
    tmp_path.chmod(0o777)
    env = {"PATH": str(tmp_path), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    for parent in tmp_path.parents:  # of pytest: for its own user alone
        if parent.stat().st_uid == os.getuid() and parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", BARE], cwd=tmp_path, env=env, capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {"x.npz", "run", "z.npy"} <= {p.name for p in tmp_path.iterdir()}
