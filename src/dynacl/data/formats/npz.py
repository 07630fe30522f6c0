""".npz: several named arrays. Our own files have fields; from others, a key picks an array."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import Format
from dynacl.writing import replacing


@final
class Npz(Format):
    suffix = ".npz"

    def read(
        self, path: Path, key: str | None, control_key: str | None, label_key: str | None
    ) -> dict[str, Any]:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise InputError(f"{path}: is an .npy file, not an .npz archive; rename it")
        with archive as file:
            names = list(file.files)
            labels = [k.strip() for k in label_key.split(",")] if label_key else []
            for wanted in (key, control_key, *labels):
                if wanted is not None and wanted not in names:
                    raise InputError(f"{path}: has no array {wanted!r}; it has {', '.join(names)}")
            if "observations" in names and key in (None, "observations"):
                fields = {name: file[name] for name in names}
            else:
                if key is None and len(names) != 1:
                    raise InputError(f"{path}: holds several arrays ({', '.join(names)}); "
                                     "choose one with key")  # fmt: skip
                fields = {"observations": file[key or names[0]]}
            if control_key:
                fields["control"] = file[control_key]
            return fields | {f"label.{k}": file[k] for k in labels}

    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Named arrays; a file object, so that numpy does not append a suffix."""
    with replacing(path) as file:
        Npz().write(file, arrays, "")
