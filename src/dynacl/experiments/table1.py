"""Table 1: which dynamics model identifies which system."""

from __future__ import annotations

from dynacl.experiments.plan import Claim, Experiment, Row

WALK = {"trials": 1000, "steps": 1000}
LONG = {"trials": 1, "steps": 1_000_000}
LINEAR_CELLS = ("r2", "lds_error", "lds_error_post_hoc")
CELLS = ("r2", "dyn_r2_1")
LORENZ_MODES = 200  # the paper says 100–200 for a million samples

# system: settings, latent dimensions, the paper's protocol, models
SYSTEMS = {
    "identity": (WALK, 3, "lds", ("identity", "linear")),
    "lds-low-dt": (WALK, 3, "lds", ("identity",)),
    "lds": (WALK, 3, "lds", ("identity", "linear", "truth")),
    "slds": (WALK, 6, "slds", ("identity", "switching", "truth")),
    "lorenz-small-dt": (LONG, 3, "lorenz", ("identity", "linear", "switching")),
    "lorenz": (LONG, 3, "lorenz", ("identity", "linear", "switching")),
}


def row(system: str, dynamics: str, cells: tuple[str, ...] | None = None) -> Row:
    settings, d, family, _ = SYSTEMS[system]
    model: dict[str, object] = {"n_components": d, "dynamics": dynamics}
    if family != "lds":
        # The baseline needs the number too: its dynamics, fitted afterwards, switch.
        model["n_modes"] = LORENZ_MODES if family == "lorenz" else 5
    return Row(
        name=f"{system}/{dynamics}",
        data={"system": system, **settings},
        model=model,
        cells=cells or (LINEAR_CELLS if family == "lds" else CELLS),
        family=family,
        post_hoc="switching" if dynamics == "identity" and family != "lds" else None,
        datasets=5 if family == "lorenz" else 3,
    )


def rows(scale: str) -> list[Row]:
    return [row(system, model) for system, (*_, models) in SYSTEMS.items() for model in models]


EXPERIMENT = Experiment(
    name="table1",
    title="Identifiability of latents and dynamics",
    source="tab:theory",
    rows=rows,
    note="quick: every row, one data set, one seed, 200,000 samples. The LDS error of an identity "
    "model is ‖A − I‖, as in the paper; that of a linear model fitted afterwards stands beside it. "
    "Our protocol trains the 200 modes of ∇-SLDS on Lorenz by a recipe of their own: ∇-SLDS minus "
    "baseline or LDS then compares recipes, not dynamics alone (docs/reproduction.md).",
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
