"""Every table and figure of the paper: a small module of data each, and what runs them."""

from dynacl.experiments import table1
from dynacl.experiments.plan import Claim, Experiment, Row

EXPERIMENTS: dict[str, Experiment] = {e.name: e for e in (table1.EXPERIMENT,)}

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Row"]
