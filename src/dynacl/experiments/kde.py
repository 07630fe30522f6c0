"""Density correction: pairs on the sphere whose marginal is less and less uniform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynacl.experiments.plan import Claim, Experiment, Row, grid_of

if TYPE_CHECKING:
    from dynacl.experiments.drawing import Figures
    from dynacl.experiments.render import View

MODELS: dict[str, dict[str, Any]] = {"corrected": {"density_correction": "vmf"}, "plain": {}}
# κ of the marginal and κ_p of the pairs; the paper prints neither range.
GRID: dict[str, dict[str, tuple[Any, ...]]] = {
    "smoke": {"kappa": (4.0,), "pair": (64.0,)},
    "quick": {"kappa": (0.0, 4.0, 16.0, 32.0), "pair": (16.0, 64.0)},
    "paper": {"kappa": (0.0, 1.0, 4.0, 8.0, 16.0, 32.0), "pair": (4.0, 16.0, 64.0, 256.0)},
}


def rows(scale: str) -> list[Row]:
    return [
        Row(
            name=f"kappa={kappa:g},pair={pair:g}/{model}",
            data={"system": "sphere", "angle": 0.0, "concentration": kappa, "noise": pair**-0.5,
                  "trials": 500_000, "steps": 2},
            model={"n_components": 3, "dynamics": "identity", "similarity": "dot", **arguments},
            cells=("r2",),
            family="lds",
            place={"panel": f"κₚ = {pair:g}", "x": kappa, "curve": model},
        )
        for pair in grid_of(scale, GRID)["pair"]
        for kappa in grid_of(scale, GRID)["kappa"]
        for model, arguments in MODELS.items()
    ]  # fmt: skip


def figures(view: View) -> Figures:
    from dynacl.experiments import drawing

    return {"kde": drawing.curves(view, ("r2",), "κ of the marginal")}


EXPERIMENT = Experiment(
    name="kde",
    title="Density correction of a marginal that is not uniform",
    source="fig:kde",
    rows=rows,
    note="A reference is vMF(e1, κ), its positive vMF(reference, κ_p); negatives come from all. "
    "The paper does not print its κ and κ_p; these are ours.",
    reduced={"quick": "four κ, two κ_p"},
    claims=tuple(
        Claim(f"κ {kappa}, κ_p {pair}: corrected minus plain",
              (f"kappa={kappa},pair={pair}/corrected", "r2"),
              (f"kappa={kappa},pair={pair}/plain", "r2"), sign)
        for pair in (16, 64)
        for kappa, sign in ((0, 0), (4, 1), (16, 1), (32, 1))
    ),
    figures=figures,
)  # fmt: skip
