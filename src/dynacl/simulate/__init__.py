"""Systems with a known answer: functions of (settings, rng) -> TimeSeries with its truth."""

from dynacl.simulate.systems import (
    LORENZ_STARTS,
    PRESETS,
    again,
    controlled,
    identity,
    lds,
    lorenz,
    preset,
    slds,
    sphere,
)

__all__ = [
    "LORENZ_STARTS",
    "PRESETS",
    "again",
    "controlled",
    "identity",
    "lds",
    "lorenz",
    "preset",
    "slds",
    "sphere",
]
