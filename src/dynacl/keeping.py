"""A fitted model in a folder: what was asked for, what it learned, and what was measured of it.

Weights are safetensors and the rest is JSON (`persistence`); no code is kept, and none is run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from dynacl import assembly, persistence
from dynacl.choosing.dynamics import settled
from dynacl.choosing.rule import Selection
from dynacl.configuration import refusing
from dynacl.data import Array, InputError, Units
from dynacl.prediction import HeldOut
from dynacl.request import Request
from dynacl.run import Run
from dynacl.settings import Settings, tuples
from dynacl.settling import Settled


class Kept(BaseEstimator):
    """What `DCL` inherits: save and load, and what is learned by the names that users know."""

    run_: Run
    choice_: Selection | None
    settled_: Settled
    held_out_: HeldOut | None
    scores_: dict[str, float]
    system_: dict[str, Any] | None
    data_: int | None
    n_features_in_: int
    feature_names_in_: Array
    n_controls_in_: int
    interval_: float | None
    control_names_in_: tuple[str, ...] | None

    def save(self, path: str | os.PathLike[str], *, checkpoint: bool = False) -> None:
        """Write model.safetensors and config.json into this folder, in place of another model.

        checkpoint: write all that it takes to go on with the training, too.
        """
        check_is_fitted(self, "encoder_")
        run, given = self.run_, self.get_params(deep=False)
        about = {
            "parameters": persistence.plain_parameters(given),
            "custom": [k for k, v in given.items() if isinstance(v, nn.Module)],
            "settings": asdict(run.settings),
            "reasons": run.reasons,
            "n_features": self.n_features_in_,
            "names": vars(self).get("feature_names_in_", np.array([])).tolist(),
            "n_controls": self.n_controls_in_,
            "control_names": self.control_names_in_,
            "interval": self.interval_,
            "units": _listed(run.units),
            "control_units": _listed(run.control_units),
            "data": self.data_,
            "system": self.system_,
            "n_iter": run.step,
            "history": run.history,
            "verdict": run.verdict,
            "choice": None if self.choice_ is None else self.choice_.plain(),
            "horizons": run.horizons,
            "scores": self.scores_,
            "held_out": None if self.held_out_ is None else self.held_out_.plain(),
            "correlations": None if run.correlations is None else run.correlations.tolist(),
        }
        persistence.save_model(run, about | self.settled_.as_dict(), path, checkpoint)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str = "auto",
        encoder: nn.Module | None = None,
        dynamics: nn.Module | None = None,
        similarity: nn.Module | None = None,
        checkpoint: bool = False,
    ) -> Self:
        """Read a saved model; no code from the file runs.

        A model with custom parts takes them again here: files hold weights, not code.
        checkpoint: read the run that was saved with it, which `resume` takes to its end.
        """
        read = persistence.read_checkpoint if checkpoint else persistence.read_model
        config, weights = read(path)
        given = {"encoder": encoder, "dynamics": dynamics, "similarity": similarity}
        with refusing(Path(path)):
            model = cls._of(config, weights, given, device, Path(path))
        if checkpoint:
            persistence.load_checkpoint(model.run_, Path(path) / persistence.CHECKPOINT)
        return model._remember()

    @classmethod
    def _of(
        cls,
        config: Mapping[str, Any],
        weights: Mapping[str, Tensor],
        given: Mapping[str, nn.Module | None],
        device: str,
        path: Path,
    ) -> Self:
        model, settings = cls(**tuples(config["parameters"])), Settings.read(config["settings"])
        for name in config.get("custom", ()):
            if given.get(name) is None:
                raise InputError(f"{name}: this model was fitted with a custom one; load it with "
                                 f"DCL.load(path, {name}=module)")  # fmt: skip
        model.set_params(device=device, **{k: v for k, v in given.items() if v is not None})
        model.system_ = config["system"]
        model.n_features_in_, model.n_controls_in_ = config["n_features"], config["n_controls"]
        if names := config.get("names"):
            model.feature_names_in_ = np.array(names, dtype=object)
        model.control_names_in_ = tuple(map(str, config.get("control_names") or ())) or None
        model.data_, model.interval_ = config.get("data"), config.get("interval")
        choice = config.get("choice")
        model.choice_ = None if choice is None else Selection.read(choice)
        run = model.run_ = assembly.rebuild(
            model._request(),
            settings,
            model.n_features_in_,
            model.n_controls_in_,
            model.system_,
            weights,
        )
        run.id = config.get("run", run.id)
        run.step, run.history = config["n_iter"], config["history"]
        run.reasons, run.verdict = config["reasons"], config["verdict"]
        for name in ("units", "control_units"):
            kept = config.get(name)
            setattr(run, name, kept and Units(*map(np.array, kept)))
        run.correlations = _array(config["correlations"])
        persistence.load_parts(run, weights)
        persistence.load_beside(run, weights, model.n_controls_in_)
        run.horizons = tuple(config.get("horizons", (1,)))
        model.scores_ = config.get("scores", {})
        judged = config.get("held_out")
        model.held_out_ = None if judged is None else HeldOut.read(judged)
        model.settled_ = Settled.read(config)
        return model

    def _request(self) -> Request:
        """What was asked for, with what was chosen where that was left to the data."""
        return Request.of(settled(self.get_params(deep=False), self.choice_))

    def _remember(self) -> Self:
        run = self.run_
        run.rest()
        self.encoder_ = run.encoder.given
        self.dynamics_ = run.dynamics.given
        self.similarity_ = run.geometry.given
        self.settings_, self.reasons_ = run.settings, run.reasons
        self.history_, self.n_iter_ = run.history, run.step
        why = [] if self.choice_ is None else [self.choice_.reason]
        self.verdict_, self.readout_ = "; ".join(filter(None, [*why, run.verdict])), run.readout
        self.canonical_correlations_ = run.correlations
        return self


def _listed(units: Units | None) -> list[list[float]] | None:
    return units and [part.tolist() for part in units]


def _array(numbers: Any) -> Any:
    return None if numbers is None else np.array(numbers)
