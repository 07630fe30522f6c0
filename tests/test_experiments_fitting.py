"""One fit: its data, what it leaves as it was, and the fingerprint of the sources behind it."""

import subprocess
import sys

import pytest

from dynacl.experiments import fitting


def hashed(root):
    fitting.fingerprint.cache_clear()
    return fitting.fingerprint(root)


def modules():
    """Dotted name of every source of the package: its file."""
    files = [f for f in fitting.ROOT.rglob("*") if f.suffix in (".py", ".c")]
    return {".".join(f.relative_to(fitting.ROOT).with_suffix("").parts): f for f in files}


def test_every_source_is_hashed_or_of_a_room_without_effect():
    counted = set(fitting.sources())
    rooms = set()
    for module, file in modules().items():
        parts = module.split(".")
        above = {".".join(parts[: i + 1]) for i in range(len(parts))} & set(fitting.NO_EFFECT)
        assert (file in counted) != bool(above), module
        rooms |= above
    assert rooms == set(fitting.NO_EFFECT)  # each of them is there
    assert {fitting.ROOT / "experiments" / f for f in ("fitting.py", "plan.py")} <= counted


def test_what_a_fit_imports_is_hashed():
    """By what Python loads for a fit, without the package's __init__, which names all rooms."""
    code = (
        "import sys, types; package = types.ModuleType('dynacl');"
        f"package.__path__ = [{str(fitting.ROOT)!r}]; sys.modules['dynacl'] = package;"
        "import dynacl.experiments.fitting, dynacl.baselines;"
        "print(*(m.removeprefix('dynacl.') for m in sys.modules if m.startswith('dynacl.')))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    counted, files = set(fitting.sources()), modules()
    without = {m for m in loaded.stdout.split() if m in files and files[m] not in counted}
    assert {"sampling", "whitening", "training"} <= set(loaded.stdout.split())
    assert without == {"_version", "progress"}  # a number, and a bar on the screen


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("training.py", True),
        ("dynamics/linear.py", True),
        ("objective/kernel.c", True),
        ("experiments/plan.py", True),
        ("new_room.py", True),
        ("client.py", True),  # no cli, though its name begins like that
        ("cli.py", False),
        ("cli/words.py", False),  # a room may grow into a folder
        ("experiments/drawing.py", False),
        ("training.pyc", False),
        ("notes.md", False),
    ],
)
def test_fingerprint_changes_with_the_bytes_of_what_counts(file, counts, tmp_path):
    (tmp_path / "data.py").write_text("x = 1\n")
    first = hashed(tmp_path)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("x = 2\n")
    there = hashed(tmp_path)
    (tmp_path / file).write_text("x = 3\n")
    changed = hashed(tmp_path)
    assert len({first, there, changed}) == (3 if counts else 1)


def test_fingerprint_changes_when_code_moves_from_one_file_to_another(tmp_path):
    found = set()
    for a, b in (("one\n", "two\n"), ("two\n", "one\n"), ("one\ntwo\n", ""), ("", "one\ntwo\n")):
        (tmp_path / "data.py").write_text(a)
        (tmp_path / "training.py").write_text(b)
        found.add(hashed(tmp_path))
    assert len(found) == 4
