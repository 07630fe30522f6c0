"""Linear systems with a control input, used or not used by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynacl.experiments.plan import Claim, Experiment, Row

if TYPE_CHECKING:
    from dynacl.experiments.drawing import Figures
    from dynacl.experiments.render import View

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


def figures(view: View) -> Figures:
    """One row per data set: u, true latents, DCL with u, baseline; steps with u = 0 shaded."""
    from dynacl.experiments import drawing
    from dynacl.plots import style

    ours, base = ({f.dataset: f for f in view.done(f"step/{m}")} for m in ("linear+u", "identity"))
    both = sorted(set(ours) & set(base))[:3]
    if not both:
        return {}
    figure = drawing.sheet(12, 2.6 * len(both))
    axes = figure.subplots(len(both), 4, squeeze=False)
    for i, dataset in enumerate(both):
        kept = view.store.arrays(ours[dataset].name)
        rows = slice(0, int(kept["bounds"][1]))
        u = kept["control"][rows]
        other = view.store.arrays(base[dataset].name)
        shown = {
            "control u": u,
            "true latents": kept["true"][rows],
            "DCL with u": kept["recovered"][rows],
            "baseline": other["recovered"][rows],
        }
        still = np.flatnonzero((u == 0).all(1))
        for axis, (title, values) in zip(axes[i], shown.items(), strict=True):
            axis.plot(values, linewidth=0.8)
            if len(still):
                axis.axvspan(still[0], still[-1], color=style.MUTED, alpha=0.3, linewidth=0)
            axis.set_title(title if i == 0 else "", fontsize=9)
            axis.set_xlabel("time step" if i == len(both) - 1 else "")
        axes[i, 0].set_ylabel(f"data set {dataset}")
    return {"control": figure}


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
    figures=figures,
)
