"""Dynamics f: where a latent state goes in one step.

`base.Dynamics` lists what a model says about itself. `BY_NAME` is the only place that knows names:
a new model is one file and one line there. Models are loaded when they are first asked for, so that
their names can be listed without PyTorch. Nothing here knows the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynacl._lazy import lazy

# name: (module of this package, class)
BY_NAME: dict[str, tuple[str, str]] = {
    "identity": ("identity", "Identity"),
    "linear": ("linear", "Linear"),
    "switching": ("switching", "SwitchingLinear"),
    "tiles": ("tiles", "Tiles"),
    "polynomial": ("polynomial", "Polynomial"),
    "flow": ("flow", "Flow"),
    "mlp": ("mlp", "ResidualMLP"),
    "gated": ("gated", "Gated"),
    "recurrent": ("recurrent", "Recurrent"),
    "truth": ("oracle", "Oracle"),
}

AUTO = "auto"  # those of the above that propose themselves are tried

if TYPE_CHECKING:
    from dynacl.dynamics.ahead import follow, reach, rollout
    from dynacl.dynamics.base import Dynamics, Request
    from dynacl.dynamics.custom import Custom
    from dynacl.dynamics.flow import Flow
    from dynacl.dynamics.gated import Gated
    from dynacl.dynamics.identity import Identity
    from dynacl.dynamics.linear import Linear
    from dynacl.dynamics.mlp import ResidualMLP
    from dynacl.dynamics.naming import named, resolve
    from dynacl.dynamics.oracle import Oracle
    from dynacl.dynamics.polynomial import Polynomial
    from dynacl.dynamics.post_hoc import fit_post_hoc
    from dynacl.dynamics.recurrent import Recurrent
    from dynacl.dynamics.switching import SwitchingLinear
    from dynacl.dynamics.tiles import Tiles
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {cls: module for module, cls in BY_NAME.values()}
        | {
            "Custom": "custom",
            "Dynamics": "base",
            "Request": "base",
            "fit_post_hoc": "post_hoc",
            "follow": "ahead",
            "named": "naming",
            "reach": "ahead",
            "resolve": "naming",
            "rollout": "ahead",
        },
        gone={
            "Truth": "simulate.system(data.truth.system).oracle() is the oracle",
            "MANY_MODES": 'dynamics="tiles" asks for a bank of local expansions',
            "advance_in_training": "dynamics.reach is what training compares with x_next",
        },
    )

__all__ = [
    "AUTO",
    "BY_NAME",
    "Custom",
    "Dynamics",
    "Flow",
    "Gated",
    "Identity",
    "Linear",
    "Oracle",
    "Polynomial",
    "Recurrent",
    "Request",
    "ResidualMLP",
    "SwitchingLinear",
    "Tiles",
    "fit_post_hoc",
    "follow",
    "named",
    "reach",
    "resolve",
    "rollout",
]
