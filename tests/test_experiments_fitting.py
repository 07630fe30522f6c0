"""One fit: its data, what it leaves as it was, and the fingerprint of the sources behind it."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from dynacl.cli import main
from dynacl.experiments import fitting
from dynacl.experiments.catalogue import EXPERIMENTS
from dynacl.experiments.fitting import run, simulated
from dynacl.experiments.plan import configuration, plan
from small_fits import tiny


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


def test_number_of_threads_is_left_as_it_was():
    before = torch.get_num_threads()
    _, (fit, *_) = tiny(("identity",))
    run(fit.config | {"threads": before + 1})
    assert torch.get_num_threads() == before


STARTS = [(0, 1, 0), (1, 0, 0), (2, 2, 2), (0, 0, 1), (3, 3, 3)]  # printed in the paper


@pytest.mark.parametrize(("dataset", "start"), list(enumerate(STARTS)))
def test_lorenz_data_sets_start_where_the_paper_s_do(dataset, start):
    lorenz = EXPERIMENTS["lorenz"]
    for fit in plan(lorenz, scale="smoke", datasets=[dataset, dataset + 5], seeds=[0]):
        np.testing.assert_array_equal(simulated(fit.config).truth.latents[0], start)


def test_fresh_trials_are_new_trials_of_the_same_system():
    (fit,) = plan(EXPERIMENTS["test_split"], scale="smoke", only=["modes=2/truth"])
    series = simulated(fit.config)
    fresh = fitting.fresh_trials(fit.config, series)
    assert fresh.n_trials == series.n_trials // 10
    starts = [x.truth.latents[x.bounds[:-1]] for x in (series, fresh)]
    assert not np.isclose(starts[0][:, None], starts[1]).all(2).any()
    # The same matrices move them: with σ 1e-4, one of them explains every step to a few σ.
    now, then = (np.concatenate([x[s] for x in fresh.split(fresh.truth.latents)])
                 for s in (slice(None, -1), slice(1, None)))  # fmt: skip
    errors = [np.abs(then - now @ A.T).max(1) for A in series.truth.system["matrices"]]
    assert np.min(errors, axis=0).max() < 6e-4


def test_rows_that_show_fresh_trials_ask_for_them():
    for experiment in EXPERIMENTS.values():
        for row in experiment.rows("paper"):
            if any(cell.startswith("fresh.") for cell in row.cells):
                assert row.fresh


@pytest.mark.parametrize("fresh", [False, True])
def test_a_fit_is_judged_on_fresh_trials_if_its_row_asks(fresh):
    _, (fit,) = tiny(("linear",))
    assert ("fresh" in run(fit.config | {"fresh": fresh}).record["metrics"]) == fresh


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A folder with a recording of ten repeats of 60 samples."""
    folder = tmp_path_factory.mktemp("recording")
    rng = np.random.default_rng(0)
    np.save(folder / "small-VISp-800-1.npy", rng.standard_normal((600, 6)).astype(np.float32))
    return folder


def test_recordings_are_shuffled_within_repeats(recording):
    row = EXPERIMENTS["allen"].rows("smoke")[0]
    make = partial(configuration, EXPERIMENTS["allen"], scale="smoke", protocol="ours", dataset=0,
                   seed=0, data_dir=recording)  # fmt: skip
    plain = simulated(make(row=row))
    shuffled = simulated(make(row=replace(row, data={**row.data, "shuffle": True})))
    assert plain.n_trials == shuffled.n_trials == 10
    assert not np.array_equal(plain.observations, shuffled.observations)
    for a, b in plain.spans():
        one, two = plain.observations[a:b], shuffled.observations[a:b]
        assert np.array_equal(np.sort(one, axis=0), np.sort(two, axis=0))


def test_recording_among_other_arrays_is_found(recording, tmp_path):
    y = np.load(recording / "small-VISp-800-1.npy")
    np.savez(tmp_path / "movie_VISp_mouse800.npz", neural=y, frame=np.arange(len(y)))
    row = EXPERIMENTS["allen"].rows("smoke")[0]
    config = configuration(EXPERIMENTS["allen"], row, "smoke", "ours", 0, 0, data_dir=tmp_path)
    assert np.array_equal(simulated(config).observations, y)


@pytest.mark.skipif("DYNACL_DATA" not in os.environ, reason="DYNACL_DATA names no folder of data")
def test_recording_of_the_movie_has_ten_repeats(capsys):
    assert main(["reproduce", "allen", "--scale", "quick", "--dry-run"]) == 0
    row = EXPERIMENTS["allen"].rows("quick")[0]
    folder = Path(os.environ["DYNACL_DATA"])
    config = configuration(EXPERIMENTS["allen"], row, "quick", "ours", 0, 0, data_dir=folder)
    assert simulated(config).lengths.tolist() == [900] * 10
