"""How modes follow each other, as a fitted model tells it."""

import numpy as np
import torch

from dynacl import simulate
from dynacl.dynamics import SwitchingLinear


def test_transitions_are_counted_over_the_time_offset(small, as_it_is):
    data = simulate.slds(
        rng=np.random.default_rng(1), d=2, modes=2, angle=60, switch_probability=0.05, trials=4,
        steps=50, mixing="none",
    )  # fmt: skip
    bank = SwitchingLinear(2, 2)  # the true one, over two steps
    with torch.no_grad():
        true = torch.from_numpy(data.truth.system["matrices"]).float()
        bank.matrices.copy_(true @ true)
    model = small(n_components=2, encoder=as_it_is(2), dynamics=bank, max_iter=2, time_offset=2,
                  learning_rate=1e-9, dynamics_learning_rate=1e-9).fit(data)  # fmt: skip
    counts = np.eye(2)
    for modes in model.modes(data):
        np.add.at(counts, (modes[:-2], modes[2:]), 1)
    assert counts.min() > 5
    expected = counts / counts.sum(1, keepdims=True)
    np.testing.assert_allclose(model.transitions_, expected, rtol=1e-6)
