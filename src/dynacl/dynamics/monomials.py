"""All products of up to `degree` components of a state: what polynomial models are sums of."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb
from typing import final

import torch
from torch import Tensor, nn

REACH = 4.0  # standard deviations, beyond which what bends is that of the border


@final
class Monomials(nn.Module):
    """m(z), (..., terms), for z of zero mean and unit variance, (..., d)."""

    factors: Tensor  # (terms, degree): each monomial is a product of columns of [z, 1]
    linear: Tensor  # (d,): which of them are the components themselves

    def __init__(self, d: int, degree: int) -> None:
        super().__init__()
        if degree < 1:
            raise ValueError(f"degree: got {degree}; wanted at least 1")
        columns = list(combinations_with_replacement(range(d + 1), degree))
        alone = [columns.index((i, *[d] * (degree - 1))) for i in range(d)]
        self.register_buffer("factors", torch.tensor(columns), persistent=False)
        self.register_buffer("linear", torch.tensor(alone), persistent=False)

    def __len__(self) -> int:
        return len(self.factors)

    def forward(self, z: Tensor) -> Tensor:
        """Columns are picked by products with zeros and ones: an index is slow to differentiate."""
        picks = nn.functional.one_hot(self.factors.T, z.shape[-1] + 1).to(z).mT
        columns = [z @ pick[:-1] + pick[-1] for pick in picks]
        out: Tensor = columns[0]
        for column in columns[1:]:
            out = out * column
        return out

    def bounded(self, z: Tensor, reach: float = REACH) -> Tensor:
        """Beyond `reach`, those of the border; but the components themselves go on."""
        within: Tensor = self(z.clamp(-reach, reach))
        return within.index_copy(-1, self.linear, z)

    @property
    def names(self) -> list[str]:
        """Such as "x1·x3", "x2" and "1"."""
        names = [f"x{i + 1}" for i in range(len(self.linear))] + [""]
        return ["·".join(n for n in (names[j] for j in term) if n) or "1"
                for term in self.factors.tolist()]  # fmt: skip


def least_weights(d: int, degree: int) -> int:
    """The fewest numbers that a file of d sums of them holds, told without making them."""
    few = min(d, degree, 64)  # beyond 64 there are more monomials than any file has numbers
    monomials = comb(d + degree, few)
    # What is multiplied for each is a table that no file holds; a file must be worth it.
    return max(d * monomials, degree * monomials // 100)
