"""Machines drawn at random: the benchmark itself."""

import numpy as np
import pytest
from benchmarks.machines import KINDS, MODELS, draw, page, simulated


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_stays_bounded_and_answers_its_input(kind: str) -> None:
    machine = draw(kind, np.random.default_rng(0))
    y, u = simulated(machine, np.random.default_rng(1), 300)
    again, same = simulated(machine, np.random.default_rng(1), 300)
    other, _ = simulated(machine, np.random.default_rng(2), 300)
    assert y.shape == u.shape == (300, 1)
    assert np.isfinite(y).all()
    assert y.std() > 0.05
    np.testing.assert_array_equal((y, u), (again, same))
    assert np.abs(y - other).max() > 0.1


def test_the_page_compares_each_machine_with_its_own_arx() -> None:
    def row(index: int, model: str, missed: float) -> dict[str, object]:
        figures = {f"nrmse_{h}": missed for h in (1, 10, 100)}
        return {"index": index, "machine": "pump", "noise": 0.0, "model": model} | figures

    rows = [row(i, "ARX", arx) for i, arx in ((0, 0.1), (1, 0.4))]
    rows += [row(i, model, 0.1) for i in (0, 1) for model in MODELS]
    head = page(rows).splitlines()[2]
    assert head == "| linear | 0.62 | 0.62 | 0.62 | 1.00 | 1.00 | 1.00 |"  # 1 and a quarter
