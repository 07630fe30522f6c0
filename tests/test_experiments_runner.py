"""Results that survive: a sweep goes on where it stopped, and a result is whole or not there."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynacl import InputError
from dynacl.experiments import engines
from dynacl.experiments.fitting import Outcome, run
from dynacl.experiments.plan import name
from dynacl.experiments.runner import expected, missing, sweep
from dynacl.experiments.store import Store
from small_fits import record, tiny


def noted(calls):
    def engine(configs):
        for config in configs:
            calls.append(name(config))
            yield run(config)

    return engine


def test_sweep_started_again_does_only_what_is_missing(tmp_path):
    _, fits = tiny()
    store, calls = Store(tmp_path), []
    sweep(missing(fits[:2], store), store, noted(calls))
    before = {p: p.read_bytes() for p in store.runs.iterdir()}
    sweep(missing(fits, store), store, noted(calls))
    assert calls == [f.name for f in fits]
    assert missing(fits, store) == []
    assert all(p.read_bytes() == content for p, content in before.items())


def test_same_configuration_is_run_once(tmp_path):
    _, fits = tiny()
    assert [f.name for f in missing([*fits, *fits], Store(tmp_path))] == [f.name for f in fits]


def test_failed_fit_is_recorded_and_does_not_stop_the_rest(tmp_path):
    _, fits = tiny(("identity", "no such dynamics", "linear"))
    store = Store(tmp_path)
    sweep(missing(fits, store), store, engines.local)
    assert [store.state(f.name) for f in fits] == ["done", "failed", "done"]
    failed = store.get(fits[1].name)
    assert failed["error"].startswith("InputError: dynamics: got 'no such dynamics'")
    assert "Traceback" in failed["traceback"]
    assert missing(fits, store) == []
    assert missing(fits, store, again=True) == [fits[1]]


def test_result_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    _, (fit, *_) = tiny(("identity",))
    store, outcome = Store(tmp_path), run(fit.config)

    def crash(*_):
        raise OSError("no power")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", crash)
        with pytest.raises(OSError, match="no power"):
            store.put(fit.name, outcome)
    assert store.state(fit.name) == "missing"
    store.put(fit.name, outcome)
    before = (store.runs / f"{fit.name}.json").read_bytes()
    with monkeypatch.context() as broken:
        broken.setattr("dynacl.experiments.store.write", crash)
        with pytest.raises(OSError, match="no power"):
            store.put(fit.name, Outcome(record(fit, {"r2": 0.0})))
    assert (store.runs / f"{fit.name}.json").read_bytes() == before
    assert store.get(fit.name)["metrics"]["r2"] == outcome.record["metrics"]["r2"]


@pytest.mark.parametrize("there", [False, True])
def test_folder_that_cannot_be_written_to_is_refused_before_the_first_fit(
    there, tmp_path, monkeypatch
):
    def run(configs):
        raise AssertionError("it was run")

    def refused(path, **how):
        raise PermissionError(13, "Permission denied", str(path))

    fits = tiny(("linear",))[1]
    store = Store(tmp_path / "results")
    if there:
        store.runs.mkdir(parents=True)
        monkeypatch.setattr("dynacl.experiments.store.os.access", lambda path, how: False)
    else:
        monkeypatch.setattr("dynacl.experiments.store.Path.mkdir", refused)
    with pytest.raises((InputError, OSError), match=r"runs: cannot be written|denied: .*runs"):
        sweep(fits, store, run)


def test_interrupt_is_not_taken_for_a_result(tmp_path, monkeypatch):
    _, fits = tiny(("identity",))
    monkeypatch.setattr("dynacl.experiments.fitting.fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(fits, Store(tmp_path), engines.local)
    assert missing(fits, Store(tmp_path)) == fits


def interrupted(config):
    raise KeyboardInterrupt


def test_time_is_that_of_last_time_or_of_the_row_s_other_repeats(tmp_path):
    _, fits = tiny(("identity", "linear"), seeds=(0, 1))
    store = Store(tmp_path)
    store.put(fits[0].name, Outcome(record(fits[0], {}, seconds=7.0)))
    known = expected(fits, store)
    assert known == {fits[0].name: 7.0, fits[1].name: 7.0}
    assert fits[0].row.name == fits[1].row.name


def results(folder, n=3, arrays=True):
    """A store of n results that nobody had to compute, and their fits."""
    fits, store = tiny(("linear",), seeds=range(n))[1], Store(folder)
    for i, fit in enumerate(fits):
        kept = {"true": np.full((4, 2), i)} if arrays else {}
        store.put(fit.name, Outcome(record(fit, {"r2": 0.25 + i}), kept))
    return fits, store


def again(configs):
    """An engine without fits."""
    return [
        Outcome({"config": c, "state": "done", "metrics": {"r2": 0.9}, "seconds": 1.0})
        for c in configs
    ]


DAMAGE = {
    "cut short": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "not text": lambda content: b"\xff\xfe" + content,
    "another number": lambda content: content.replace(b"1.25", b"1.26"),
    "another state": lambda content: content.replace(b'"done"', b'"gone"'),
    "another configuration": lambda content: content.replace(b'"dataset": 0', b'"dataset": 7'),
    "a key that nobody wrote": lambda content: content.replace(b'"checksum"', b'"checksun"'),
    "a list": lambda content: b"[]",
    "nested without end": lambda content: b"[" * 200_000,
    "a number of 5,000 digits": lambda content: b'{"seconds": ' + b"9" * 5_000 + b"}",
    "null": lambda content: b"null",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_result_is_set_aside_named_and_run_again(damage, tmp_path, capsys):
    fits, store = results(tmp_path)
    path = store.runs / f"{fits[1].name}.json"
    bad = damage(path.read_bytes())
    assert bad != path.read_bytes()
    path.write_bytes(bad)
    assert store.get(fits[1].name) is None
    assert [r["name"] for r in store.records()] == sorted({fits[0].name, fits[2].name})
    todo = missing(fits, store)
    assert [f.name for f in todo] == [fits[1].name]
    sweep(todo, store, again)
    assert store.get(fits[1].name)["metrics"] == {"r2": 0.9}
    assert path.with_name(path.name + ".damaged").read_bytes() == bad
    assert f"damaged: {fits[1].label} ({path.name} " in capsys.readouterr().err
    assert missing(fits, store) == []
    assert [store.get(fits[i].name)["metrics"]["r2"] for i in (0, 2)] == [0.25, 2.25]


def test_result_whose_arrays_are_damaged_is_run_again(tmp_path):
    fits, store = results(tmp_path)
    path = store.runs / f"{fits[0].name}.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    (store.runs / f"{fits[1].name}.npz").unlink()
    assert store.arrays(fits[0].name) == store.arrays(fits[1].name) == {}
    assert missing(fits, store) == fits[:2]
    np.testing.assert_array_equal(store.arrays(fits[2].name)["true"], np.full((4, 2), 2))


CHANGED = TemporaryDirectory()  # one for all examples: a fixture would be one for each test


@settings(max_examples=100, deadline=None, database=None)
@given(st.data())
def test_no_change_of_a_result_is_taken_for_a_result(data):
    """Any byte that is changed, left out or put in: it reads as it was written, or not at all."""
    fits, store = results(Path(CHANGED.name), n=1)
    path = store.runs / f"{fits[0].name}.json"
    content, whole = bytearray(path.read_bytes()), store.get(fits[0].name)
    at = data.draw(st.integers(0, len(content) - 1))
    new = data.draw(st.binary(min_size=0, max_size=3))
    content[at : at + data.draw(st.integers(0, 3))] = new
    path.write_bytes(content)
    assert store.get(fits[0].name) in (None, whole)


def test_results_of_versions_without_checksums_are_read(tmp_path):
    fits, store = results(tmp_path, n=1)
    path = store.runs / f"{fits[0].name}.json"
    older = json.loads(path.read_text())
    del older["checksum"], older["arrays"]
    path.write_text(json.dumps(older))
    assert store.get(fits[0].name) == older
    assert missing(fits, store) == []
    assert store.arrays(fits[0].name).keys() == {"true"}
    (store.runs / f"{fits[0].name}.npz").write_bytes(b"PK\x03\x04")
    assert missing(fits, store) == fits
