"""Imports go one way, so that the folders show the shape of the idea."""

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dynacl

SOURCE = Path(dynacl.__file__).parent
LAYERS = [
    {"_lazy", "_version", "data", "memory", "progress", "whitening", "writing"},
    {
        "decoding",
        "doubts",
        "inspection",
        "local_noise",
        "metrics",
        "optimizers",
        "readout",
        "sealing",
        "shapes",
        "spectrum",
        "surrogates",
        "usage",
        "values",
    },
    {"pipelines", "settings"},
    {"subspace"},
    {"intervals", "linear_models", "segmentation"},
    {"dynamics", "objective"},
    {"encoders", "parameters", "simulate"},
    {"run"},
    {"sampling"},
    {"refitting"},
    {"stability", "straightening"},
    {"configuration", "inference", "persistence", "recipe"},
    {"prediction", "scoring", "settling"},
    {"beside", "judging", "signs"},
    {"comparing", "request", "training"},
    {"assembly", "duration", "facts", "forecasting"},
    {"choosing"},
    {"keeping"},
    {"estimator"},
    {"behaviour", "without_truth"},
    {"evaluation", "flows", "ranking"},
    {"portrait"},
    {"plots"},
    {"report"},
    {"baselines"},
    {"demo", "experiments"},
    {"cli"},
    {"__main__"},
]


def layer(room):
    return next(i for i, rooms in enumerate(LAYERS) if room in rooms)


def imported(path):
    """Rooms that a module imports from: at its top, inside functions, or for type checkers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.module == "dynacl":
                yield from (name.name for name in node.names)
            elif node.module and node.module.startswith("dynacl."):
                yield node.module.split(".")[1]


FILES = sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_module_imports_only_from_layers_below_it(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for other in imported(path):
        assert other == room or layer(other) < layer(room) or LAYERS[layer(room)] >= {room, other}


def test_public_names_are_those_that_type_checkers_see():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    seen = {
        name.name: import_module(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dynacl")
        for name in node.names
    }
    assert set(dynacl.__all__) == set(seen) - {"lazy"}
    assert set(dynacl.__all__) <= set(dir(dynacl))
    for name in dynacl.__all__:
        assert getattr(dynacl, name) is getattr(seen[name], name)


def test_submodules_are_found_and_other_names_are_not():
    code = "import dynacl, sys; print(*dynacl.__all__, 'torch' in sys.modules, dynacl.training)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "simulate False <module 'dynacl.training'" in done.stdout
    with pytest.raises(AttributeError, match=r"^module 'dynacl' has no attribute 'nonsense'$"):
        dynacl.nonsense  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        from dynacl import nonsense  # noqa: F401


def test_module_that_cannot_be_imported_says_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lazy_package").mkdir()
    (tmp_path / "lazy_package" / "__init__.py").write_text(
        "from dynacl._lazy import lazy\n"
        "__getattr__, __dir__ = lazy(__name__, {'Model': 'model'})\n"
        "__all__ = ['Model']\n"
    )
    (tmp_path / "lazy_package" / "model.py").write_text("import not_installed\n")
    with pytest.raises(ModuleNotFoundError, match="not_installed"):
        import_module("lazy_package").Model  # noqa: B018


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_waiting_threads_spin_briefly_unless_told_otherwise(given, found):
    env = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = "import dynacl, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run([sys.executable, "-c", code], env=env | given, capture_output=True)
    assert done.stdout.decode().strip() == found
