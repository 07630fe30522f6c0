"""Linear systems with a control input, used or not used by the model."""

from __future__ import annotations

from dynacl.experiments import pictures
from dynacl.experiments.plan import Claim, Experiment, Row

CONTROLS = ("none", "step", "lds")


def row(control: str, dynamics: str, driven: bool) -> Row:
    return Row(
        name=f"{control}/{dynamics}{'+u' if driven else ''}",
        data={"system": f"control-{control}", "trials": 1000, "steps": 1000},
        model={"n_components": 5, "dynamics": dynamics},
        cells=("r2", "dyn_r2_1"),
        family="lds",
        # The baseline's encoder never sees u; its dynamics, A x + B u, are fitted afterwards.
        post_hoc="linear" if dynamics == "identity" else None,
        control=driven,
        paper_training={"max_iter": 20_000},
    )


def rows(scale: str) -> list[Row]:
    models = (("identity", False), ("linear", False), ("linear", True))
    return [
        row(control, dynamics, driven)
        for control in CONTROLS
        for dynamics, driven in models
        if not (control == "none" and driven)
    ]


EXPERIMENT = Experiment(
    name="control",
    title="Systems with a control input",
    source="tab:control-signal, fig:control-signal",
    rows=rows,
    note="The paper's protocol trains for 20,000 steps here. It prints no numbers for the system "
    "without control.",
    claims=tuple(
        Claim(f"{control}: {text}", (f"{control}/linear+u", metric), (f"{control}/{less}", metric))
        for control in ("step", "lds")
        for text, less, metric in (
            ("DCL with u minus baseline", "identity", "r2"),
            ("DCL with u minus baseline, dynR²", "identity", "dyn_r2_1"),
            ("DCL with u minus without", "linear", "r2"),
        )
    ),
    figures=pictures.control,
)
