"""Systems with a known answer: functions of (settings, rng) -> TimeSeries with its truth."""

from dynacl.simulate.base import System, UnknownSystemError
from dynacl.simulate.flow import flow
from dynacl.simulate.identity import identity
from dynacl.simulate.lds import controlled, lds
from dynacl.simulate.lorenz import LORENZ_STARTS, lorenz
from dynacl.simulate.own import FUNCTIONS, own
from dynacl.simulate.slds import slds
from dynacl.simulate.sphere import sphere
from dynacl.simulate.systems import PRESETS, SYSTEMS, again, preset, system

__all__ = [
    "FUNCTIONS",
    "LORENZ_STARTS",
    "PRESETS",
    "SYSTEMS",
    "System",
    "UnknownSystemError",
    "again",
    "controlled",
    "flow",
    "identity",
    "lds",
    "lorenz",
    "own",
    "preset",
    "slds",
    "sphere",
    "system",
]
