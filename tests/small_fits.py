"""Small fits and made-up results, for tests of what surrounds a fit."""

from dataclasses import replace

from dynacl.experiments.plan import Experiment, Row, plan


def tiny(dynamics=("identity", "linear", "truth"), seeds=(0,), max_iter=3):
    """An experiment of its own, in a few lines: how a new system is added."""
    experiment = Experiment(
        name="tiny",
        title="A small rotation",
        source="–",
        rows=lambda scale: [
            Row(f"lds/{kind}", {"system": "lds", "d": 2, "trials": 8, "steps": 30, "layers": 1,
                                "observed": 4},
                {"n_components": 2, "dynamics": kind}, ("r2",), family="lds",
                paper_training={"max_iter": max_iter, "batch_size": 16, "n_negatives": 64})
            for kind in dynamics
        ],
    )  # fmt: skip
    return experiment, plan(experiment, scale="paper", protocol="paper", datasets=[0], seeds=seeds)


def light(n=8, **changed):
    """Fits that only sleep; changed: {"fit2": {...}} changes the configuration of that one."""
    fit = tiny(("linear",))[1][0]
    return [
        replace(fit, seed=i, config=fit.config | {"seed": i} | changed.get(f"fit{i}", {}))
        for i in range(n)
    ]


def record(fit, numbers, **more):
    return {"config": fit.config, "state": "done", "metrics": numbers, "seconds": 2.0} | more
