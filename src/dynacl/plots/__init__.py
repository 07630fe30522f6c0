"""Pictures of data and models, by matplotlib: each function draws on an `Axes` and returns it.

Without `ax=` it makes a figure of its own, as wide as a column of a paper; `.figure.savefig(…)`
keeps it. None touches pyplot. Colours can be told apart with any kind of colour vision.
"""

from dynacl.plots.eigenvalues import eigenvalues, time_constants
from dynacl.plots.embedding import embedding
from dynacl.plots.flow import flow_field
from dynacl.plots.forecasts import forecast, held_out
from dynacl.plots.gallery import gallery
from dynacl.plots.latents import recovered
from dynacl.plots.matrices import canonical_correlations, consistency
from dynacl.plots.modes import mode_durations, mode_raster, transitions
from dynacl.plots.observations import observations
from dynacl.plots.selection import selection
from dynacl.plots.training import held_out_curve, training

__all__ = [
    "canonical_correlations",
    "consistency",
    "eigenvalues",
    "embedding",
    "flow_field",
    "forecast",
    "gallery",
    "held_out",
    "held_out_curve",
    "mode_durations",
    "mode_raster",
    "observations",
    "recovered",
    "selection",
    "time_constants",
    "training",
    "transitions",
]
