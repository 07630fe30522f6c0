"""One declaration of the parameters: signature, docstring, checks and the table of the docs."""

import inspect
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from dynacl import DCL, InputError, Settings, parameters
from dynacl.parameters import PARAMETERS
from dynacl.settings import KINDS, PROTOCOLS
from quick_models import tiny

TABLE = Path(__file__).parents[1] / "docs" / "parameters.md"


def test_signature_of_the_estimator_is_the_declaration():
    signature = list(inspect.signature(DCL.__init__).parameters.values())[1:]
    declared = [(name, p.default) for name, p in PARAMETERS.items()]
    assert [(p.name, p.default) for p in signature] == declared
    assert [type(p.default) for p in signature] == [type(default) for _, default in declared]


def test_table_has_a_row_for_every_parameter_flag_and_setting():
    rows = parameters.table().splitlines()
    first, second = (i for i, row in enumerate(rows) if row.startswith("## "))
    for name, p in PARAMETERS.items():
        row = next(row for row in rows[first:second] if row.startswith(f"| `{name}` |"))
        assert p.kind.wanted in row
        assert f"`{p.default!r}`" in row
        assert p.help in row
        assert all((f"`{flag}`" in row) != p.hidden for flag in (p.option, *p.flags))
    for field in fields(Settings):
        row = next(row for row in rows[second:] if row.startswith(f"| `{field.name}` |"))
        assert KINDS[field.name].wanted in row
        assert f"`{getattr(PROTOCOLS['default'].settings, field.name)!r}`" in row


@pytest.mark.parametrize("heading", ["## Parameters of `DCL`", "## Settings of the training"])
def test_the_docs_have_this_table(heading):
    assert heading in parameters.table()
    assert not TABLE.exists() or TABLE.read_text() == parameters.table()


def test_docstring_describes_every_parameter_in_order():
    text = inspect.getdoc(DCL)
    places = [text.index(f"\n{name} : {p.kind.wanted}") for name, p in PARAMETERS.items()]
    assert places == sorted(places)
    unwrapped = " ".join(text.split())
    assert all(p.help[1:] in unwrapped for p in PARAMETERS.values())


@pytest.mark.parametrize("name", PARAMETERS)
def test_defaults_are_accepted(name):
    assert PARAMETERS[name].kind.accepts(PARAMETERS[name].default)


@pytest.mark.parametrize("name", [n for n, p in PARAMETERS.items() if not p.kind.accepts(object())])
def test_what_a_parameter_cannot_be_is_named_with_what_is_wanted(rotating, name):
    with pytest.raises(InputError) as error:
        DCL(**{name: object()}).fit(rotating)
    assert str(error.value).startswith(f"{name}: got ")
    assert "object" in str(error.value)
    assert str(error.value).endswith(f"; wanted {PARAMETERS[name].kind.wanted}")


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_can_be_set_by_name_and_a_wrong_value_is_told(rotating, name):
    value = getattr(tiny(3).fit(rotating).settings_, name)
    chosen = {"max_iter": None} if name == "max_iter" else {}
    chosen |= {"batch_size": None} if name == "batch_size" else {}
    model = tiny(3, settings={name: value}, **chosen).fit(rotating)
    assert getattr(model.settings_, name) == value
    with pytest.raises(InputError) as error:
        tiny(3, settings={name: object()}, **chosen).fit(rotating)
    assert str(error.value).startswith(f"settings: {name}: got <object")
    assert str(error.value).endswith(f"; wanted {KINDS[name].wanted}")


def test_settings_that_are_unknown_or_given_twice_are_refused(rotating):
    with pytest.raises(InputError, match="no setting is called 'horizn'; wanted one of batch_size"):
        tiny(3, settings={"horizn": 2}).fit(rotating)
    with pytest.raises(InputError, match="max_iter: given twice, as a parameter and in settings"):
        tiny(3, settings={"max_iter": 4}).fit(rotating)


@pytest.mark.parametrize("form", [tuple, list, np.array, lambda lags: np.array(lags, dtype=int)])
def test_lags_that_equal_whole_numbers_are_those_numbers(rotating, form):
    model = tiny(3, time_lags=form([0.0, 1.0])).fit(rotating)
    assert [(lag, type(lag)) for lag in model.settings_.time_lags] == [(0, int), (1, int)]
    assert [len(x) for x in model.transform(rotating)] == [29] * 4
