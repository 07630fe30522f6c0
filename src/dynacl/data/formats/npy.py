""".npy: one array, memory-mapped, so that a recording may be larger than memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import Entry, Format

ONLY = "observations"  # the name of the one array


@final
class Npy(Format):
    alone = True

    def entries(self, path: Path) -> list[Entry]:
        array = _opened(path)
        return [Entry(ONLY, array.shape, array.dtype.kind)]

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Array]:
        return dict.fromkeys(names, _opened(path))

    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        np.save(file, arrays[main], allow_pickle=False)


def _opened(path: Path) -> Array:
    with np.errstate(over="ignore"):  # a shape whose size overflows is refused beside that warning
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: is an .npz archive; rename it")
    return array
