"""The file formats that data are read from and results are written to, by suffix.

A new format is one file beside these, with one final class of Format, and one line in BY_SUFFIX.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.csv import Csv, as_csv
from dynacl.data.formats.format import Format, columns_of
from dynacl.data.formats.npy import Npy
from dynacl.data.formats.npz import Npz
from dynacl.writing import replacing

__all__ = ["BY_SUFFIX", "Format", "as_csv", "columns_of", "read_fields", "write_table"]

BY_SUFFIX: dict[str, Format] = {
    Npy.suffix: Npy(),
    Npz.suffix: Npz(),
    Csv.suffix: Csv(),
}


def read_fields(
    path: Path, key: str | None, control_key: str | None, label_key: str | None
) -> dict[str, Any]:
    """What the format of this file reads from it; any failure is an InputError with the path."""
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.suffix not in BY_SUFFIX:
        raise InputError(f"{path}: cannot read {path.suffix or 'a file without suffix'}; "
                         f"wanted one of {', '.join(BY_SUFFIX)}")  # fmt: skip
    try:
        return BY_SUFFIX[path.suffix].read(path, key, control_key, label_key)
    except InputError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error).split("\n")[0]
        # numpy takes bytes that it does not know for a pickle.
        if any(sign in reason for sign in ("pickle", "Object arrays", "Python objects")):
            reason = "damaged, or holds Python objects, which are never loaded"
        raise InputError(f"{path}: cannot be read: {reason}") from error


def write_table(path: Path, arrays: Mapping[str, Array], main: str) -> None:
    """Results as the suffix says, whole or not at all; only some formats hold more than `main`."""
    with replacing(path) as file:
        BY_SUFFIX[path.suffix].write(file, arrays, main)
