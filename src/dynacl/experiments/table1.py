"""Table 1: which dynamics model identifies which system."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dynacl.experiments import lorenz, slds
from dynacl.experiments.plan import Claim, Experiment, Row

LINEAR_CELLS = ("r2", "lds_error", "lds_error_post_hoc")
CELLS = ("r2", "dyn_r2_1")


def linear(system: str, dynamics: str, cells: tuple[str, ...]) -> Row:
    """A row of a linear system."""
    return Row(
        name=f"{system}/{dynamics}",
        data={"system": system, "trials": 1000, "steps": 1000},
        model={"n_components": 3, "dynamics": dynamics},
        cells=cells,
        family="lds",
    )


# system: what makes its rows of (system, model, cells), models, cells
SYSTEMS: dict[str, tuple[Callable[..., Row], tuple[str, ...], tuple[str, ...]]] = {
    "identity": (linear, ("identity", "linear"), LINEAR_CELLS),
    "lds-low-dt": (linear, ("identity",), LINEAR_CELLS),
    "lds": (linear, ("identity", "linear", "truth"), LINEAR_CELLS),
    "slds": (slds.row, slds.MODELS, CELLS),
    "lorenz-small-dt": (
        partial(lorenz.row, dt=0.0005, noise=0.1), ("identity", "linear", "switching"), CELLS
    ),
    "lorenz": (lorenz.row, ("identity", "linear", "switching"), CELLS),
}  # fmt: skip


def of_system(system: str, cells: tuple[str, ...] = ()) -> list[Row]:
    """The rows of a system, with other cells than this table's if there are any."""
    row, models, shown = SYSTEMS[system]
    return [row(system, model, cells or shown) for model in models]


def rows(scale: str) -> list[Row]:
    return [row for system in SYSTEMS for row in of_system(system)]


EXPERIMENT = Experiment(
    name="table1",
    title="Identifiability of latents and dynamics",
    source="tab:theory",
    rows=rows,
    note="The LDS error of an identity "
    "model is ‖A − I‖, as in the paper; that of a linear model fitted afterwards stands beside it. "
    "Our protocol trains the 200 modes of ∇-SLDS on Lorenz by a recipe of their own: ∇-SLDS minus "
    "baseline or LDS then compares recipes, not dynamics alone (docs/reproduction.md).",
    reduced={"quick": "every row, one data set, one seed, 200,000 samples"},
    claims=(
        Claim("LDS: DCL minus baseline", ("lds/linear", "r2"), ("lds/identity", "r2")),
        Claim("LDS: oracle minus DCL", ("lds/truth", "r2"), ("lds/linear", "r2")),
        Claim("LDS error: baseline minus DCL",
              ("lds/identity", "lds_error"), ("lds/linear", "lds_error")),
        Claim("SLDS: DCL minus baseline", ("slds/switching", "r2"), ("slds/identity", "r2")),
        Claim("SLDS: DCL minus baseline, dynR²",
              ("slds/switching", "dyn_r2_1"), ("slds/identity", "dyn_r2_1")),
        Claim("SLDS: oracle minus DCL", ("slds/truth", "r2"), ("slds/switching", "r2")),
        Claim("Lorenz: ∇-SLDS minus baseline",
              ("lorenz/switching", "r2"), ("lorenz/identity", "r2")),
        Claim("Lorenz: ∇-SLDS minus LDS", ("lorenz/switching", "r2"), ("lorenz/linear", "r2")),
        Claim("Lorenz, small Δt: baseline minus ∇-SLDS",
              ("lorenz-small-dt/identity", "r2"), ("lorenz-small-dt/switching", "r2")),
    ),
)  # fmt: skip
