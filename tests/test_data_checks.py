"""Bad arrays, case by case: one clear sentence that names the argument and what came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from dynacl import InputError, TimeSeries
from dynacl.data import InputTypeError, checks

X = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
U = np.random.default_rng(1).standard_normal((40, 2)).astype(np.float32)
HOLE = np.where(np.arange(200).reshape(40, 5) == 17, np.nan, X)
OBJECTS = np.array([[{}]], dtype=object)
of = TimeSeries.of

Case = tuple[Callable[[], Any], str]
REFUSED: dict[str, Case] = {
    "NaN": (lambda: of(HOLE), "X: holds NaN or infinity at 1 of 40 steps, in feature 2 (first at "),
    "infinity": (lambda: of(X / 0.0), "X: holds NaN or infinity (first at step 0, feature 0"),
    "beyond float32": (lambda: of(X.astype(float) * 1e300), "numbers that fit float32"),
    "masked": (lambda: of(np.ma.masked_less(X, 0)), "X: has masked values"),
    "1-D": (lambda: of(X[:, 0]), "X: got shape (40,); wanted (time, features). Reshape"),
    "3-D": (lambda: of(X[None]), "X: got shape (1, 40, 5); wanted (time, features). pass trials"),
    "a number": (lambda: of(3.0), "X: got shape (); wanted (time, features)"),
    "nothing": (lambda: of(None), "X: got shape ()"),
    "empty": (lambda: of(X[:0]), "X: got 0 sample(s) (shape=(0, 5))"),
    "empty list": (lambda: of([]), "X: got shape (0,)"),
    "empty trial": (lambda: of([X, X[:0]]), "X[1]: got 0 sample(s)"),
    "no features": (lambda: of(X[:, :0]), "X: got 0 feature(s) (shape=(40, 0))"),
    "ragged rows": (lambda: of([[1, 2], [3]]), "X: rows of unequal length; wanted"),
    "ragged trial": (lambda: of([[[1, 2], [3]]]), "X[0]: rows of unequal length; wanted"),
    "unequal features": (lambda: of([X, X[:, :4]]), "X[1]: has 4 features, X[0] has 5; wanted"),
    "flat trial": (lambda: of([X, X[:, 0]]), "X[1]: got shape (40,); wanted (time, features)"),
    "strings": (lambda: of([["a", "b"]]), "X: got dtype <U1; wanted real numbers"),
    "complex": (lambda: of(X * 1j), "X: got complex64; wanted real numbers"),
    "objects": (lambda: of(OBJECTS), "X: got an object array; wanted real numbers"),
    "dates": (lambda: of(np.array([["2024-01-01"]], "M8[D]")), "X: got dtype datetime64[D]"),
    "sparse": (lambda: of(scipy.sparse.eye(3)), "X: got a sparse array; wanted a dense"),
    "trial_length 0": (lambda: of(X, trial_length=0), "trial_length: got 0; wanted"),
    "trial_length 2.5": (lambda: of(X, trial_length=2.5), "got 2.5; wanted a whole number"),
    "trials cut": (lambda: of([X, X], trial_length=5), "got 5, but X already has 2 trials"),
    "series cut": (lambda: of(of([X, X]), trial_length=5), "but X already has 2 trials"),
    "u short": (lambda: of(X, u=U[:9]), "u: has 9 samples, X has 40"),
    "u NaN": (lambda: of(X, u=U * np.nan), "u: holds NaN or infinity"),
    "u trials": (lambda: of([X, X], u=[U[:9], U]), "u: its trials differ in number or length"),
    "bounds": (lambda: of({"observations": X, "bounds": [0, 50]}), "must rise from 0 to 40"),
    "bounds cut": (
        lambda: of({"observations": X, "bounds": [0, 40]}, trial_length=5),
        "trial_length: got 5, but X has trials already",
    ),
    "bounds fall": (
        lambda: of({"observations": X, "bounds": np.array([0, 30, 20, 40], np.uint64)}),
        "bounds must rise",
    ),
    "bounds words": (lambda: of({"observations": X, "bounds": ["a", "b"]}), "bounds must rise"),
    "few latents": (lambda: of({"observations": X, "latents": X[1:]}), "latents has 39 rows"),
    "few modes": (
        lambda: of({"observations": X, "latents": X, "modes": [0, 1]}),
        "modes has 2 rows, observations 40",
    ),
    "modes half": (
        lambda: of({"observations": X, "latents": X, "modes": X[:, 0]}),
        "modes must be a vector of whole numbers, got float32",
    ),
    "mode": (lambda: of({"observations": X, "latents": X, "modes": 3}), "got int64 of shape ()"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", REFUSED)
def test_input_is_refused_in_one_sentence(name: str) -> None:
    call, fragment = REFUSED[name]
    with pytest.raises(InputError) as caught:
        call()
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("given", [OBJECTS, scipy.sparse.eye(3)], ids=["objects", "sparse"])
def test_input_that_cannot_be_numbers_is_a_type_error_too(given: Any) -> None:
    with pytest.raises(InputTypeError) as caught:
        of(given)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("block", [1, 5, 7, 11, 1000])
def test_the_first_hole_is_found_whatever_the_size_of_a_look(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_BLOCK", block)
    holes = X.copy()
    holes[[3, 30], [2, 1]] = np.nan, np.inf
    with pytest.raises(InputError, match="first at step 3, feature 2: nan"):
        of(holes)
    with pytest.raises(InputError, match="first at step 26, feature 1: inf"):
        of(holes[4:])
