"""Mixing that is not injective, made so again by time lags; linear dynamics against none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynacl.data import spread_lags
from dynacl.experiments.plan import Claim, Experiment, Row, grid_of

if TYPE_CHECKING:
    from dynacl.experiments.drawing import Figures
    from dynacl.experiments.render import View

WINDOW = 100  # steps that equidistant lags span
GRID: dict[str, dict[str, Any]] = {  # the ranks of each mixing, and numbers of lags
    "smoke": {"rank": {"linear": (2,)}, "consecutive": (3,), "equidistant": (3,)},
    "quick": {"rank": {"linear": (1, 2, 3), "mlp": (3,)}, "consecutive": (1, 6),
              "equidistant": (6, 20)},
    "paper": {"rank": {"linear": (1, 2, 3), "mlp": (1, 2, 3)},
              "consecutive": (1, 2, 3, 6, 20, 100), "equidistant": (1, 2, 3, 6, 20, 100)},
}  # fmt: skip
MIXINGS = {"linear": "linear mixing", "mlp": "non-linear mixing"}


def lags(spacing: str, k: int, window: int) -> list[int]:
    """k time lags: 0 … k − 1, or spread over the window."""
    if spacing == "consecutive":
        return list(range(k))
    return list(spread_lags(k, window))


def rows(scale: str) -> list[Row]:
    grid, window = grid_of(scale, GRID), 20 if scale == "smoke" else WINDOW
    return [
        Row(
            name=f"{mixing},rank={rank},{spacing}={k}/{dynamics}",
            data={"system": "lds", "d": 6, "rank": rank, "mixing": mixing,
                  "trials": 1000, "steps": 1000},
            model={"n_components": 6, "dynamics": dynamics, "time_lags": lags(spacing, k, window)},
            cells=("r2",),
            family="lds",
            place={"panel": f"{MIXINGS[mixing]}, {spacing}", "x": k,
                   "curve": f"{dynamics}, rank {rank}"},
        )
        for mixing, ranks in grid["rank"].items()
        for spacing in ("consecutive", "equidistant")
        for rank in ranks
        for k in grid[spacing]
        for dynamics in ("identity", "linear")
    ]  # fmt: skip


def figures(view: View) -> Figures:
    from dynacl.experiments import drawing

    drawn = drawing.curves(view, ("r2",), "time steps given to the encoder", log=True)
    return {"noninjective": drawn}


EXPERIMENT = Experiment(
    name="noninjective",
    title="Non-injective mixing and time lags",
    source="fig:non_injective",
    rows=rows,
    note="An LDS of 6 latents with the noise and angles of table1. Equidistant: k lags spread over "
    "a window of 100 steps.",
    reduced={"quick": "1 and 6 consecutive, 6 and 20 equidistant lags, non-linear mixing of rank 3 "
                      "alone, 100,000 samples"},
    claims=tuple(
        Claim(f"rank {rank}, {MIXINGS[mixing]}: {text}", (f"{mixing},rank={rank},{more}", "r2"),
              (f"{mixing},rank={rank},{less}", "r2"), 1)
        for mixing, rank in (("linear", 1), ("linear", 2), ("linear", 3), ("mlp", 3))
        for text, more, less in (
            ("100 steps minus 1, DCL", "consecutive=100/linear", "consecutive=1/linear"),
            ("6 steps minus 1, DCL", "consecutive=6/linear", "consecutive=1/linear"),
            ("6 equidistant minus 6 consecutive, DCL",
             "equidistant=6/linear", "consecutive=6/linear"),
            ("DCL minus baseline, 20 equidistant",
             "equidistant=20/linear", "equidistant=20/identity"),
        )
    ),
    figures=figures,
    quick_samples=100_000,
)  # fmt: skip
