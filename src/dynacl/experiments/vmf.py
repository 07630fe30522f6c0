"""Rotations on the sphere with von Mises–Fisher noise, compared by dot product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynacl.experiments.plan import Claim, Experiment, Row

if TYPE_CHECKING:
    from dynacl.experiments.drawing import Figures
    from dynacl.experiments.render import View

MODELS: dict[str, dict[str, Any]] = {
    "linear": {"dynamics": "linear"},
    "truth": {"dynamics": "truth"},
    "identity": {"dynamics": "identity"},
    "asymmetric": {"dynamics": "identity", "asymmetric": True},
}
# The paper's 432 fits are 6 angles × 2 noise levels × 4 models × 9; the angles are not printed.
ANGLES, NOISES = (1.0, 2.0, 4.0, 10.0, 15.0, 20.0), (0.01, 0.1)
QUICK_4D = (1.0, 4.0, 10.0, 15.0, 20.0)


def rows(scale: str, d: int = 3) -> list[Row]:
    angles, noises = ((4.0,), (0.1,)) if scale == "smoke" else (ANGLES, NOISES)
    return [
        Row(
            name=f"angle={angle:g},noise={noise:g}/{model}",
            data={
                "system": "sphere",
                "d": d,
                "angle": angle,
                "noise": noise,
                "trials": 1000,
                "steps": 1000,
            },
            model={"n_components": d, "similarity": "dot", **arguments},
            cells=("r2",),
            family="lds",
            place={"panel": f"σ = {noise:g}", "x": angle, "curve": model},
        )
        for noise in noises
        for angle in angles
        for model, arguments in MODELS.items()
    ]


def four(scale: str) -> list[Row]:
    few = [r for r in rows(scale, 4) if scale != "quick" or r.data["angle"] in QUICK_4D]
    return [r for r in few if r.place["curve"] in ("linear", "identity")]


def figures(view: View) -> Figures:
    from dynacl.experiments import drawing

    return {view.experiment.name: drawing.curves(view, ("r2",), "angle [°]")}


EXPERIMENT = Experiment(
    name="vmf",
    title="Dynamics on the sphere",
    source="fig:supp-vmf",
    rows=rows,
    note="The paper does not print its six angles; ours are 1, 2, 4, 10, 15 and 20°.",
    claims=tuple(
        Claim(f"{angle}°, σ {noise}: {text}", (f"angle={angle},noise={noise}/{more}", "r2"),
              (f"angle={angle},noise={noise}/{less}", "r2"), sign)
        # To 4° with σ 0.01 and 10° with σ 0.1, noise hides the rotation from the baseline.
        for angle, noise, rotates in ((4, 0.01, 0), (20, 0.01, 1), (10, 0.1, 0), (20, 0.1, 1))
        for text, more, less, sign in (
            ("DCL minus baseline", "linear", "identity", rotates),
            ("oracle minus DCL", "truth", "linear", 0),
            ("asymmetric minus baseline", "asymmetric", "identity", rotates),
        )
    ),
    figures=figures,
)  # fmt: skip

# A rotation in three dimensions leaves an axis alone, and the baseline keeps that; in four, none.
FOUR = Experiment(
    name="vmf4d",
    title="Dynamics on the sphere in four dimensions",
    source="after fig:supp-vmf; not in the paper",
    rows=four,
    note="As vmf, with four latents, DCL and baseline alone.",
    reduced={"quick": "without 2°"},
    claims=tuple(
        Claim(f"{angle}°, σ {noise}: DCL minus baseline",
              (f"angle={angle},noise={noise}/linear", "r2"),
              (f"angle={angle},noise={noise}/identity", "r2"), sign)
        for angle, noise, sign in ((1, 0.01, 0), (4, 0.01, 0), (20, 0.01, 1), (4, 0.1, 0),
                                   (10, 0.1, 0), (15, 0.1, 1), (20, 0.1, 1))
    ),
    figures=figures,
)  # fmt: skip
