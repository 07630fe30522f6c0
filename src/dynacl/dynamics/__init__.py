"""Dynamics f: where a latent state goes in one step.

All have one signature, forward(x, x_next=None, u=None) -> prediction of x_next, for x (n, d) and
u (n, d_u). Only a model that must infer a mode looks at x_next; its `advance` takes the mode
instead, so whatever predicts from the past alone can use it. A model with a `context` of C steps
takes x as (n, C + 1, d), the present last.
"""

from dynacl.dynamics.linear import Identity, Linear
from dynacl.dynamics.nonlinear import Gated, Polynomial, Recurrent, ResidualMLP
from dynacl.dynamics.post_hoc import fit_post_hoc
from dynacl.dynamics.rollout import advance_in_training, follow
from dynacl.dynamics.switching import MANY_MODES, SwitchingLinear
from dynacl.dynamics.truth import Lorenz, Truth

__all__ = [
    "MANY_MODES",
    "Gated",
    "Identity",
    "Linear",
    "Lorenz",
    "Polynomial",
    "Recurrent",
    "ResidualMLP",
    "SwitchingLinear",
    "Truth",
    "advance_in_training",
    "fit_post_hoc",
    "follow",
]
