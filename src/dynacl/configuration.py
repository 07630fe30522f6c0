"""config.json of a saved model: what it may contain, and the checks of what it contains.

Parameters and settings are checked by the kinds that they declare. Sizes are checked by the weights
in the file, before anything of that size is built.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dynacl._version import __version__
from dynacl.data import InputError
from dynacl.parameters import PARAMETERS
from dynacl.settings import Settings, tuples
from dynacl.values import Whole

FORMAT = 4
READABLE = (3, FORMAT)  # 3: config.json beside the weights, no checksum, no run

# What a stranger's file can make code raise that trusts its input.
STRANGE = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,  # of PyTorch; a RecursionError too
    MemoryError,
)


def parse(text: str, path: Path) -> dict[str, Any]:
    """The configuration in this text, checked; an error names the path."""
    try:
        config = json.loads(text)
    # A ValueError: no JSON, or a number of more digits than Python reads.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not valid JSON: {str(error).splitlines()[0]}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path}: holds {_said(config)}; wanted the configuration of a model")
    check_format(path, config)
    with refusing(path):
        _check(config, path)
    return config


def check_format(
    path: Path, saved: Mapping[str, Any], readable: tuple[int, ...] = READABLE
) -> None:
    """That this version reads what that one wrote."""
    if saved.get("format") not in readable:
        raise InputError(
            f"{path}: was saved in format {_said(saved.get('format'))} by dynacl "
            f"{_said(saved.get('dynacl'))}; this is dynacl {__version__}, which reads format "
            f"{' and '.join(map(str, readable))}"
        )


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """What a bad file makes go wrong inside is an InputError with its path."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error
    except STRANGE as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{path}: cannot be what dynacl saved ({said})") from error


def _check(config: Mapping[str, Any], path: Path) -> None:
    for name, (good, wanted) in FIELDS.items():
        if name not in config:
            raise InputError(f"{path}: lacks {name}")
        if not good(config[name]):
            raise InputError(f"{path}: {name}: got {_said(config[name])}; wanted {wanted}")
    Settings.read(config["settings"], f"{path}: settings: ")
    given, custom = tuples(config["parameters"]), config.get("custom", [])
    for name, value in given.items():
        if name not in PARAMETERS:
            raise InputError(f"{path}: parameters: none is called {_said(name)}")
        kind = PARAMETERS[name].kind
        if name not in custom and name != "device" and not kind.accepts(value):
            raise InputError(f"{path}: {name}: got {_said(value)}; wanted {kind.wanted}")
    n, n_controls = config["n_features"], config["n_controls"]
    for name, columns in (("units", n), ("control_units", n_controls)):
        _numbers(config.get(name), (2, columns), path, name)
    _numbers(config.get("interval"), (), path, "interval")
    _numbers(config.get("correlations"), (None,), path, "correlations")
    K = len(config["transitions"] or ())
    _numbers(config["transitions"], (K, K), path, "transitions")
    _numbers(config.get("usage"), (K,), path, "usage")


def _numbers(value: Any, shape: tuple[int | None, ...], path: Path, name: str) -> None:
    """None, or lists of finite numbers of this shape."""
    if value is None:
        return
    found = np.array(value, dtype=np.float64)
    fits = found.ndim == len(shape) and all(
        b in (None, a) for a, b in zip(found.shape, shape, strict=True)
    )
    if not fits or not np.isfinite(found).all():
        raise InputError(f"{path}: {name}: got numbers of shape {found.shape}; wanted finite ones "
                         f"of shape {shape}")  # fmt: skip


def _said(value: Any) -> str:
    """Briefly: it may be anything, of any length."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else str(type(value))
    return text if len(text) < 80 else text[:76] + " …"


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _records(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(record, dict)
        and "step" in record
        and all(isinstance(x, int | float) for x in record.values())
        for record in value
    )


NONE = type(None)
# What every configuration has; what else it may have is checked where it is used.
FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "parameters": (_is(dict), "parameters by name"),
    "settings": (_is(dict), "settings by name"),
    "n_features": (Whole().accepts, Whole().wanted),
    "n_controls": (Whole(0).accepts, Whole(0).wanted),
    "n_iter": (Whole(0).accepts, Whole(0).wanted),
    "system": (_is(dict, NONE), "arrays by name, or null"),
    "history": (_records, "a list of records, each with its step"),
    "transitions": (_is(list, NONE), "a matrix, or null"),
    "reasons": (_is(dict), "sentences by setting"),
    "verdict": (_is(str), "a sentence"),
    "correlations": (_is(list, NONE), "a list of numbers, or null"),
}
