"""SOAP: faster than Adam where it should be, and bounded where layers are wide."""

import numpy as np
import pytest
import torch

from dynacl import DCL
from dynacl.optimizers import SOAP


@pytest.mark.parametrize("shape", [(7, 5), (5, 7)])
def test_soap_minimises_an_ill_conditioned_quadratic_faster_than_adam(shape):
    """‖M W N − target‖² with condition number 100 on both sides: what the eigenbases are for."""
    g = torch.Generator().manual_seed(0)
    M, N = (
        torch.linalg.qr(torch.randn(n, n, generator=g))[0]
        @ torch.diag(torch.logspace(0, -2, n))
        @ torch.linalg.qr(torch.randn(n, n, generator=g))[0]
        for n in shape
    )
    target = M @ torch.randn(shape, generator=g) @ N
    losses = {}
    for kind in (SOAP, torch.optim.Adam):
        W = torch.zeros(shape, requires_grad=True)
        best = []
        for lr in (0.003, 0.01, 0.03, 0.1):
            W.data.zero_()
            optimizer = kind([W], lr=lr)
            for i in range(300):
                optimizer.param_groups[0]["lr"] = lr * (1 - i / 300)
                optimizer.zero_grad()
                loss = (M @ W @ N - target).square().sum()
                loss.backward()
                optimizer.step()
            best.append(loss.item())
        losses[kind] = min(best)
    assert losses[SOAP] < 0.5 * losses[torch.optim.Adam]


def test_wide_layers_learn_slowly_and_have_one_basis(monkeypatch, turning):
    monkeypatch.setattr("dynacl.optimizers.WIDEST", 400)
    y = turning(3000) @ np.random.default_rng(1).standard_normal((2, 500))
    y += np.random.default_rng(2).standard_normal(y.shape)
    y = y.astype(np.float32)
    settings = {"max_iter": 150, "batch_size": 256, "standardize": False, "validation": False}
    model = DCL(2, **settings, random_state=0).fit(y)
    soap = model.run_.optimizers[0]
    assert isinstance(soap, SOAP)
    peaks = {p.shape: g["peak"] for g in soap.param_groups for p in g["params"]}
    assert peaks[60, 500] == pytest.approx(0.03 * 200 / 500)
    assert peaks[60, 60] == peaks[20,] == 0.03
    first = model.encoder_.layers[0].weight
    assert "left_basis" in soap.state[first]
    assert "right_basis" not in soap.state[first]
    bits = model.run_.cap - model.history_[-1]["loss"] / np.log(2)
    assert bits > 3  # 1.9 where it learns as fast as narrow ones
