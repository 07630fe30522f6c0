"""More weight on alignment: how much, when, and for which parts."""

import numpy as np
import pytest
import torch

from dynacl import DCL, evaluate, simulate
from dynacl.objective import Emphasis, Loss
from quick_models import begun


def test_emphasis_weighs_alignment_by_how_low_the_loss_has_been():
    alignment = torch.tensor(0.5, requires_grad=True)
    emphasis = Emphasis(10.0)

    def gradient(total):
        for _ in range(300):  # until the running mean is there
            loss = Loss(total + alignment - alignment.detach(), alignment, total - alignment)
            weighed = emphasis(loss)
        (found,) = torch.autograd.grad(weighed, alignment)
        return found.item()

    assert gradient(torch.tensor(0.7)) == 1
    assert gradient(torch.tensor(0.45)) == pytest.approx(1 + 5, rel=0.01)
    assert gradient(torch.tensor(0.1)) == pytest.approx(1 + 10)
    assert gradient(torch.tensor(2.0)) == 1  # and back


def test_emphasis_finds_what_an_easy_contrast_leaves_and_lets_noise_alone():
    """Planes that turn, with noise far below the distance between samples, and with much."""

    def fitted(noise, emphasis, steps):
        data = simulate.lds(rng=np.random.default_rng(0), d=4, angle=10, noise=noise, trials=50,
                            steps=200, observed=12, layers=3)  # fmt: skip
        model = DCL(4, "linear", max_iter=steps, batch_size=256, random_state=0,
                    settings={"emphasis": emphasis})  # fmt: skip
        return evaluate(model.fit(data), data)

    plain, firm = fitted(1e-4, 0.0, 400), fitted(1e-4, 10.0, 400)
    assert firm["lds_error"] < 0.1 * plain["lds_error"]
    assert 1 - firm["r2"] < 0.5 * (1 - plain["r2"])
    plain, firm = fitted(0.2, 0.0, 60), fitted(0.2, 10.0, 60)
    assert firm["r2"] == plain["r2"]


def test_emphasis_is_for_dynamics_that_identify_and_comes_late_for_driven_ones(trials, small):
    driven = simulate.controlled(rng=np.random.default_rng(0), trials=5, steps=300, observed=8)
    assert small().fit(trials).settings_.emphasis_at == 4  # with the full horizon, after one step
    for free in ({"protocol": "paper-slds"}, {"similarity": "dot"}, {"dynamics": "mlp"},
                 {"density_correction": "euclidean"}):  # fmt: skip
        assert begun(small(**free), trials).emphasis is None
    late = small(n_components=5, dynamics="linear").fit(driven)
    assert late.settings_.emphasis_at == 14
    assert late.run_.emphasis.level < 10
