"""A similarity of one's own: summed in chunks, saved, and given again."""

import pytest
import torch

from dynacl import DCL, InputError
from dynacl.objective import Flat
from dynacl.objective.geometry.naming import as_geometry
from quick_models import Laplace, normal, tiny


def test_any_similarity_is_summed_in_chunks(monkeypatch):
    q, k = normal(40, 3).requires_grad_(), normal(70, 3, seed=1).requires_grad_()
    bias = normal(70, seed=2)
    skip = torch.randint(-1, 70, (40, 3), generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr("dynacl.objective.reference.CHUNK", 1000)  # a few rows at a time
    got = as_geometry(Laplace()).log_sum(q, k, bias, skip)
    logits = -(q[:, None] - k).abs().sum(-1) + bias
    mask = torch.zeros(40, 71, dtype=torch.bool)
    mask[torch.arange(40)[:, None], torch.where(skip < 0, 70, skip)] = True
    expected = logits.masked_fill(mask[:, :-1], -torch.inf).logsumexp(1)
    torch.testing.assert_close(got, expected)
    for a, b in zip(
        torch.autograd.grad(got.sum(), (q, k)), torch.autograd.grad(expected.sum(), (q, k)),
        strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(a, b)
    same = as_geometry(lambda a, b: Flat()(a, b)).log_sum(q, k, bias, skip)
    torch.testing.assert_close(same, Flat().log_sum(q, k, bias, skip))


def test_custom_parts_must_come_again_on_loading(rotating, tmp_path):
    tiny(3, similarity=Laplace()).fit(rotating).save(tmp_path)
    with pytest.raises(InputError, match="similarity: this model was fitted with a custom one"):
        DCL.load(tmp_path)
    assert isinstance(DCL.load(tmp_path, similarity=Laplace()).similarity_, Laplace)
