"""Kinds of values: what each accepts, how it says what it wants, and how it reads text."""

import argparse
import math

import numpy as np
import pytest

from dynacl import values
from dynacl.values import (
    POSITIVE,
    SHARE,
    Anything,
    Flag,
    HeldOut,
    Kind,
    Lags,
    Negatives,
    Number,
    OneOf,
    OrNone,
    PastLags,
    Seed,
    Whole,
    plain,
)


def is_dict(value):
    return isinstance(value, dict)


# kind: (its words, values that it accepts, values that it refuses, text that is none of it)
KINDS = {
    Whole(): (
        "a whole number of at least 1",
        [1, 7, np.int64(3)],
        [0, -1, 1.0, True, np.bool_(True), "1", None, math.nan],
        ["1.5", "one", ""],
    ),
    Whole(0): ("a whole number of at least 0", [0, 5], [-1, False], ["x"]),
    Number(): ("a number of at least 0", [0, 0.0, 2, 1e9, np.float32(0.5)],
               [-1e-9, math.inf, math.nan, True, "1", None], ["x", ""]),
    Number(1.0): ("a number of at least 1", [1, 1.0, 3], [0.99], ["x"]),
    POSITIVE: ("a positive number", [1e-9, 1, np.float64(2)], [0, 0.0, -1, math.inf], ["x"]),
    SHARE: ("a number from 0 to 1", [0, 0.5, 1], [-0.1, 1.1, math.nan], ["x"]),
    Flag(): ("True or False", [True, False, np.bool_(True)], [0, 1, "on", None], ["1", "yes"]),
    OneOf(("a", "b")): ("one of a, b", ["a", "b"], ["c", "", 1, None, ["a"]], ["c", "A"]),
    OneOf(("a",), is_dict, "a dict"): ("one of a or a dict", ["a", {}], ["b", [], None], ["{}"]),
    OrNone(Whole()): ("a whole number of at least 1, or None", [None, 1], [0, "none"], ["no"]),
    OrNone(Whole(), "batch"): ("a whole number of at least 1, or None", [None, 2], [0], ["none"]),
    OrNone(Lags()): ("distinct whole numbers of steps back, such as (0, 1, 2), or None",
                     [None, (0, 1)], [(), (0, 0)], ["x"]),
    Negatives(): ('a whole number or "batch"', [1, 500, "batch", np.int64(2)],
                  [0, 1.5, "all", None, True], ["all", "1.5"]),
    Lags(): (
        "distinct whole numbers of steps back, such as (0, 1, 2)",
        [(0,), [0, 2, 5], range(3), np.array([0, 4]), (3, 1)],
        [(), (0, 0), (-1,), (0.5,), 3, "0,1", None, (math.nan,), (math.inf,), [[0, 1]]],
        ["0;1", "a", "3/", ""],
    ),
    PastLags(): (
        "distinct whole numbers of steps back, such as (1, 2), or ()",
        [(), [], (1,), [1, 5], range(1, 3), np.array([2, 4]), (0,), (0, 1)],
        [(1, 1), (-1,), (1.5,), 3, "", "1,2", None, (math.nan,)],
        ["1;2", "a", ""],
    ),
    HeldOut(): ("a share from 0 to 0.5, distinct indices of trials, or False",
                [0, 0.2, 0.5, False, (3, 7), [0], np.array([2])],
                [True, 0.6, -0.1, "auto", None, (), (1, 1), (-1,)], ["x", "trials:", "trials:a"]),
    HeldOut(auto=True): ('"auto", a share from 0 to 0.5, distinct indices of trials, or False',
                         ["auto", 0.1, (1,)], ["off", True], ["never"]),
    Seed(): ("an int, a RandomState or None", [0, None, np.random.RandomState(0)], [],
             ["-1", "1.5", "x", str(2**32)]),
    Anything("words"): ("words", [0, "text", None], [], []),
    Anything("a dict", is_dict): ("a dict", [{}], [0, None], []),
}  # fmt: skip


def named(kind):
    return repr(kind).split(" at 0x")[0]


def typed(kind):
    """Values of this kind that can be typed: no objects, and no seed is none at all."""
    unsaid = dict, np.random.RandomState, type(None) if type(kind) is Seed else dict
    return [value for value in KINDS[kind][1] if not isinstance(value, unsaid)]


def test_every_kind_is_tried_here():
    declared = {v for v in vars(values).values() if isinstance(v, type) and issubclass(v, Kind)}
    assert declared - {Kind} == {type(kind) for kind in KINDS}
    assert all(cls.__final__ for cls in declared - {Kind})


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_kind_says_what_it_wants_and_accepts_that_alone(kind):
    words, right, wrong, _ = KINDS[kind]
    assert kind.wanted == words
    assert [value for value in right if not kind.accepts(value)] == []
    assert [value for value in wrong if kind.accepts(value)] == []


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_what_is_said_is_read_back(kind):
    for value in typed(kind):
        read = kind.read(kind.said(value))
        assert read == (str(value) if type(kind) is Anything else plain(value))
        assert kind.accepts(read)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_text_of_another_kind_is_refused_in_words_that_argparse_shows(kind):
    for text in KINDS[kind][3]:
        with pytest.raises(argparse.ArgumentTypeError, match=r"got .*; wanted .+") as error:
            kind.from_text(text)
        assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_argparse_takes_an_option_of_every_kind(kind):
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--option", **kind.argument())
    assert parser.parse_args([]).option in (None, False)
    if kind == Flag():
        assert parser.parse_args(["--option"]).option is True
        return
    for value in typed(kind):
        if value is not None:  # which is what leaving the option out means
            text = kind.said(value)
            assert parser.parse_args(["--option", text]).option == kind.read(text)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Flag(), "on", True), (Flag(), "OFF", False), (Flag(), "true", True),
        (OrNone(SHARE), "none", None), (OrNone(Whole(), "batch"), "batch", None),
        (OrNone(Flag()), "off", False), (Negatives(), "batch", "batch"), (Negatives(), "20", 20),
        (Lags(), "0,1,2", (0, 1, 2)), (Lags(), "4/10", (0, 3, 6, 9)), (Seed(), "7", 7),
        (Number(), "1e-3", 1e-3),
    ],
)  # fmt: skip
def test_text_is_read_as_it_is_typed(kind, text, value):
    read = kind.read(text)
    assert read == value
    assert type(read) is type(value)


def test_a_number_keeps_both_its_bounds():
    assert not Number(0.0, 1.0, above=True).accepts(2.0)
    assert not Number(0.0, 1.0, above=True).accepts(0.0)
    assert Number(0.0, 1.0, above=True).accepts(1.0)


def test_plain_values_are_what_json_holds():
    came = [np.int64(1), np.float32(0.5), np.bool_(True), range(3), np.arange(2), ["a", (1,)], None]
    wanted = [1, 0.5, True, (0, 1, 2), (0, 1), ("a", (1,)), None]
    assert [plain(v) for v in came] == wanted
    assert [type(plain(v)) for v in came] == [type(v) for v in wanted]
