"""A run that was stopped, kept and taken up again is the run that was never stopped."""

import os
import signal

import pytest

from dynacl import DCL
from dynacl.data import InputError
from dynacl.persistence import load_checkpoint, save_checkpoint
from dynacl.training import training_step


@pytest.mark.parametrize("protocol", ["default", "paper-slds"])
@pytest.mark.parametrize("stop", [7, 10])
def test_resumed_run_equals_the_uninterrupted_one_bit_for_bit(
    trials, tmp_path, protocol, stop, small, weights, assert_equal
):
    settings = {"protocol": protocol, "n_negatives": 128}
    whole = small(**settings).fit(trials)

    def interrupt(run, *args):
        if run.step == stop - 1:
            os.kill(os.getpid(), signal.SIGINT)  # in the middle of a step, as a user would
        return training_step(run, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynacl.training.training_step", interrupt)
        with pytest.warns(UserWarning, match="interrupted at step"):
            part = small(**settings).fit(trials)
    assert part.n_iter_ == stop
    save_checkpoint(part.run_, tmp_path / "checkpoint")
    part.save(tmp_path)
    loaded = DCL.load(tmp_path)
    load_checkpoint(loaded.run_, tmp_path / "checkpoint")
    loaded.resume(trials)
    assert_equal(weights(whole), weights(loaded))
    if protocol == "default":
        assert whole.run_.emphasis.level == loaded.run_.emphasis.level
    strip = lambda history: [{k: v for k, v in r.items() if k != "seconds"} for r in history]
    assert strip(whole.history_) == strip(loaded.history_)


def test_loaded_model_resumes_with_its_checkpoint_only(trials, tmp_path, small):
    broken = small().fit(trials, callback=lambda run, _: run.step == 10)
    broken.save(tmp_path)
    loaded = DCL.load(tmp_path)
    with pytest.raises(InputError, match="load_checkpoint"):
        loaded.resume(trials)
    assert loaded.partial_fit(trials).n_iter_ == 30
    done = small(max_iter=2).fit(trials)
    done.save(tmp_path)
    assert DCL.load(tmp_path).resume(trials).n_iter_ == 2  # nothing is left to do
