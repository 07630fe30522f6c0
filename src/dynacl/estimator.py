"""DCL: the scikit-learn face of the method. It checks, delegates and remembers; no mathematics.

`__init__` only stores its arguments. Names of learned attributes end in an underscore.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from dynacl import assembly, beside, inference, parameters, prediction, scoring
from dynacl.choosing.dynamics import choose
from dynacl.data import Array, InputError, TimeSeries
from dynacl.data.frames import names_of
from dynacl.duration import announce
from dynacl.facts import Facts
from dynacl.forecasting import Forecasting
from dynacl.judging import far_ahead, judge_for
from dynacl.keeping import Kept
from dynacl.parameters import DECODERS
from dynacl.segmentation import Segmentation, segmentation
from dynacl.settling import settle
from dynacl.shapes import Shaped, check_control_names, warn_of_y
from dynacl.signs import signs
from dynacl.training import Callback, TrainingError, train
from dynacl.values import POSITIVE

LOOKED_BACK = 10_000  # rows of the training data that are scored when it is over


class DCL(  # type: ignore[call-arg] # `Shaped` does what scikit-learn's wrapper would do
    Kept, Facts, Forecasting, Shaped, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    __doc__ = f"""Dynamics contrastive learning: an encoder and the dynamics of what it recovers.

    Parameters
    ----------
    {parameters.docstring()}

    Attributes
    ----------
    encoder_, dynamics_, similarity_ : nn.Module
    settings_ : Settings, as they were used.
    reasons_ : dict, why a setting is not that of the protocol, by its name.
    history_ : list of dict, the loss and its parts over the training; from the judge's first look
        on also `held_out`, the mean logarithm of what is missed of held-out observations.
    held_out_ : HeldOut or None, what the model misses of the observations that `fit` held out, by
        number of steps ahead, beside its linear start, an autoregression and persistence.
    scores_ : dict, `score` of the training data and of the data that `fit` held out.
    verdict_ : str, what the judge handed out, and what it misses; empty where nothing was held out.
        With dynamics="auto", first what was chosen, and why.
    choice_ : Selection or None, the candidates of dynamics="auto" and what they miss.
    readout_ : nn.Module, the map from latents to observations, fitted when training is over.
    canonical_correlations_ : array or None, correlations between a window and the next one, largest
        first. If system and mixing are linear, as many of them are not near 0 as the state has
        dimensions; in general their number is an upper bound.
    transitions_ : array (K, K) or None, the probability that one hidden mode follows another.
    mode_usage_ : array (K,) or None, the share of steps in each hidden mode.
    unused_modes_ : list or None, modes with less than a tenth of an even share of the steps.
    alike_modes_ : list or None, pairs of modes that may be one regime, split in two.
    stability_ : Stability or None, what `stable` changed and what that costs.
    spectral_radius_ : array (K,) or None, |λ| of the largest eigenvalue of each mode.
    spectrum_ : Spectrum or None, eigenvalues, time constants and frequencies of each mode.
    n_features_in_, n_iter_ : int
    feature_names_in_ : array of str, the names of the columns of X, if it had any.
    control_names_in_ : tuple of str or None, the names of the columns of u, if it had any.

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
        stable: bool | str = False,
        degree: int = 2,
        lipschitz: float | None = None,
        encoder: nn.Module | None = None,
        time_lags: Sequence[int] = (0,),
        control_lags: Sequence[int] | None = None,
        sampling_interval: float | None = None,
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
        validation: str | float | Sequence[int] = "auto",
        settings: Mapping[str, Any] | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.dynamics = dynamics
        self.n_modes = n_modes
        self.bias = bias
        self.stable = stable
        self.degree = degree
        self.lipschitz = lipschitz
        self.encoder = encoder
        self.time_lags = time_lags
        self.control_lags = control_lags
        self.sampling_interval = sampling_interval
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
        self.validation = validation
        self.settings = settings
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, u: Any = None, callback: Callback | None = None) -> DCL:
        """Learn encoder and dynamics from X: a (T, D) array, a list of arrays, or a TimeSeries."""
        warn_of_y(y, u)
        series = self._series(X, u, reset=True)
        try:
            seed = int(check_random_state(self.random_state).randint(2**31))
        except ValueError as error:
            raise InputError(f"random_state: {error}") from error
        parameters.check(self.get_params(deep=False))
        self.choice_ = choose(self.get_params(deep=False), series, seed)
        self.run_ = assembly.begin(self._request(), series, seed)
        self.system_ = None
        if self.run_.dynamics.needs_system and series.truth is not None:
            self.system_ = {k: v.tolist() for k, v in series.truth.system.items() if "." not in k}
        self.data_: int | None = series.fingerprint()
        return self._train(series, callback, self.run_.settings.max_iter)

    def partial_fit(
        self, X: Any, y: Any = None, *, u: Any = None, callback: Callback | None = None
    ) -> DCL:
        """Train for another max_iter steps on these data; the scaling of the input stays."""
        warn_of_y(y, u)
        if not hasattr(self, "run_"):
            return self.fit(X, u=u, callback=callback)
        series = self._driven(X, u)
        self.data_ = series.fingerprint()
        run, request = self.run_, self._request()
        # The schedule is stretched to its new end; the optimisers keep what they remember.
        settings = assembly.settings_of(request, run.dynamics, run.geometry, series)[0]
        horizon = min(run.settings.horizon, settings.horizon)  # these trials may be shorter
        until = run.step + settings.max_iter
        run.settings = replace(run.settings, max_iter=until, horizon=horizon)
        run.begin_anew()
        return self._train(series, callback, run.settings.max_iter)

    def resume(
        self,
        X: Any,
        *,
        u: Any = None,
        callback: Callback | None = None,
        max_iter: int | None = None,
    ) -> DCL:
        """Take an interrupted fit to its end, exactly as if it had not been interrupted.

        max_iter: a later end, for a fit that was too short. A finished fit goes on, too.
        """
        check_is_fitted(self, "run_")
        series = self._driven(X, u)
        if not self.run_.whole and self.run_.step < (max_iter or self.run_.settings.max_iter):
            raise InputError("this model has weights alone: it was loaded, or its loss was not "
                             "finite; wanted persistence.load_checkpoint(model.run_, path) before "
                             "resume, or partial_fit")  # fmt: skip
        if self.data_ not in (None, series.fingerprint()):
            raise InputError("X: is not the data that this run was begun with; wanted the same, "
                             "with trials and control; partial_fit takes other data")  # fmt: skip
        if max_iter is not None:
            self.run_.lengthen(max_iter)
        return self._train(series, callback, self.run_.settings.max_iter)

    def settle(self, X: Any, *, u: Any = None) -> DCL:
        """Make a stopped run ready for use, as `fit` does at its end."""
        series = self._driven(X, u)
        return self._settle(series, *assembly.held_out(self.run_, series))

    # -- using what was learned ----------------------------------------------------------------

    def transform(self, X: Any, *, u: Any = None, pad: bool = False) -> Any:
        """Latents, one row per step: array in, array out; list of trials in, list out.

        With time lags, the first steps of a trial have no full window and are left out. pad=True
        keeps them, as if the trial had stood still before its start. u: the control input, needed
        if the encoder sees past inputs (`control_lags`).
        """
        check_is_fitted(self, "encoder_")
        series, past = self._seen(X, u), 0 if pad else self.settings_.past
        series.refuse_short(past)
        x = inference.latents(self.run_, series, pad=pad)
        return self._latents_like(X, series, x, past)

    def modes(self, X: Any, *, u: Any = None, decode: str = "sequence") -> Any:
        """The mode of each step, T_i − Δ per trial: that of step t is inferred from x_{t+Δ}, too.

        decode: "sequence" gives the likeliest mode of each step given its whole trial, with the
        transitions between modes estimated from all of X. "step" looks at each step alone, as the
        paper does.
        """
        check_is_fitted(self, "encoder_")
        if decode not in DECODERS:
            raise InputError(f"decode: got {decode!r}; wanted one of {', '.join(DECODERS)}")
        whole = self._driven(X, u)
        series, x, now = self._latents(whole)
        offset = self.settings_.time_offset
        inferred = inference.modes(self.run_.dynamics, series, now, x, offset, decode)
        trials = [inferred[a : max(a, b - offset)] for a, b in series.spans()]
        return self._modes_like(X, whole, trials, self.settings_.past, offset)

    def segment(
        self, X: Any, *, u: Any = None, min_duration: int = 1, stickiness: float = 1.0
    ) -> Segmentation:
        """When each trial is in which mode: a table of segments with durations and certainties.

        min_duration: the fewest steps that a segment may last; the result is the likeliest of all
        sequences of modes that keep to it. stickiness: a factor that divides the estimated odds of
        leaving a mode. With 1 and 1 the modes are those of `modes`.
        """
        check_is_fitted(self, "encoder_")
        if not POSITIVE.accepts(stickiness):
            raise InputError(f"stickiness: got {stickiness!r}; wanted {POSITIVE.wanted}")
        f, whole = self.run_.dynamics, self._driven(X, u)
        inference.check_modes(f)
        series, x, now = self._latents(whole)
        offset = self.settings_.time_offset
        found, t = inference.mode_probabilities(f, series, now, x, offset, stickiness)
        cuts = np.searchsorted(t, series.bounds)
        trials = [found[a:b] for a, b in pairwise(cuts)]
        times = None if whole.times is None else whole.split(whole.times)
        return segmentation(trials, min_duration, self.settings_.past, times)

    def predict(self, X: Any, *, u: Any = None) -> Any:
        """Latents one step ahead: row t is the prediction of x_{t+Δ}, from steps up to t only.

        A model with hidden modes keeps the mode of the step before. At the first step of a trial no
        mode is known, and it predicts the mean over its modes.
        """
        check_is_fitted(self, "encoder_")
        whole = self._driven(X, u)
        series, x, now = self._latents(whole)
        predicted = inference.predict(self.run_, series, now, x)
        return self._latents_like(X, whole, predicted, self.settings_.past)

    def prediction_score(
        self, X: Any, y: Any = None, *, u: Any = None, horizons: Sequence[int] | None = None
    ) -> float:
        """R² of predicted observations, averaged over several numbers of steps ahead.

        Predictions come from the past alone. horizons: the numbers of steps; None: those that `fit`
        chose for its data, from 1 to as far as observations are correlated. Higher is better.
        """
        check_is_fitted(self, "encoder_")
        ahead = self.run_.horizons if horizons is None else horizons
        found = prediction.held_out(self.run_, self._driven(X, u), ahead, beside=False)
        return float(found.r2().mean())

    def score(self, X: Any, y: Any = None, *, u: Any = None, horizon: int | None = None) -> float:
        """Bits per step by which a prediction tells the true state to come from others.

        The mean of log2 of (M + 1) p(x_{t+h} | prediction, M states spread over X), from the past
        alone; higher is better, 0 is chance. horizon: h, steps ahead; None: one, or with time lags
        the fewest after which windows share no frame. The width of the prediction error is
        estimated, on each half of X for the other half, and the model is taken to be wrong one time
        in a hundred, so that a missed switch costs 6.6 bits and not any number. At most
        log2(M + 1), with a warning near it. Of a long series, 4,096 steps are scored, evenly
        spread.
        """
        check_is_fitted(self, "encoder_")
        if horizon is not None:
            (horizon,) = prediction.checked(self.run_, (horizon,), "horizon")
        found = self._score(self._driven(X, u), horizon)
        if found.capped:
            warnings.warn(f"score: {found.bits:.2f} bits are near the cap of {found.cap:.2f}, where"
                          " it cannot tell models apart; compare by prediction_score, or at a "
                          "longer horizon", stacklevel=2)  # fmt: skip
        return found.bits

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # what goes out, whatever came in
        tags.non_deterministic = self.random_state is None
        return tags

    # -- inside --------------------------------------------------------------------------------

    def _series(self, X: Any, u: Any = None, reset: bool = False) -> TimeSeries:
        if reset:
            series = TimeSeries.of(X, u)
            self._remember_features(series)
            self.n_controls_in_, self.control_names_in_ = series.n_controls, series.control_names
            return series
        self._check_names(names_of(X))  # first: in other columns other things are wrong
        series = TimeSeries.of(X, u)
        self._check_features(series)
        check_control_names(self.control_names_in_, series.control_names)
        return series.within(self.run_.units, self.run_.control_units)

    def _seen(self, X: Any, u: Any = None) -> TimeSeries:
        """The series as the encoder sees it: with inputs, where these are a part of windows."""
        driven = self.settings_.past_inputs or u is not None
        return self._driven(X, u) if driven else self._series(X)

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

    def _train(self, series: TimeSeries, callback: Callback | None, until: int) -> DCL:
        series = series.within(self.run_.units, self.run_.control_units)
        self.scores_: dict[str, float] = {}
        seen, held = assembly.held_out(self.run_, series)
        judge = None if held is None else judge_for(self.run_, seen, held, series)
        if self.verbose:
            announce(self.run_, seen, until)
        try:
            train(
                self.run_, seen, until=until, callback=callback, judge=judge, verbose=self.verbose
            )
        except TrainingError:
            self._settle(series, seen, held)  # the weights that were good can be used
            raise
        if self.run_.interrupted:
            warnings.warn(
                f"training was interrupted at step {self.run_.step} of {until}", stacklevel=3
            )
        self._settle(series, seen, held)
        few = seen.head(LOOKED_BACK)
        self.scores_ = {"training": self._score(few).bits}
        if held is not None:
            self.scores_["held_out"] = self._score(held).bits
        if self.run_.step >= until:
            few, x, now = self._latents(few)
            for sign in signs(self.run_, few, now, x, self.scores_["training"]):
                warnings.warn(sign, stacklevel=3)
        return self

    def _settle(self, series: TimeSeries, seen: TimeSeries, held: TimeSeries | None) -> DCL:
        run = self.run_
        self.settled_ = settle(run, series, far_ahead(run, seen, held))
        beside.prepare(run, seen, held)
        self.held_out_ = None if held is None else prediction.held_out(run, held, run.horizons)
        return self._remember()

    def _score(self, series: TimeSeries, horizon: int | None = None) -> scoring.Score:
        cut, x, now = self._latents(series)
        return scoring.score(self.run_, cut, now, x, horizon)

    def _latents(self, series: TimeSeries) -> tuple[TimeSeries, Array, Array]:
        """The series cut to steps with a full window, their latents, and where f starts there."""
        cut = series.trimmed(self.run_.settings.past)  # first: it refuses short trials
        x = inference.latents(self.run_, series)
        return cut, x, inference.references(self.run_, series, x)
