"""Parts that cannot take the data are told at once; trying them changes nothing."""

import pytest
import torch
from torch import nn

from dynacl import DCL, InputError, assembly
from dynacl.dynamics import (
    Linear,
)
from dynacl.request import Request
from quick_models import Laplace, Shift, tiny


class Answer(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, *given):
        return self.answer(*given)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bandwidth": 0.1}, "bandwidth: got 0.1, which has no effect here"),
        ({"n_support": 10}, "n_support: got 10, which has no effect"),
        ({"lipschitz": 0.5}, "lipschitz: got 0.5, which has no effect here; it needs .* mlp"),
        ({"dynamics": "polynomial", "bias": True},
         "bias: got True, which has no effect here; it needs .* linear, switching, tiles"),
        ({"dynamics": Linear(3), "bias": True}, "bias: got True, which has no effect here"),
        ({"dynamics": "truth", "bias": True}, "bias: got True, which has no effect here"),
        ({"n_components": True}, "n_components: got True"),
        ({"standardize": "no"}, "standardize: got 'no'"),
        ({"asymmetric": "no"}, "asymmetric: got 'no'"),
        ({"degree": None}, "degree: got None"),
        ({"encoder": nn.Linear(7, 3)}, "encoder: cannot take windows"),
        ({"encoder": nn.Linear(6, 2)}, "encoder: gave shape"),
        ({"dynamics": Linear(4)}, r"dynamics: cannot take x \(2, 3\), .*; wanted \(2, 3\)"),
        ({"dynamics": Linear(3, n_controls=1)}, "dynamics: cannot take .* u None: .* u is missing"),
        ({"dynamics": nn.Linear(3, 3)}, "dynamics: cannot take .* positional arguments"),
        ({"dynamics": Laplace()}, "dynamics: cannot take"),
        ({"dynamics": Answer(lambda x, *_: x[:, :2])}, r"dynamics: gave shape \(2, 2\) for x"),
        ({"dynamics": Answer(lambda x, *_: (x, x))}, "dynamics: cannot take .* no attribute"),
        ({"similarity": Answer(lambda q, k: -(q - k).square().sum())},
         r"similarity: gave shape \(\) for q \(2, 3\), k \(2, 3\); wanted \(2,\)"),
        ({"similarity": Answer(lambda q, k: q - k)}, r"similarity: gave shape \(2, 3\)"),
        ({"similarity": Answer(lambda q, k: torch.einsum("nd,nd->n", q, k))},
         r"similarity: cannot take q \(2, 1, 3\), k \(3, 3\): .*; wanted \(2, 3\)"),
        ({"similarity": nn.Linear(3, 3)}, "similarity: cannot take q"),
    ],
)  # fmt: skip
def test_what_cannot_be_or_has_no_effect_is_refused(rotating, changed, message):
    with pytest.raises(InputError, match=message):
        tiny(changed.pop("n_components", 3), **changed).fit(rotating)


class Noisy(nn.Module):
    """Draws at random and remembers, even where it should not."""

    tried = 0  # by all copies

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, x_next=None, u=None):
        self.calls += 1
        Noisy.tried += 1
        return x + torch.rand(())


def test_trying_a_part_leaves_it_and_the_random_numbers_alone(rotating):
    part, drawn = Noisy(), torch.get_rng_state()
    request = Request.of(tiny(3, part).get_params(deep=False))
    run = assembly.begin(request, rotating, seed=0)
    assert Noisy.tried == 1
    assert run.dynamics.given.calls == part.calls == 0
    assert torch.equal(torch.get_rng_state(), drawn)


def test_fit_does_not_train_the_modules_that_it_was_given(two_modes):
    """scikit-learn: fit leaves parameters alone, so a clone starts from where the user's was."""
    given = Shift()
    model = DCL(8, given, encoder=torch.nn.Linear(8, 8), max_iter=5, random_state=0).fit(two_modes)
    assert torch.equal(given.by, torch.zeros(8))
    assert not torch.equal(model.dynamics_.by, torch.zeros(8))
