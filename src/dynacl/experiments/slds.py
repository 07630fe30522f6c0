"""Switching systems: faster rotations and more noise, against the baseline and the oracle."""

from __future__ import annotations

from typing import Any

from dynacl.experiments import pictures
from dynacl.experiments.plan import Claim, Experiment, Row

# The reference of all experiments on switching systems; settings that equal it are not repeated
# in a configuration, so that its fits are found by every experiment.
REFERENCE = {"trials": 1000, "steps": 1000, "d": 6, "modes": 5, "angle": 10.0, "noise": 1e-4,
             "switch_probability": 1e-4, "layers": 4}  # fmt: skip
MODELS = ("identity", "switching", "truth")
GRID: dict[str, dict[str, tuple[Any, ...]]] = {
    "smoke": {"angle": (10.0,), "noise": (1e-4,)},
    "quick": {"angle": (5.0, 10.0, 20.0), "noise": (1e-4, 1e-2)},
    "paper": {"angle": (5.0, 10.0, 20.0), "noise": (1e-4, 1e-3, 1e-2)},
}


def row(
    name: str,
    dynamics: str,
    cells: tuple[str, ...],
    place: dict[str, Any] | None = None,
    **changed: Any,
) -> Row:
    """A model on the reference system with some settings changed."""
    setting = REFERENCE | changed
    size = {k: setting[k] for k in ("trials", "steps")}
    differs = {k: v for k, v in changed.items() if v != REFERENCE[k] and k not in size}
    return Row(
        name=f"{name}/{dynamics}",
        data={"system": "slds", **size, **differs},
        model={"n_components": setting["d"], "dynamics": dynamics, "n_modes": setting["modes"]},
        cells=cells,
        post_hoc="switching" if dynamics == "identity" else None,
        place=(place or {}) | {"curve": dynamics},
    )


def rows(scale: str) -> list[Row]:
    return [
        row(f"angle={angle:g},noise={noise:g}", dynamics, ("r2", "mode_accuracy"),
            {"panel": f"σ = {noise:g}", "x": angle}, angle=angle, noise=noise)
        for noise in GRID[scale]["noise"]
        for angle in GRID[scale]["angle"]
        for dynamics in MODELS
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="slds",
    title="Switching dynamics: angles and noise",
    source="fig:slds, fig:slds-example-modes",
    rows=rows,
    note="quick: noise 1e-4 and 1e-2, one data set, one seed. The paper counts 162 fits here; the "
    "full grid of angles, noise levels and models with nine repeats is 243.",
    claims=tuple(
        Claim(f"{angle:g}°, σ 1e-4: {text}", (f"angle={angle:g},noise=0.0001/{more}", metric),
              (f"angle={angle:g},noise=0.0001/{less}", metric), sign)
        for angle in (5.0, 10.0, 20.0)
        for text, more, less, metric, sign in (
            ("DCL minus baseline", "switching", "identity", "r2", 1),
            ("DCL minus baseline, mode accuracy", "switching", "identity", "mode_accuracy", 1),
            ("oracle minus DCL", "truth", "switching", "r2", 0),
        )
    ),
    figures=pictures.slds,
)  # fmt: skip
