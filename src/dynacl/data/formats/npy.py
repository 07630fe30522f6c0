""".npy: one array, memory-mapped, so that a recording may be larger than memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import Format


@final
class Npy(Format):
    suffix = ".npy"

    def read(
        self, path: Path, key: str | None, control_key: str | None, label_key: str | None
    ) -> dict[str, Any]:
        if asked := key or control_key or label_key:
            raise InputError(f"{path}: an .npy file holds one array; key={asked!r} "
                             "has no meaning here")  # fmt: skip
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise InputError(f"{path}: is an .npz archive; rename it")
        return {"observations": array}

    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        np.save(file, arrays[main], allow_pickle=False)
