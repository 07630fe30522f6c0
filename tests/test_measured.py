"""Measured driven systems, where a folder with the data is named: never below ARX."""

import os
from pathlib import Path

import pytest
from benchmarks import measured

from dynacl import DCL
from dynacl.baselines import ARX, LinearStateSpace

pytestmark = pytest.mark.skipif(
    "DYNACL_DATA" not in os.environ, reason="DYNACL_DATA names no folder with the recordings"
)


def test_a_linear_fit_of_the_tanks_predicts_as_well_as_arx():
    parts = measured.tanks(Path(os.environ["DYNACL_DATA"]))
    training, past = parts["train"], max(measured.LAGS)
    models = {
        "arx": ARX(measured.LAGS).fit(training).ahead,
        "state": LinearStateSpace(7, measured.LAGS).fit(training).ahead,
        "dcl": measured.by_model(
            DCL(7, time_lags=measured.LAGS, max_iter=1, random_state=0).fit(training), training
        ),
    }
    found = {k: measured.errors(ahead, parts["validation"], past) for k, ahead in models.items()}
    for horizon in measured.HORIZONS:
        for name in ("state", "dcl"):
            assert found[name][f"nrmse_{horizon}"] < 1.05 * found["arx"][f"nrmse_{horizon}"]
