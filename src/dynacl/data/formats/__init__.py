"""The file formats that data are read from and results are written to, by suffix.

A new format is one file beside these, with one final class of Format, and one line in BY_SUFFIX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats import apart
from dynacl.data.formats.csv import Csv, as_csv, in_parts
from dynacl.data.formats.failing import refused_in_one_sentence
from dynacl.data.formats.format import DATES, NUMBERS, TEXT, Entry, Format
from dynacl.data.formats.hdf5 import Hdf5
from dynacl.data.formats.mat import Mat
from dynacl.data.formats.npy import Npy
from dynacl.data.formats.npz import Npz
from dynacl.data.formats.nwb import Nwb
from dynacl.data.formats.parquet import Parquet
from dynacl.writing import replacing

__all__ = [
    "BY_SUFFIX",
    "DATES",
    "NUMBERS",
    "TEXT",
    "Entry",
    "Format",
    "as_csv",
    "entries",
    "format_of",
    "in_parts",
    "read_entries",
    "writable",
    "write_table",
]

BY_SUFFIX: dict[str, Format] = {
    ".npy": Npy(),
    ".npz": Npz(),
    ".csv": Csv(),
    ".tsv": Csv("\t"),
    ".parquet": Parquet(),
    ".mat": Mat(),
    ".h5": Hdf5(),
    ".hdf5": Hdf5(),
    ".nwb": Nwb(),
}
LONGEST = 200  # characters of a name


def format_of(path: Path) -> Format:
    """The format of a file that is there."""
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.suffix.lower() not in BY_SUFFIX:
        raise InputError(f"{path}: cannot read {path.suffix or 'a file without suffix'}; "
                         f"wanted one of {', '.join(BY_SUFFIX)}")  # fmt: skip
    return BY_SUFFIX[path.suffix.lower()]


def entries(path: Path) -> list[Entry]:
    """What is in a file; any failure is an InputError with the path."""
    format = format_of(path)
    with refused_in_one_sentence(path, format):
        found = apart.entries(format, path) if format.apart else format.entries(path)
    for name in (entry.name for entry in found):
        if len(name) > LONGEST:  # errors quote names
            raise InputError(f"{path}: {name[:40]!r} … is a name of {len(name):,} characters; "
                             f"wanted at most {LONGEST}")  # fmt: skip
    return found


def read_entries(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """These entries of a file; any failure is an InputError with the path."""
    format = format_of(path)
    with refused_in_one_sentence(path, format):
        return apart.read(format, path, names) if format.apart else format.read(path, names)


def writable() -> list[str]:
    """Suffixes of the formats that results can be written in."""
    return [suffix for suffix, format in BY_SUFFIX.items() if type(format).write != Format.write]


def write_table(path: Path, arrays: Mapping[str, Array], main: str) -> None:
    """Results as the suffix says, whole or not at all; only some formats hold more than `main`."""
    with replacing(path) as file:
        BY_SUFFIX[path.suffix].write(file, arrays, main)
