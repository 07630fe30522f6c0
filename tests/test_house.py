"""Parts know themselves: nobody else asks a dynamics model for its class, name or attributes."""

import ast
from pathlib import Path

import pytest

import dynacl
from dynacl import dynamics

SOURCE = Path(dynacl.__file__).parent
CLASSES = {name for name in dynamics.__all__ if name[0].isupper() and name != "BY_NAME"} | {"Bank"}
MODELS = {"dynamics", "encoder", "geometry", "similarity", "model", "module", "f", "part"}
# A wrapper reads what the module inside it declares: that is its work.
OUTSIDE = sorted(
    p
    for p in SOURCE.rglob("*.py")
    if "dynamics" not in p.relative_to(SOURCE).parts and p.name != "custom.py"
)


def names_in(node):
    """The last name of every name and attribute: `run.dynamics` is "dynamics"."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr


def strings_in(node):
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)} - {None}


def questions(tree, names_are_data=False):
    """Every place that asks a model what it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass") and len(node.args) == 2:
                if CLASSES & set(names_in(node.args[1])):
                    yield node
            elif node.func.id in ("getattr", "hasattr") and node.args:
                last = list(names_in(node.args[0]))[:1]
                if last and last[0].rstrip("_") in MODELS:
                    yield node
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asks_type = any(
                isinstance(s, ast.Call) and isinstance(s.func, ast.Name) and s.func.id == "type"
                for s in sides
            )
            constants = [s for s in sides if isinstance(s, ast.Constant | ast.Tuple | ast.List)]
            named = any(strings_in(s) & set(dynamics.BY_NAME) for s in constants)
            if asks_type or (named and not names_are_data):
                yield node
        elif isinstance(node, ast.MatchValue | ast.MatchClass):
            known = strings_in(node) & set(dynamics.BY_NAME) or CLASSES & set(names_in(node))
            if known and not names_are_data:
                yield node


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda p: str(p.relative_to(SOURCE)))
def test_nobody_outside_dynamics_asks_a_model_what_it_is(path):
    # Rows of experiments are data, and may name dynamics.
    data = path.relative_to(SOURCE).parts[0] == "experiments"
    found = [f"{n.lineno}: {ast.unparse(n)}" for n in questions(ast.parse(path.read_text()), data)]
    assert not found


@pytest.mark.parametrize(
    "asked",
    [
        "isinstance(run.dynamics, Linear)",
        "isinstance(f, dynamics.Gated | Recurrent)",
        "type(f) is Linear",
        "name == 'switching'",
        "model.dynamics in ('linear', 'mlp')",
        "hasattr(run.dynamics, 'modes')",
        "getattr(model.dynamics_, 'context', 0)",
        "match name:\n    case 'tiles':\n        pass",
    ],
)
def test_the_question_would_be_seen(asked):
    assert list(questions(ast.parse(asked)))


@pytest.mark.parametrize("name", dynamics.BY_NAME)
def test_every_named_dynamics_is_final_and_has_a_file_of_its_own(name):
    module, cls = dynamics.BY_NAME[name]
    found = dynamics.named(name)
    assert found.__name__ == cls
    assert found.__final__
    assert found.__module__ == f"dynacl.dynamics.{module}"
    assert issubclass(found, dynamics.Dynamics)


def test_every_class_of_dynamics_is_abstract_or_final():
    def below(cls):
        for sub in cls.__subclasses__():
            yield sub
            yield from below(sub)

    for name in dynamics.BY_NAME:
        dynamics.named(name)
    for cls in below(dynamics.Dynamics):
        if cls.__module__.startswith("dynacl."):
            assert getattr(cls, "__final__", False) or cls.__subclasses__()


def test_no_module_of_the_library_is_longer_than_four_hundred_lines():
    assert not [p for p in SOURCE.rglob("*.py") if len(p.read_text().splitlines()) > 400]
