""".npz: several named arrays."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import Entry, Format, check_honest
from dynacl.writing import replacing

LONGEST = 1 << 16  # bytes of an array's head; numpy itself refuses one of more than 10,000


@final
class Npz(Format):
    def entries(self, path: Path) -> list[Entry]:
        with _opened(path) as file:
            return [_entry(file, name) for name in file.files]

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Array]:
        with _opened(path) as file:
            check_honest(path, sum(file.zip.getinfo(f"{name}.npy").file_size for name in names))
            return {name: file[name] for name in names}

    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Named arrays; a file object, so that numpy does not append a suffix."""
    with replacing(path) as file:
        Npz().write(file, arrays, "")


def _opened(path: Path) -> Any:
    archive = np.load(path, allow_pickle=False)
    if isinstance(archive, np.ndarray):
        raise InputError(f"{path}: is an .npy file, not an .npz archive; rename it")
    return archive


def _entry(file: Any, name: str) -> Entry:
    """From the head of an array; its numbers stay where they are."""
    with file.zip.open(f"{name}.npy") as member:
        head = io.BytesIO(member.read(LONGEST))  # which may say that it is a gigabyte long
    version = np.lib.format.read_magic(head)
    # Version 3 differs from 2 in how names of fields are spelled.
    of_version = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
    shape, _, dtype = of_version[version > (1, 0)](head)
    return Entry(name, shape, "U" if dtype.kind == "S" else dtype.kind)
