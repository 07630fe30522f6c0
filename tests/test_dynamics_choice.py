"""The soft choice among modes in training."""

import pytest
import torch

from dynacl.dynamics import SwitchingLinear
from dynacl.dynamics.choice import Choice

TURN, STRETCH = [[0.0, -1.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 2.0]]


def bank(*matrices):
    model = SwitchingLinear(2, len(matrices))
    model.matrices.data = torch.tensor(matrices, dtype=torch.float32)
    return model


def test_training_weights_are_the_papers_gumbel_softmax():
    model = bank(TURN, STRETCH).train()
    x, following = torch.randn(6, 2), torch.randn(6, 2)
    model.choice.generator = torch.Generator().manual_seed(3)
    mine = model(x, following)
    gumbel = -torch.log(-torch.log(torch.rand(6, 2, generator=torch.Generator().manual_seed(3))))
    for i in range(6):
        predictions = [W @ x[i] for W in model.matrices]
        errors = torch.stack([(p - following[i]).square().sum() for p in predictions])
        z = torch.softmax(1 / errors + gumbel[i], dim=0)
        torch.testing.assert_close(mine[i], z[0] * predictions[0] + z[1] * predictions[1])


def test_mean_logits_are_d_times_sharper_than_the_text():
    x, following = torch.randn(6, 2), torch.randn(6, 2)
    model = bank(TURN, STRETCH).train()
    model.choice.logits, model.choice.generator = "mean", torch.Generator().manual_seed(3)
    errors = (model.bank(x) - following[:, None]).square().sum(-1)
    gumbel = -torch.log(-torch.log(torch.rand(6, 2, generator=torch.Generator().manual_seed(3))))
    z = torch.softmax(2 / errors + gumbel, dim=-1)
    torch.testing.assert_close(model(x, following), (z[:, :, None] * model.bank(x)).sum(1))


def test_relative_logits_do_not_depend_on_the_embedding_scale():
    outputs = []
    for scale in (1e-2, 1.0, 1e3):
        model = bank(TURN, STRETCH).train()
        model.choice.logits = "relative"
        model.choice.generator = torch.Generator().manual_seed(0)
        x = torch.randn(8, 2, generator=torch.Generator().manual_seed(1))
        following = torch.randn(8, 2, generator=torch.Generator().manual_seed(2))
        outputs.append(model(scale * x, scale * following) / scale)
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(outputs[1], outputs[2], rtol=1e-3, atol=1e-4)


def test_temperature_schedule_is_followed():
    model = SwitchingLinear(2, 2, temperature=(4.0, 1.0))
    model.anneal(0.0)
    assert model.choice.temperature == pytest.approx(4)
    model.anneal(0.5)
    assert model.choice.temperature == pytest.approx(2)
    model.anneal(1.0)
    assert model.choice.temperature == pytest.approx(1)


def test_the_training_settings_choose_the_logits_unless_the_model_was_built_with_its_own(
    trials, small
):
    for asked, expected in ((None, "mean"), ("reciprocal", "reciprocal")):
        model = small(dynamics=SwitchingLinear(3, 2, logits=asked), max_iter=1).fit(trials)
        assert model.dynamics_.choice.logits == model.settings_.switching_logits == expected
    chosen = small(dynamics=SwitchingLinear(3, 2, logits="reciprocal"), max_iter=1,
                   settings={"switching_logits": "relative"}).fit(trials)  # fmt: skip
    assert chosen.dynamics_.choice.logits == "relative"


def test_unknown_logits_are_refused():
    with pytest.raises(ValueError, match="logits: got 'sharp'; wanted one of reciprocal"):
        Choice("sharp")
