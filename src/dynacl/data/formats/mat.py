""".mat: files of MATLAB, up to version 7 by SciPy, from 7.3 on (which is HDF5) by h5py.

Fields of structs are named by paths, such as "session/rates". A vector is a vector, whichever way
it lies. A cell of matrices is a series of trials: they come one below the other, with ".bounds".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import OTHER, TEXT, Entry, Format, check_honest
from dynacl.data.formats.hdf5 import array_of, arrays_in, bytes_of

HDF5 = b"\x89HDF\r\n\x1a\n"
NESTED = ("struct", "cell", "object", "opaque", "function")  # MATLAB's classes that hold others
SIGNED_BY = 512  # bytes before the signature of HDF5 in MATLAB's files


@final
class Mat(Format):
    apart = True
    libraries = ("scipy.io", "h5py")
    extra = "files"

    def entries(self, path: Path) -> list[Entry]:
        if _is_hdf5(path):
            return [_entry(name, array) for name, array in _of_hdf5(path, None).items()]
        from scipy.io import whosmat

        plain = [(name, shape, kind) for name, shape, kind in whosmat(path) if kind not in NESTED]
        found = [Entry(name, _squeezed(shape), _kind(kind)) for name, shape, kind in plain]
        nested = [name for name, _, kind in whosmat(path) if kind in NESTED]
        inside = _of_scipy(path, nested) if nested else {}
        return found + [_entry(name, array) for name, array in inside.items()]

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Array]:
        if _is_hdf5(path):
            found = _of_hdf5(path, names)
        else:
            found = _of_scipy(path, sorted({_variable(name) for name in names}))
        return {name: found[name] for name in names}


def _variable(name: str) -> str:
    return name.split("/")[0].removesuffix(".bounds")


def _is_hdf5(path: Path) -> bool:
    with open(path, "rb") as file:
        start = file.read(SIGNED_BY + len(HDF5))
    return start.startswith(HDF5) or start[SIGNED_BY:] == HDF5


def _kind(matlab: str) -> str:
    named = {"char": TEXT, "logical": "b", "single": "f", "double": "f"}
    return named.get(matlab, matlab[0])


def _squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    """Without the dimension of length 1 that every vector of MATLAB has."""
    if len(shape) == 2 and 1 in shape:
        return (max(shape),)
    return tuple(shape)


def _entry(name: str, array: Array) -> Entry:
    return Entry(name, array.shape, array.dtype.kind)


def _of_scipy(path: Path, variables: Sequence[str]) -> dict[str, Array]:
    from scipy.io import loadmat

    content = loadmat(path, variable_names=list(variables), simplify_cells=True)
    found: dict[str, Array] = {}
    for name in variables:
        _collect(name, content[name], found)
    return found


def _of_hdf5(path: Path, names: Sequence[str] | None) -> dict[str, Array]:
    """These arrays, or all, in MATLAB's order of dimensions."""
    import h5py

    found: dict[str, Array] = {}
    with h5py.File(path) as file:
        for name, array in arrays_in(file):
            if name.startswith("#"):  # what references point to
                continue
            if names is not None and not {name, f"{name}.bounds"} & set(names):
                continue
            check_honest(path, bytes_of(array))
            value: Any = _value(array)
            if array.attrs.get("MATLAB_class") == b"cell":
                value = [_value(file[to]) for to in np.ravel(array[()])]
            _collect(name, value, found)
    return found


def _value(array: Any) -> Any:
    """What is in an array of HDF5: text, or numbers in MATLAB's order."""
    if array.attrs.get("MATLAB_class") == b"char":
        return "".join(map(chr, np.ravel(array[()])))
    return array_of(array).T


def _collect(name: str, value: Any, found: dict[str, Array]) -> None:
    """Arrays in what MATLAB calls a struct, a cell or a matrix, by path."""
    if isinstance(value, dict):
        for field, inside in value.items():
            _collect(f"{name}/{field}", inside, found)
        return
    cell = value if isinstance(value, list) else None
    if isinstance(value, np.ndarray) and value.dtype.kind == OTHER:
        cell = value.ravel().tolist()
    if cell is None:
        array = np.asarray(value)
        found[name] = array.reshape(_squeezed(array.shape))
        return
    if cell and all(isinstance(x, str) for x in cell):
        found[name] = np.array(cell)
        return
    trials = [
        np.atleast_2d(x) for x in cell if isinstance(x, np.ndarray) and x.dtype.kind in "fiub"
    ]
    if not trials or len(trials) < len(cell):
        return  # nothing that a series could be made of
    if len({x.shape[1] for x in trials}) > 1:
        if len({x.shape[0] for x in trials}) > 1:
            raise InputError(f"{name}: the matrices of this cell differ in width")
        trials = [x.T for x in trials]  # features × time, as MATLAB's users often have it
    found[name] = np.concatenate(trials)
    found[f"{name}.bounds"] = np.cumsum([0, *map(len, trials)])
