"""Results that survive: a sweep goes on where it stopped, and a result is whole or not there."""

import os

import pytest

from dynacl.experiments import engines
from dynacl.experiments.fitting import Outcome, run
from dynacl.experiments.plan import name
from dynacl.experiments.runner import Store, expected, missing, sweep
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
        broken.setattr("dynacl.experiments.runner.write", crash)
        with pytest.raises(OSError, match="no power"):
            store.put(fit.name, Outcome(record(fit, {"r2": 0.0})))
    assert (store.runs / f"{fit.name}.json").read_bytes() == before
    assert store.get(fit.name)["metrics"]["r2"] == outcome.record["metrics"]["r2"]


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
