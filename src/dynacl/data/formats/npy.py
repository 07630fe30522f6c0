""".npy: one array, memory-mapped, so that a recording may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import Entry, Format

ONLY = "observations"  # the name of the one array


@final
class Npy(Format):
    streams = True

    def entries(self, path: Path) -> list[Entry]:
        array = _opened(path)
        return [Entry(ONLY, array.shape, array.dtype.kind)]

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Array]:
        return dict.fromkeys(names, _opened(path))

    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        np.save(file, arrays[main], allow_pickle=False)

    def write_parts(
        self, file: BinaryIO, parts: Iterable[Mapping[str, Array]], main: str, rows: int
    ) -> None:
        for i, part in enumerate(parts):
            array = np.ascontiguousarray(part[main], dtype="<f4")
            if i == 0:
                shape = (rows, *array.shape[1:])
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(array.data)


def _opened(path: Path) -> Array:
    with np.errstate(over="ignore"):  # a shape whose size overflows is refused beside that warning
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: is an .npz archive; rename it")
    return array
