"""Encoders of one's own: whatever their parts are called, they train, are saved and come back."""

import numpy as np
import pytest
import torch
from torch import nn

from dynacl import DCL, InputError
from dynacl.encoders import MLP, Asymmetric, CustomEncoder, as_encoder
from dynacl.whitening import Whitening


class Scaled(nn.Module):
    """A linear map behind a part that is called as one of ours is."""

    def __init__(self, whitening):
        super().__init__()
        self.whitening = whitening
        self.head = nn.Linear(8, 3)

    def forward(self, y):
        return self.head(self.whitening(y))


def of_our_kind():
    return Whitening(torch.zeros(8), torch.eye(8))


@pytest.mark.parametrize("changed", [{}, {"similarity": "dot"}, {"asymmetric": True}])
@pytest.mark.parametrize("whitening", [lambda: nn.BatchNorm1d(8), lambda: nn.Linear(8, 8),
                                       of_our_kind])  # fmt: skip
def test_a_part_called_whitening_is_saved_and_loaded(whitening, changed, trials, small, tmp_path):
    model = small(encoder=Scaled(whitening()), dynamics="linear", max_iter=5, **changed)
    model.fit(trials).save(tmp_path)
    loaded = DCL.load(tmp_path, encoder=Scaled(whitening()))
    before, after = model.encoder_.state_dict(), loaded.encoder_.state_dict()
    assert before.keys() == after.keys()
    for key, value in before.items():
        assert torch.equal(value, after[key])
    for mine, theirs in zip(model.transform(trials), loaded.transform(trials), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_an_encoder_of_ours_can_be_given_and_comes_back_with_its_whitening(trials, small, tmp_path):
    given = MLP(8, 3, hidden=(16,), whitening=of_our_kind())
    model = small(encoder=given, max_iter=5).fit(trials)
    assert type(model.encoder_) is MLP
    model.save(tmp_path)
    loaded = DCL.load(tmp_path, encoder=MLP(8, 3, hidden=(16,), whitening=of_our_kind()))
    np.testing.assert_array_equal(loaded.transform(trials)[0], model.transform(trials)[0])


def test_the_fitted_encoder_is_ones_own_class_and_not_the_module_that_was_given(trials, small):
    given = nn.Linear(8, 3)
    before = given.weight.detach().clone()
    model = small(encoder=given, max_iter=2).fit(trials)
    assert type(model.encoder_) is nn.Linear
    assert model.encoder_ is not given
    assert model.run_.encoder.given is model.encoder_
    assert torch.equal(given.weight, before)


def test_only_a_module_that_is_no_encoder_is_wrapped():
    ours, other = MLP(8, 3), nn.Linear(8, 3)
    assert as_encoder(ours) is ours
    assert isinstance(as_encoder(other), CustomEncoder)
    assert as_encoder(other).given is other


def test_a_pair_of_encoders_cannot_be_given(trials, small):
    pair = Asymmetric(nn.Linear(8, 3), nn.Linear(8, 3))
    with pytest.raises(InputError, match="a pair is made with asymmetric=True"):
        small(encoder=pair).fit(trials)
