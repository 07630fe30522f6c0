"""`dynacl simulate`: what is typed reaches the system."""

import numpy as np

from command_line import dynacl
from dynacl import TimeSeries


def test_noise_has_one_standard_deviation_or_one_for_each_dimension(tmp_path):
    for noise, expected in {"0.1": np.eye(2) * 0.1, "0.1,0.3": np.diag([0.1, 0.3])}.items():
        out = tmp_path / f"{noise}.npz"
        dynacl("simulate", "lds", "--d", 2, "--noise", noise, "--trials", 2, "--steps", 9,
               "--out", out)  # fmt: skip
        np.testing.assert_array_equal(TimeSeries.read(out).truth.system["noise"], expected)


def test_again_draws_new_trials_of_the_same_system(world):
    old, new = (TimeSeries.read(world / name) for name in ("slds.npz", "new.npz"))
    assert (old.n_trials, new.n_trials) == (6, 3)
    for name, value in old.truth.system.items():
        np.testing.assert_array_equal(new.truth.system[name], value)
    assert not np.isin(new.truth.latents, old.truth.latents).any()
