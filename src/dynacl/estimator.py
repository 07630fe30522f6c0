"""DCL: the scikit-learn face of the method. It checks, delegates and remembers; no mathematics.

`__init__` only stores; what is learned ends in an underscore.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from dynacl import persistence
from dynacl.data import Array, InputError, TimeSeries
from dynacl.dynamics import Identity, Linear, SwitchingLinear, Truth
from dynacl.encoders import MLP, whitening
from dynacl.objective import reference
from dynacl.training import PROTOCOLS, Callback, Run, Settings, default_steps, train

DYNAMICS = ("identity", "linear", "switching", "truth")
ROWS = 1 << 15  # rows that are embedded at a time: bounds the memory of transform


class DCL(TransformerMixin, BaseEstimator):
    """Dynamics contrastive learning: an encoder and the dynamics of what it recovers.

    Parameters
    ----------
    n_components : int, default=3
        Dimensions d of the latent state.
    dynamics : {"identity", "linear", "switching", "truth"} or nn.Module, default="linear"
        f. "truth" is the oracle, for data that carry their system. A module takes
        (x, x_next=None, u=None), each (n, d), and returns the prediction.
    n_modes : int, default=5
        K, matrices in the bank of switching dynamics.
    bias : bool, default=False
        Give linear and switching dynamics an offset (one for each mode).
    encoder : nn.Module or None, default=None
        h, from (n, D) to (n, d). None is the paper's MLP.
    protocol : {"default", "paper-lds", "paper-slds", "paper-lorenz"}, default="default"
        How to train; the settings below replace those of the protocol where they are not None.
    batch_size, n_negatives, max_iter, learning_rate, dynamics_learning_rate, standardize
        See `dynacl.training.Settings`. n_negatives="batch" uses the batch as negatives.
    time_offset : int, default=1
        Steps Δ from a reference to its positive.
    random_state : int, RandomState or None, default=None
    device : str, default="auto"
        "auto" takes CUDA, then MPS, then the CPU.
    verbose : bool, default=False

    Attributes
    ----------
    encoder_, dynamics_ : nn.Module
    settings_ : Settings, as they were used.
    history_ : list of dict, the loss and its parts over the steps.
    n_features_in_, n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dynacl import DCL, simulate
    >>> data = simulate.lds(rng=np.random.default_rng(0), trials=10, steps=100)
    >>> model = DCL(n_components=3, max_iter=10, random_state=0).fit(data)
    >>> model.transform(data.observations).shape
    (1000, 3)
    """

    def __init__(
        self,
        n_components: int = 3,
        dynamics: str | nn.Module = "linear",
        n_modes: int = 5,
        *,
        bias: bool = False,
        encoder: nn.Module | None = None,
        protocol: str = "default",
        batch_size: int | None = None,
        n_negatives: int | str | None = None,
        max_iter: int | None = None,
        learning_rate: float | None = None,
        dynamics_learning_rate: float | None = None,
        time_offset: int = 1,
        standardize: bool | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.dynamics = dynamics
        self.n_modes = n_modes
        self.bias = bias
        self.encoder = encoder
        self.protocol = protocol
        self.batch_size = batch_size
        self.n_negatives = n_negatives
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.dynamics_learning_rate = dynamics_learning_rate
        self.time_offset = time_offset
        self.standardize = standardize
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, u: Any = None, callback: Callback | None = None) -> DCL:
        """Learn encoder and dynamics from X: a (T, D) array, a list of them, or a TimeSeries."""
        series = self._series(X, u, reset=True)
        self.system_ = None
        if isinstance(self.dynamics, str) and self.dynamics == "truth":
            if series.truth is None or not series.truth.system:
                raise InputError('dynamics: "truth" needs data that carry their system')
            d = series.truth.latents.shape[1]
            if self.n_components != d:
                raise InputError(
                    f"n_components: got {self.n_components!r}; the true system has {d}"
                )
            self.system_ = {k: v.tolist() for k, v in series.truth.system.items() if "." not in k}
        self.run_ = self._start(series)
        return self._train(series, callback, self.run_.settings.max_iter)

    def partial_fit(
        self, X: Any, y: Any = None, *, u: Any = None, callback: Callback | None = None
    ) -> DCL:
        """Go on for another max_iter steps, on this data; the input scaling stays as it was."""
        if not hasattr(self, "run_"):
            return self.fit(X, u=u, callback=callback)
        series = self._driven(X, u)
        run = self.run_
        # The schedule is stretched to its new end; the optimisers keep what they remember.
        settings = self._settings(series)
        run.settings = replace(run.settings, max_iter=run.step + settings.max_iter)
        return self._train(series, callback, run.settings.max_iter)

    def resume(self, X: Any, *, u: Any = None, callback: Callback | None = None) -> DCL:
        """Take an interrupted fit to its end, exactly as if it had not been interrupted."""
        check_is_fitted(self, "run_")
        return self._train(self._driven(X, u), callback, self.run_.settings.max_iter)

    # -- using what was learned ----------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Latents, one row a step: array in, array out; list of trials in, list out."""
        check_is_fitted(self, "encoder_")
        series = self._series(X)
        return _like(X, series, self._embed(series))

    def modes(self, X: Any, *, u: Any = None) -> Any:
        """The mode of each step, T_i − Δ a trial: it takes x_{t+Δ} to tell the mode of step t."""
        check_is_fitted(self, "encoder_")
        series = self._driven(X, u)
        x = self._embed(series)
        inferred = self._modes(series, x)
        offset = self.settings_.time_offset
        parts = [inferred[a : max(a, b - offset)] for a, b in series.spans()]
        return parts[0] if _is_one(X) else _like(X, series, parts)

    def predict(self, X: Any, *, u: Any = None) -> Any:
        """Latents one step ahead: row t is the prediction of x_{t+1}, from steps up to t only.

        A switching model holds the mode of the step before; at a trial's first step, where none
        is known, it predicts the mean over its modes.
        """
        check_is_fitted(self, "encoder_")
        series = self._driven(X, u)
        return _like(X, series, self._predict(series, self._embed(series)))

    def forecast(self, X: Any, steps: int, *, u: Any = None) -> Any:
        """Roll out from the end of each trial: (steps, d). The last inferred mode is held.

        u: the control input during the forecast, (steps, d_u), for models that have one.
        """
        check_is_fitted(self, "encoder_")
        if not isinstance(steps, int | np.integer) or steps < 1:
            raise InputError(f"steps: got {steps!r}; wanted a whole number of at least 1")
        series = self._series(X)
        if isinstance(self.dynamics_, SwitchingLinear):
            series = self._driven(series)  # the mode to hold is inferred under the control so far
        x = self._embed(series)
        last = torch.from_numpy(np.ascontiguousarray(x[series.bounds[1:] - 1]))
        held = self._held_modes(series, x)
        mode = None if held is None else torch.from_numpy(held[series.bounds[1:] - 1])
        control = self._future(u, steps, series.n_trials)
        out = np.empty((series.n_trials, steps, x.shape[1]), dtype=np.float32)
        with torch.inference_mode():
            for j in range(steps):
                last = self._advance(last, mode, None if control is None else control[:, j])
                out[:, j] = last.numpy()
        return out[0] if _is_one(X) else _like(X, series, list(out))

    def score(self, X: Any, y: Any = None, *, u: Any = None) -> float:
        """Bits a step by which `predict` tells the true next state from others; higher is better.

        The mean of log2 of (M + 1) p(x_{t+1} | prediction, M states spread over X), with the model
        taken to be wrong one time in a hundred, so that a missed switch costs 6.6 bits and not any
        number. From the past only, deterministic, at most log2(M + 1). Of a long series, 16,384
        steps are judged, evenly spread.
        """
        check_is_fitted(self, "encoder_")
        series = self._driven(X, u)
        t = series.steps(self.settings_.time_offset)
        t = t[np.linspace(0, len(t) - 1, min(len(t), 16_384)).astype(int)]
        x = self._embed(series)
        predicted = torch.from_numpy(self._predict(series, x)[t]).double()
        following = torch.from_numpy(x[t + self.settings_.time_offset]).double()
        spread = np.linspace(0, len(x) - 1, min(len(x), 2048)).astype(int)
        others = torch.from_numpy(x[spread]).double()
        scale = 1 / self.settings_.temperature
        positive = -scale * (predicted - following).square().sum(1)
        with torch.inference_mode():
            rest = reference.row_lse(predicted, others, scale=scale)
            p = torch.exp(positive - torch.logaddexp(positive, rest))
        M = len(others)
        return float(torch.log2((M + 1) * 0.99 * p + 0.01).mean())

    # -- keeping -------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write model.safetensors and config.json into this folder."""
        check_is_fitted(self, "encoder_")
        persistence.save_model(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str = "auto",
        encoder: nn.Module | None = None,
        dynamics: nn.Module | None = None,
    ) -> DCL:
        """Read a saved model; no code from the file runs.

        A model with custom parts takes them again here: files hold weights, not code.
        """
        config, weights = persistence.read_model(path)
        try:
            model, settings = cls(**config["parameters"]), Settings(**config["settings"])
        except TypeError as error:
            raise InputError(f"{path}: its config.json is of another dynacl: {error}") from error
        model.device = device
        model.encoder = encoder
        if dynamics is not None:
            model.dynamics = dynamics
        model.system_ = config["system"]
        generator = torch.Generator().manual_seed(0)
        shift, whiten = weights.get("encoder.shift"), weights.get("encoder.whiten")
        whitened = None if shift is None or whiten is None else (shift, whiten)
        parts = model._build(
            config["n_features"], config["n_controls"], settings, generator, whitened
        )
        for name, part in zip(("encoder", "dynamics"), parts, strict=True):
            persistence.load_weights(part, weights, name)
        model.run_ = Run(parts[0], parts[1], settings, generator)
        model.run_.step = config["n_iter"]
        model.run_.history = config["history"]
        model.n_features_in_ = config["n_features"]
        model.n_controls_in_ = config["n_controls"]
        return model._remember()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # what goes out, whatever came in
        tags.non_deterministic = self.random_state is None
        return tags

    # -- inside --------------------------------------------------------------------------------

    def _series(self, X: Any, u: Any = None, reset: bool = False) -> TimeSeries:
        series = TimeSeries.of(X, u)
        if reset:
            self.n_features_in_ = series.n_features
            self.n_controls_in_ = series.n_controls
        elif series.n_features != self.n_features_in_:
            raise InputError(
                f"X has {series.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return series

    def _driven(self, X: Any, u: Any = None) -> TimeSeries:
        """The series, with the control input that the dynamics was fitted with."""
        series, n = self._series(X, u), self.n_controls_in_
        if u is not None and n == 0:
            raise InputError("u: given, but this model was fitted without a control input")
        if n and series.n_controls != n:
            came = f"has {series.n_controls} columns" if series.n_controls else "missing"
            raise InputError(
                f"u: {came}; this model was fitted with a control input of {n}: pass u, or "
                "TimeSeries.of(X, u) as X"
            )
        return series

    def _settings(self, series: TimeSeries) -> Settings:
        """The protocol, with what the user set in its place, cut to the size of the data."""
        self._check_parameters()
        chosen = {
            name: getattr(self, name)
            for name in ("batch_size", "max_iter", "learning_rate", "dynamics_learning_rate",
                         "standardize")
            if getattr(self, name) is not None
        }  # fmt: skip
        settings = replace(PROTOCOLS[self.protocol], time_offset=int(self.time_offset), **chosen)
        if self.n_negatives is not None:
            n = None if self.n_negatives == "batch" else int(self.n_negatives)
            settings = replace(settings, n_negatives=n)
        if self.protocol == "default":
            # Several steps only where the model says what they are, and trials have the room.
            stepping = isinstance(self.dynamics, str) and self.dynamics != "identity"
            room = max(1, (int(series.lengths.min()) - 1) // settings.time_offset)
            settings = replace(settings, horizon=min(settings.horizon, room) if stepping else 1)
        pairs = len(series.steps(settings.time_offset * settings.horizon))
        if self.batch_size is None and self.protocol == "default":
            settings = replace(settings, batch_size=max(2, min(settings.batch_size, pairs)))
        if self.max_iter is None and self.protocol == "default":
            settings = replace(settings, max_iter=default_steps(int(self.n_components), pairs))
        if settings.n_negatives is None and settings.batch_size == 1:
            raise InputError("batch_size: got 1; with the batch as negatives it needs at least 2")
        return settings

    def _check_parameters(self) -> None:
        for name in ("n_components", "n_modes", "batch_size", "max_iter", "time_offset"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise InputError(f"{name}: got {value!r}; wanted a whole number of at least 1")
        for name in ("learning_rate", "dynamics_learning_rate"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 < value < np.inf):
                raise InputError(f"{name}: got {value!r}; wanted a positive number")
        n = self.n_negatives
        if n is not None and n != "batch" and (not isinstance(n, int | np.integer) or n < 1):
            raise InputError(f'n_negatives: got {n!r}; wanted a whole number or "batch"')
        if self.protocol not in list(PROTOCOLS):
            raise InputError(
                f"protocol: got {self.protocol!r}; wanted one of {', '.join(PROTOCOLS)}"
            )
        if not isinstance(self.dynamics, nn.Module) and self.dynamics not in DYNAMICS:
            raise InputError(
                f"dynamics: got {self.dynamics!r}; wanted one of {', '.join(DYNAMICS)} or an "
                "nn.Module"
            )
        if self.encoder is not None and not isinstance(self.encoder, nn.Module):
            raise InputError(f"encoder: got {type(self.encoder).__name__}; wanted an nn.Module")

    def _build(
        self,
        n_features: int,
        n_controls: int,
        settings: Settings,
        generator: torch.Generator,
        whitened: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[nn.Module, nn.Module]:
        d = int(self.n_components)
        dynamics: nn.Module
        if isinstance(self.dynamics, nn.Module):
            dynamics = copy.deepcopy(self.dynamics)  # fit leaves what it was given as it was
        elif self.dynamics == "identity":
            dynamics = Identity()
        elif self.dynamics == "truth":
            assert self.system_ is not None
            dynamics = Truth({k: np.asarray(v) for k, v in self.system_.items()})
        elif self.dynamics == "linear":
            dynamics = Linear(d, self.bias, n_controls)
        else:
            dynamics = SwitchingLinear(
                d,
                int(self.n_modes),
                self.bias,
                n_controls,
                logits=settings.switching_logits,
                spread=settings.switching_spread,
                generator=generator,
            )
        encoder = copy.deepcopy(self.encoder) or MLP(
            n_features, d, whitening=whitened, gain=settings.input_gain, generator=generator
        )
        device = _device(self.device)
        return encoder.to(device), dynamics.to(device)

    def _start(self, series: TimeSeries) -> Run:
        settings = self._settings(series)
        try:
            seed = int(check_random_state(self.random_state).randint(2**31))
        except ValueError as error:
            raise InputError(f"random_state: {error}") from error
        generator = torch.Generator().manual_seed(seed)
        whitened = None
        if settings.standardize and self.encoder is None:
            whitened = whitening(series.observations)
        encoder, dynamics = self._build(
            series.n_features, series.n_controls, settings, generator, whitened
        )
        return Run(encoder, dynamics, settings, generator)

    def _train(self, series: TimeSeries, callback: Callback | None, until: int) -> DCL:
        train(self.run_, series, until=until, callback=callback, verbose=self.verbose)
        if self.run_.interrupted:
            warnings.warn(
                f"training was interrupted at step {self.run_.step} of {until}", stacklevel=3
            )
        return self._remember()

    def _remember(self) -> DCL:
        run = self.run_
        self.encoder_ = run.encoder.eval()
        self.dynamics_ = run.dynamics.eval()
        self.settings_ = run.settings
        self.history_ = run.history
        self.n_iter_ = run.step
        return self

    def _embed(self, series: TimeSeries) -> Array:
        """Latents of all steps, (T_total, d), a bounded number of rows at a time."""
        device = next(self.encoder_.parameters()).device
        parts = []
        with torch.inference_mode():
            for start in range(0, len(series), ROWS):
                rows = np.array(series.observations[start : start + ROWS])
                parts.append(self.encoder_(torch.from_numpy(rows).to(device)).cpu().numpy())
        x: Array = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if not np.isfinite(x).all():
            raise InputError("X: its embedding is not finite; was the model trained to an end?")
        return x

    def _modes(self, series: TimeSeries, x: Array) -> Array:
        """The mode of each step from the pair (t, t + Δ); −1 at a trial's end."""
        if not isinstance(self.dynamics_, SwitchingLinear):
            raise InputError(
                f"dynamics: {type(self.dynamics_).__name__} has no modes; wanted a switching model"
            )
        modes = np.full(len(x), -1, dtype=np.int64)
        offset = self.settings_.time_offset
        t = series.steps(offset, allow_short=True)
        for start in range(0, len(t), ROWS):
            rows = t[start : start + ROWS]
            u = None if series.control is None else self._tensor(series.control[rows])
            found = self.dynamics_.modes(self._tensor(x[rows]), self._tensor(x[rows + offset]), u)
            modes[rows] = found.cpu().numpy()
        return modes

    def _held_modes(self, series: TimeSeries, x: Array) -> Array | None:
        """The mode known at each step: that of the pair that ends there, −1 if none does."""
        if not isinstance(self.dynamics_, SwitchingLinear):
            return None
        held = np.full(len(x), -1, dtype=np.int64)
        t = series.steps(self.settings_.time_offset, allow_short=True)
        held[t + self.settings_.time_offset] = self._modes(series, x)[t]
        return held

    def _predict(self, series: TimeSeries, x: Array) -> Array:
        held = self._held_modes(series, x)
        out = np.empty_like(x)
        with torch.inference_mode():
            for start in range(0, len(x), ROWS):
                rows = slice(start, start + ROWS)
                u = None if series.control is None else torch.from_numpy(series.control[rows])
                mode = None if held is None else torch.from_numpy(held[rows])
                out[rows] = self._advance(torch.from_numpy(x[rows]), mode, u).numpy()
        return out

    def _advance(self, x: Tensor, mode: Tensor | None, u: Tensor | None) -> Tensor:
        device = self._device_
        u = None if u is None else u.to(device)
        if mode is not None:
            assert isinstance(self.dynamics_, SwitchingLinear)
            return self.dynamics_.advance(x.to(device), mode.to(device), u).cpu()
        following: Tensor = self.dynamics_(x.to(device), None, u)
        return following.cpu()

    def _future(self, u: Any, steps: int, n_trials: int) -> Tensor | None:
        if self.n_controls_in_ == 0:
            if u is not None:
                raise InputError("u: given, but this model was fitted without a control input")
            return None
        if u is None:
            raise InputError("u: missing; this model forecasts with the control input to come")
        rows, n = TimeSeries.of(u, name="u").observations, self.n_controls_in_
        if rows.shape not in ((steps, n), (n_trials * steps, n)):
            raise InputError(
                f"u: got shape {rows.shape}; wanted ({steps}, {n}), once or for each of the "
                f"{n_trials} trials"
            )
        control = rows.reshape(-1, steps, n)
        return torch.from_numpy(np.broadcast_to(control, (n_trials, *control.shape[1:])).copy())

    @property
    def _device_(self) -> torch.device:
        return next(self.encoder_.parameters()).device

    def _tensor(self, x: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x)).to(self._device_)


def _device(name: str) -> torch.device:
    if name != "auto":
        try:
            device = torch.device(name)
            torch.empty(0, device=device).cpu()
        except (RuntimeError, AssertionError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"device: {name!r} cannot be used here: {reason}") from error
        return device
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _is_one(X: Any) -> bool:
    """Whether X is one array, for which one array goes out."""
    if isinstance(X, TimeSeries | Mapping):
        return False
    return not (isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) >= 2)


def _like(X: Any, series: TimeSeries, values: Any) -> Any:
    """Give results the shape of the input: an array, a list or a dict of trials."""
    if _is_one(X):
        return values
    trials = series.split(values) if isinstance(values, np.ndarray) else values
    if isinstance(X, Mapping) and "observations" not in X:
        return dict(zip(X, trials, strict=True))
    return trials
