""".h5: arrays by their paths, such as "session/rates"."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.formats.format import OTHER, TEXT, Entry, Format, check_honest

CHUNK = 4096  # bytes that the library takes for a chunk while it reads, whatever is in it


@final
class Hdf5(Format):
    apart = True
    libraries = ("h5py",)
    extra = "files"

    def entries(self, path: Path) -> list[Entry]:
        import h5py

        with h5py.File(path) as file:
            return [Entry(name, array.shape, kind_of(array)) for name, array in arrays_in(file)]

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Array]:
        import h5py

        with h5py.File(path) as file:
            check_honest(path, sum(bytes_of(file[name]) for name in names))
            return {name: array_of(file[name]) for name in names}


def arrays_in(file: Any) -> list[tuple[str, Any]]:
    """All arrays of an open file by path; links out of the file are not followed."""
    import h5py

    found: list[tuple[str, Any]] = []

    def look(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            found.append((name, item))

    file.visititems(look)
    return found


def kind_of(array: Any) -> str:
    """The kind of an array in a file, without reading it."""
    import h5py

    if h5py.check_string_dtype(array.dtype) is not None:
        return TEXT
    kind: str = array.dtype.kind
    return TEXT if kind == "S" else OTHER if kind in "OV" else kind


def bytes_of(array: Any) -> int:
    """What it takes to read all of an array in a file."""
    pairs = zip(array.shape, array.chunks or (), strict=bool(array.chunks))
    n_chunks: int = prod(-(-n // c) for n, c in pairs)
    return int(array.nbytes) + CHUNK * n_chunks


def array_of(array: Any) -> Array:
    """All of an array in a file."""
    if kind_of(array) == TEXT and array.dtype.kind == "O":
        return np.asarray(array.asstr()[()]).astype(str)
    found: Array = np.asarray(array[()])
    return found
