"""An array for an array, a list or dict of trials for those."""

from functools import partial

import numpy as np

from quick_models import tiny


def test_array_in_array_out_and_list_in_list_out(two_modes, switching_model):
    y = two_modes.observations
    step_by_step = partial(switching_model.modes, decode="step")
    trials = [y[:40], y[40:70]]
    for method, lengths, width in (
        (switching_model.transform, (40, 30), (3,)),
        (switching_model.predict, (40, 30), (3,)),
        (switching_model.modes, (39, 29), ()),
        (step_by_step, (39, 29), ()),
    ):
        assert method(y[:40]).shape == (lengths[0], *width)
        out = method(trials)
        assert isinstance(out, list)
        assert [v.shape for v in out] == [(n, *width) for n in lengths]
        assert {k: v.shape for k, v in method({"a": y[:40]}).items()} == {"a": out[0].shape}
        np.testing.assert_array_equal(method([y[:40]])[0], method(y[:40]))
        if method != switching_model.modes:  # whose chain is estimated from all trials together
            np.testing.assert_array_equal(out[0], method(y[:40]))
    assert switching_model.forecast(y[:40], 7).shape == (7, 3)
    assert [v.shape for v in switching_model.forecast(trials, 7)] == [(7, 3), (7, 3)]
    assert isinstance(switching_model.transform([y[:40]]), list)


def test_a_path_gives_all_trials(rotating, tmp_path):
    rotating.write(tmp_path / "x.npz")
    model = tiny(3).fit(tmp_path / "x.npz")
    assert len(model.transform(tmp_path / "x.npz")) == 4
    assert len(model.forecast(str(tmp_path / "x.npz"), 2)) == 4
