"""Data and models that several files of tests use; made through the command line, once."""

import numpy as np
import pytest

from command_line import dynacl, quick_fit


@pytest.fixture(scope="session")
def recovered(tmp_path_factory):
    """slds.npz, a tiny switching system of 40 trials × 250 steps, and run, a good model of it."""
    p = tmp_path_factory.mktemp("recovered")
    dynacl("simulate", "slds", "--d", 2, "--modes", 2, "--angle", 40, "--noise", 0.01,
           "--trials", 40, "--steps", 250, "--switch-probability", 0.01, "--layers", 2,
           "--observed", 8, "--seed", 3, "--out", p / "slds.npz")  # fmt: skip
    dynacl("fit", p / "slds.npz", "--dynamics", "switching", "--modes", 2, "--components", 2,
           "--max-iter", 600, "--batch-size", 512, "--out", p / "run")  # fmt: skip
    return p


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A switching system of 6 trials × 40 steps, new trials of it, a driven one, and models that
    have hardly been trained."""
    p = tmp_path_factory.mktemp("world")
    size = ("--trials", 6, "--steps", 40, "--observed", 5, "--layers", 1)
    dynacl("simulate", "slds", "--d", 2, "--modes", 2, "--switch-probability", 0.1, *size,
           "--out", p / "slds.npz")  # fmt: skip
    dynacl("simulate", "--again", p / "slds.npz", "--trials", 3, "--seed", 1,
           "--out", p / "new.npz")  # fmt: skip
    dynacl("simulate", "control-step", "--d", 2, *size, "--out", p / "driven.npz")
    dynacl("simulate", "lds", "--d", 2, *size, "--out", p / "lds.npz")
    np.savetxt(p / "u.csv", np.ones((4, 1)), delimiter=",")
    quick_fit(p, "switching", "--dynamics", "switching", "--modes", 2)
    quick_fit(p, "lagged", "--dynamics", "switching", "--modes", 2, "--time-lags", "0,1,2")
    quick_fit(p, "gated", "--dynamics", "gated", "--modes", 2)
    quick_fit(p, "asymmetric", "--asymmetric")
    quick_fit(p, "driven", data="driven.npz")
    return p
