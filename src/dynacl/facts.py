"""What a fitted model says about its dynamics: spectrum, use of modes, stability."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sklearn.utils.validation import check_is_fitted

from dynacl import inference, usage
from dynacl.data import Array
from dynacl.run import Run
from dynacl.settling import Settled
from dynacl.spectrum import Spectrum
from dynacl.stability import Stability


class Facts:
    """What `DCL` inherits: attributes that are read off a run that stands still."""

    run_: Run
    sampling_interval: float | None
    interval_: float | None  # seconds from one step of the fit's data to the next
    transitions_: Array | None
    mode_usage_: Array | None
    alike_modes_: list[tuple[int, int]] | None
    stability_: Stability | None

    @property
    def settled_(self) -> Settled:
        """What was read off the run when it came to rest, as it is saved."""
        return Settled(self.transitions_, self.mode_usage_, self.alike_modes_, self.stability_)

    @settled_.setter
    def settled_(self, found: Settled) -> None:
        self.transitions_, self.mode_usage_, self.alike_modes_, self.stability_ = found

    @property
    def spectral_radius_(self) -> Array | None:
        """|λ| of the largest eigenvalue of each mode; above 1 a long forecast grows."""
        check_is_fitted(self, "encoder_")
        return inference.spectral_radius(self.run_.dynamics)

    @property
    def spectrum_(self) -> Spectrum | None:
        """Eigenvalues, time constants and frequencies of each mode; None without linear maps."""
        check_is_fitted(self, "encoder_")
        return inference.spectrum(self.run_, self.sampling_interval_)

    @property
    def sampling_interval_(self) -> float | None:
        """Seconds from one sample to the next: as asked for, or as the times of the data say."""
        return self.interval_ if self.sampling_interval is None else self.sampling_interval

    @property
    def unused_modes_(self) -> list[int] | None:
        """Hidden modes with less than a tenth of an even share of the steps."""
        check_is_fitted(self, "encoder_")
        return None if self.mode_usage_ is None else usage.unused(self.mode_usage_)


def figures(model: Facts) -> dict[str, Any]:
    """What `metrics.json` holds of this."""
    spectrum, bounded = model.spectrum_, model.stability_
    return {
        "spectrum": None if spectrum is None else spectrum.as_dict(),
        "mode_usage": None if model.mode_usage_ is None else model.mode_usage_.tolist(),
        "unused_modes": model.unused_modes_,
        "alike_modes": model.alike_modes_,
        "stability": None if bounded is None else asdict(bounded),
    }


def sentences(model: Facts) -> list[str]:
    """What a user should know of this."""
    found = [] if model.stability_ is None else [str(model.stability_)]
    if model.mode_usage_ is not None:
        found += usage.sentences(model.mode_usage_, model.alike_modes_ or [])
    return found
