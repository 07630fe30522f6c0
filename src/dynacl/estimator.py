"""DCL: the scikit-learn face of the method. It checks, delegates and remembers; no mathematics.

`__init__` only stores; what is learned ends in an underscore.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from dynacl import inference, persistence, recipe
from dynacl.banks import settle_modes
from dynacl.data import Array, InputError, TimeSeries, in_order
from dynacl.dynamics import Gated, Identity, SwitchingLinear
from dynacl.encoders import Asymmetric
from dynacl.objective import Dot, log_sum
from dynacl.settings import Settings, tuples
from dynacl.training import Callback, Run, train

FORECASTS = ("hold", "markov", "gated")
DECODERS = ("sequence", "step")
DIVERGED = 10.0  # times the largest distance from 0 in the data


class DCL(TransformerMixin, BaseEstimator):
    """Dynamics contrastive learning: an encoder and the dynamics of what it recovers.

    Parameters
    ----------
    n_components : int, default=3
        Dimensions d of the latent state.
    dynamics : {"identity", "linear", "switching", "polynomial", "mlp", "gated", "recurrent", \
"truth"} or nn.Module, default="linear"
        f. "truth" is the oracle, for data that carry their system. A module takes
        (x, x_next=None, u=None), each (n, d), and returns the prediction.
    n_modes : int, default=5
        K, matrices in the bank of switching and gated dynamics.
    bias : bool, default=False
        Give linear and switching dynamics an offset (one for each mode).
    degree : int, default=2
        Of polynomial dynamics.
    lipschitz : float or None, default=None
        Bound on the slope of the "mlp" dynamics' correction; below 1 the dynamics is invertible.
    encoder : nn.Module or None, default=None
        h, from (n, lags · D) to (n, d). None is the paper's MLP.
    time_lags : tuple of int, default=(0,)
        Steps back from now that the encoder sees together, such as (0, 1, 2).
    similarity : {"euclidean", "dot"} or nn.Module, default="euclidean"
        φ. "dot" puts the latents on the unit sphere and learns the temperature. A module takes
        (q, k), each (..., d), and returns (...).
    asymmetric : bool, default=False
        One encoder for references and another for positives and negatives; `transform` uses the
        latter.
    density_correction : {None, "euclidean", "vmf"}, default=None
        α, the log of a kernel density estimate in embedding space, with `bandwidth` ε (or 1/κ;
        None: as wide as the similarity's own kernel) and `n_support` points (None: the batch size).
    protocol : {"default", "paper-lds", "paper-slds", "paper-lorenz"}, default="default"
        How to train; the settings below replace those of the protocol where they are not None.
    batch_size, n_negatives, max_iter, learning_rate, dynamics_learning_rate, standardize
        See `dynacl.settings.Settings`. n_negatives="batch" uses the batch as negatives.
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
        degree: int = 2,
        lipschitz: float | None = None,
        encoder: nn.Module | None = None,
        time_lags: Sequence[int] = (0,),
        similarity: str | nn.Module = "euclidean",
        asymmetric: bool = False,
        density_correction: str | None = None,
        bandwidth: float | None = None,
        n_support: int | None = None,
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
        self.degree = degree
        self.lipschitz = lipschitz
        self.encoder = encoder
        self.time_lags = time_lags
        self.similarity = similarity
        self.asymmetric = asymmetric
        self.density_correction = density_correction
        self.bandwidth = bandwidth
        self.n_support = n_support
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
        _warn_of_y(y, u)
        series = self._series(X, u, reset=True)
        self.system_ = None
        if isinstance(self.dynamics, str) and self.dynamics == "truth":
            if series.truth is None or not series.truth.system:
                raise InputError('dynamics: "truth" needs data that carry their system')
            if "control" in series.truth.system and series.control is None:
                raise InputError('dynamics: "truth" of a driven system needs its control input u')
            d = series.truth.latents.shape[1]
            if self.n_components != d:
                raise InputError(
                    f"n_components: got {self.n_components!r}; the true system has {d}, and "
                    'dynamics="truth" has as many'
                )
            self.system_ = {k: v.tolist() for k, v in series.truth.system.items() if "." not in k}
        self.run_ = self._start(series)
        self.data_: int | None = series.fingerprint()
        self.transitions_: Array | None = None
        return self._train(series, callback, self.run_.settings.max_iter)

    def partial_fit(
        self, X: Any, y: Any = None, *, u: Any = None, callback: Callback | None = None
    ) -> DCL:
        """Go on for another max_iter steps, on this data; the input scaling stays as it was."""
        _warn_of_y(y, u)
        if not hasattr(self, "run_"):
            return self.fit(X, u=u, callback=callback)
        series = self._driven(X, u)
        self.data_ = series.fingerprint()
        run = self.run_
        # The schedule is stretched to its new end; the optimisers keep what they remember.
        settings = recipe.settings(self, series)
        horizon = min(run.settings.horizon, settings.horizon)  # these trials may be shorter
        until = run.step + settings.max_iter
        run.settings = replace(run.settings, max_iter=until, horizon=horizon)
        return self._train(series, callback, run.settings.max_iter)

    def resume(self, X: Any, *, u: Any = None, callback: Callback | None = None) -> DCL:
        """Take an interrupted fit to its end, exactly as if it had not been interrupted."""
        check_is_fitted(self, "run_")
        series = self._driven(X, u)
        if not self.run_.whole and self.run_.step < self.run_.settings.max_iter:
            raise InputError("this model was loaded, and files of models hold weights alone; "
                             "wanted persistence.load_checkpoint(model.run_, path) before resume, "
                             "or partial_fit")  # fmt: skip
        if self.data_ not in (None, series.fingerprint()):
            raise InputError("X: is not the data that this run was begun with; wanted the same, "
                             "with trials and control; partial_fit takes other data")  # fmt: skip
        return self._train(series, callback, self.run_.settings.max_iter)

    # -- using what was learned ----------------------------------------------------------------

    def transform(self, X: Any, *, pad: bool = False) -> Any:
        """Latents, one row a step: array in, array out; list of trials in, list out.

        With time lags, a trial's first steps have no full window and are left out; pad=True keeps
        them, as if the trial had stood still before its start.
        """
        check_is_fitted(self, "encoder_")
        series, x = self._latents(X, pad=pad)
        return _like(X, series, x)

    def modes(self, X: Any, *, u: Any = None, decode: str = "sequence") -> Any:
        """The mode of each step, T_i − Δ a trial: it takes x_{t+Δ} to tell the mode of step t.

        decode: "sequence" gives the likeliest mode of each step given its whole trial; how modes
        follow each other is estimated from all of X. "step" looks at each step alone, as the paper
        does.
        """
        check_is_fitted(self, "encoder_")
        if decode not in DECODERS:
            raise InputError(f"decode: got {decode!r}; wanted one of {', '.join(DECODERS)}")
        series, x = self._latents(self._driven(X, u))
        offset = self.settings_.time_offset
        now = self._references(X, u, x)
        inferred = inference.modes(self.dynamics_, series, now, x, offset, decode)
        parts = [inferred[a : max(a, b - offset)] for a, b in series.spans()]
        return parts[0] if _is_one(X) else _like(X, series, parts)

    def predict(self, X: Any, *, u: Any = None) -> Any:
        """Latents one step ahead: row t is the prediction of x_{t+Δ}, from steps up to t only.

        A switching model holds the mode of the step before; at a trial's first step, where none
        is known, it predicts the mean over its modes.
        """
        check_is_fitted(self, "encoder_")
        series, x = self._latents(self._driven(X, u))
        return _like(X, series, inference.predict(self.run_, series, self._references(X, u, x), x))

    def forecast(self, X: Any, steps: int, *, u: Any = None, modes: str | None = None) -> Any:
        """Roll out from the end of each trial: (steps, d).

        u: the control input, (steps, d_u), for models that have one: one row a forecast step. Row 0
        acts on the last observed step: it is the last row of the past u.
        modes: how a switching model goes on: "hold" the last inferred mode (the default), or
        "markov": the mean over modes that move by `transitions_`, which was learned in fit.
        A gated model reads its modes off the state: "gated", which is its default.
        """
        check_is_fitted(self, "encoder_")
        if not isinstance(steps, int | np.integer) or steps < 1:
            raise InputError(f"steps: got {steps!r}; wanted a whole number of at least 1")
        if isinstance(self.encoder_, Asymmetric):
            raise InputError("asymmetric: the encoder of references sees observations only; a "
                             "forecast needs dynamics from latents to latents")  # fmt: skip
        self._check_forecast(modes)
        series = self._series(X)
        undriven = series.n_controls != self.n_controls_in_
        if isinstance(self.dynamics_, SwitchingLinear) and self.n_controls_in_ and undriven:
            raise InputError("X: the mode to go on with is inferred under the control so far; "
                             "wanted TimeSeries.of(X, past_u) as X")  # fmt: skip
        series, x = self._latents(series)
        control = self._future(in_order(u, X), steps, series.n_trials)
        chain = self.transitions_ if modes == "markov" else None
        out = inference.rollout(self.run_, series, x, int(steps), control, chain)
        reach = np.linalg.norm(x, axis=1).max()
        with np.errstate(over="ignore", invalid="ignore"):
            far = np.linalg.norm(out.astype(float), axis=2).max(axis=1)
        if not (far <= DIVERGED * reach).all():
            warnings.warn(
                f"the roll-out of {int((~(far <= DIVERGED * reach)).sum())} of {len(far)} trials "
                f"leaves the data behind (more than {DIVERGED:g} times as far from 0); spectral "
                f"radius: {_listed(self.spectral_radius_)}",
                stacklevel=2,
            )
        return out[0] if _is_one(X) else _like(X, series, list(out))

    @property
    def spectral_radius_(self) -> Array | None:
        """|λ| of the largest eigenvalue of each mode; above 1 a long forecast grows."""
        check_is_fitted(self, "encoder_")
        return inference.spectral_radius(self.dynamics_)

    def score(self, X: Any, y: Any = None, *, u: Any = None) -> float:
        """Bits a step by which `predict` tells the true next state from others; higher is better.

        The mean of log2 of (M + 1) p(x_{t+1} | prediction, M states spread over X), with the model
        taken to be wrong one time in a hundred, so that a missed switch costs 6.6 bits and not any
        number. From the past only, deterministic, at most log2(M + 1). Of a long series, 16,384
        steps are judged, evenly spread.
        """
        check_is_fitted(self, "encoder_")
        series, x = self._latents(self._driven(X, u))
        t = series.steps(self.settings_.time_offset)
        t = t[np.linspace(0, len(t) - 1, min(len(t), 16_384)).astype(int)]
        now = self._references(X, u, x)
        predicted = torch.from_numpy(inference.predict(self.run_, series, now, x)[t]).double()
        following = torch.from_numpy(x[t + self.settings_.time_offset]).double()
        spread = np.linspace(0, len(x) - 1, min(len(x), 2048)).astype(int)
        others = torch.from_numpy(x[spread]).double()
        similarity = copy.deepcopy(self.run_.similarity).cpu().double()  # type: ignore[union-attr]
        with torch.inference_mode():
            positive = similarity(predicted, following)
            rest = log_sum(similarity, predicted, others)
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
        similarity: nn.Module | None = None,
    ) -> DCL:
        """Read a saved model; no code from the file runs.

        A model with custom parts takes them again here: files hold weights, not code.
        """
        config, weights = persistence.read_model(path)
        try:
            model = cls(**tuples(config["parameters"]))
            settings = Settings.read(config["settings"])
        except TypeError as error:
            raise InputError(f"{path}: its config.json is of another dynacl: {error}") from error
        given = {"encoder": encoder, "dynamics": dynamics, "similarity": similarity}
        for name in config.get("custom", ()):
            if given.get(name) is None:
                raise InputError(f"{name}: this model was fitted with a custom one; load it with "
                                 f"DCL.load(path, {name}=module)")  # fmt: skip
        model.device = device
        model.encoder = encoder
        model.dynamics = dynamics or model.dynamics
        model.similarity = similarity or model.similarity
        model.system_ = config["system"]
        generator = torch.Generator().manual_seed(0)
        n_inputs = config["n_features"] * len(settings.time_lags)
        scaling = recipe.saved_whitening(weights, len(settings.time_lags))
        parts = recipe.build(model, n_inputs, config["n_controls"], settings, generator, scaling)
        for name, part in zip(("encoder", "dynamics", "similarity"), parts, strict=True):
            persistence.load_weights(part, weights, name)
        model.run_ = Run(*parts[:2], settings, generator, parts[2])
        model.run_.whole = False
        model.run_.step = config["n_iter"]
        model.run_.history = config["history"]
        model.n_features_in_ = config["n_features"]
        model.n_controls_in_ = config["n_controls"]
        model.data_ = config.get("data")
        chain = config["transitions"]
        model.transitions_ = None if chain is None else np.array(chain, dtype=np.float32)
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

    def _start(self, series: TimeSeries) -> Run:
        settings = recipe.settings(self, series)
        try:
            seed = int(check_random_state(self.random_state).randint(2**31))
        except ValueError as error:
            raise InputError(f"random_state: {error}") from error
        generator = torch.Generator().manual_seed(seed)
        scaling = recipe.scaling(self, series, settings)
        n_inputs = series.n_features * len(settings.time_lags)
        parts = recipe.build(self, n_inputs, series.n_controls, settings, generator, scaling)
        recipe.try_parts(self, *parts, settings, series)
        return Run(*parts[:2], settings, generator, parts[2])

    def _train(self, series: TimeSeries, callback: Callback | None, until: int) -> DCL:
        train(self.run_, series, until=until, callback=callback, verbose=self.verbose)
        if self.run_.interrupted:
            warnings.warn(
                f"training was interrupted at step {self.run_.step} of {until}", stacklevel=3
            )
        return self._settle(series)

    def _settle(self, series: TimeSeries) -> DCL:
        """What is read off a run that stands still, at its end or before."""
        self._remember()
        settle_modes(self.run_, series, inference.where(self.run_))
        if isinstance(self.run_.similarity, Dot):
            few = series.head(20_000)
            x = self._references(few, None, self._latents(few)[1])  # where predictions start
            inference.unit_scale(self.run_, x)
        self.transitions_ = self._learn_transitions(series)
        return self

    def _learn_transitions(self, series: TimeSeries) -> Array | None:
        """How modes follow each other in the data, of which a part is enough."""
        if not isinstance(self.dynamics_, SwitchingLinear):
            return None
        some = series.head(max(20_000, 500_000 // self.dynamics_.n_modes))
        part, x = self._latents(some)
        offset = self.settings_.time_offset
        now = self._references(some, None, x)
        found = inference.modes(self.dynamics_, part, now, x, offset, "sequence")
        return inference.transition_matrix(found, part, self.dynamics_.n_modes, offset)

    def _remember(self) -> DCL:
        run = self.run_
        self.encoder_ = run.encoder.eval()
        self.dynamics_ = run.dynamics.eval()
        self.settings_ = run.settings
        self.history_ = run.history
        self.n_iter_ = run.step
        return self

    def _latents(self, X: Any, pad: bool = False) -> tuple[TimeSeries, Array]:
        """The series cut to the steps that have a full window, and their latents."""
        series, past = self._series(X), max(self.settings_.time_lags)
        if pad and past:
            series = series.padded(past)
        cut = series.trimmed(past)
        return cut, inference.latents(self.run_, series)

    def _references(self, X: Any, u: Any, x: Array) -> Array:
        """The latents from which the dynamics starts: x, but for an asymmetric pair."""
        if not isinstance(self.encoder_, Asymmetric):
            return x
        return inference.latents(self.run_, self._series(X, u), of_references=True)

    def _check_forecast(self, modes: str | None) -> None:
        if modes is None:
            return
        if modes not in FORECASTS:
            raise InputError(f"modes: got {modes!r}; wanted one of {', '.join(FORECASTS)}")
        switching = isinstance(self.dynamics_, SwitchingLinear)
        if (modes == "gated") != isinstance(self.dynamics_, Gated) or (
            modes != "gated" and not switching
        ):
            raise InputError(f'modes: {modes!r} does not fit {type(self.dynamics_).__name__}; '
                             '"hold" and "markov" are for dynamics="switching", "gated" for '
                             'dynamics="gated"')  # fmt: skip

    def _future(self, u: Any, steps: int, n_trials: int) -> Tensor | None:
        n = self.n_controls_in_
        if u is None:
            if n and not isinstance(self.dynamics_, Identity):  # nothing drives that
                raise InputError("u: missing; this model forecasts with its control input, from "
                                 "the last observed step on")  # fmt: skip
            return None
        if n == 0:
            raise InputError("u: given, but this model was fitted without a control input")
        future = TimeSeries.of(u, name="u")
        rows, parts = future.observations, future.n_trials
        wanted = f"wanted ({steps}, {n}), once or for each of the {n_trials} trials"
        if parts not in (1, n_trials):
            raise InputError(f"u: got {parts} trials; {wanted}")
        for i, length in enumerate(future.lengths.tolist()):
            if parts > 1 and length != steps:
                raise InputError(f"u[{i}]: got shape {(length, rows.shape[1])}; {wanted}")
        if rows.shape not in ((steps, n), (n_trials * steps, n)):
            raise InputError(f"u: got shape {rows.shape}; {wanted}")
        control = rows.reshape(-1, steps, n)
        return torch.from_numpy(np.broadcast_to(control, (n_trials, *control.shape[1:])).copy())


def _warn_of_y(y: Any, u: Any) -> None:
    """scikit-learn's y comes second, where one may think of u."""
    trials = list(y.values()) if isinstance(y, Mapping) else y
    first = trials[0] if isinstance(trials, list | tuple) and len(trials) else trials
    if u is None and len(getattr(first, "shape", ())) == 2:
        warnings.warn("y is not used; a control input is passed as u=…", stacklevel=3)


def _listed(radius: Array | None) -> str:
    return "not known" if radius is None else ", ".join(f"{r:.4f}" for r in radius)


def _is_one(X: Any) -> bool:
    """Whether X is one array, for which one array goes out."""
    if isinstance(X, TimeSeries | Mapping | str | os.PathLike):
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
