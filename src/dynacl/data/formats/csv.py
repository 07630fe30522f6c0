""".csv and .tsv: one row per step, with a header or without.

Commas, semicolons, tabs or spaces stand between cells; which, the first line says.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import DATES, TEXT, Entry, Format, columns_of

AT_ONCE = 1 << 19  # cells that are text in memory while a table is written
LOOKS = 200  # rows by which the kind of a column is told
MISSING = ("", "na", "n/a", "nan", "null", "none", "-")  # cells that say nothing


@final
class Csv(Format):
    table = True

    def __init__(self, written_with: str = ",") -> None:
        self.written_with = written_with

    def entries(self, path: Path) -> list[Entry]:
        head = _head(path)
        with open(path, "rb") as file:
            rows = sum(1 for line in file if line.strip()) - head.skipped
        kinds = {i: _kind([row[i] for row in head.rows if i < len(row)]) for i in head.columns}
        return [Entry(name, (rows,), kinds[i]) for i, name in head.columns.items()]

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Array]:
        head = _head(path)
        at = {name: i for i, name in head.columns.items()}
        kinds = {n: _kind([row[at[n]] for row in head.rows if at[n] < len(row)]) for n in names}
        numbers = [n for n in names if kinds[n] == "f"]
        found: dict[str, Array] = {}
        if numbers:
            table = _numbers(path, head, [at[n] for n in numbers])
            found = {n: table[:, i] for i, n in enumerate(numbers)}
        for n in names:
            if kinds[n] != "f":
                cells = _parsed(path, head, [at[n]], str)[:, 0]
                found[n] = cells.astype("datetime64[ns]") if kinds[n] == DATES else cells
        return found

    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        for text in in_parts(arrays, main, self.written_with):
            file.write(text.encode())


def in_parts(arrays: Mapping[str, Array], main: str, delimiter: str = ",") -> Iterator[str]:
    """Results as the text of a table, some rows at a time."""
    columns, rows = columns_of(arrays, main), len(arrays[main])
    size = max(1, AT_ONCE // len(columns))
    for i in range(0, max(1, rows), size):
        some = {name: column[i : i + size] for name, column in columns.items()}
        yield as_csv(some, delimiter, header=i == 0)


def as_csv(columns: Mapping[str, Array], delimiter: str = ",", header: bool = True) -> str:
    """Columns of equal length under their names, as text."""
    text = io.StringIO()
    write = csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows
    if header:
        write([columns])
    write(zip(*map(_written, columns.values()), strict=True))
    return text.getvalue()


def _written(column: Array) -> list[str]:
    """With as many digits as the precision of a column has; what is not known is empty."""
    if column.dtype.kind != "f":
        return list(column.astype(str))
    digits = 7 if column.dtype.itemsize <= 4 else 15
    return ["" if value != value else f"{value:.{digits}g}" for value in column.tolist()]


class _Head(NamedTuple):
    """What the first lines say of a table."""

    delimiter: str | None  # None: any white space
    skipped: int  # lines of the header
    columns: dict[int, str]  # names by place; numbers from 1 where there is no header
    rows: list[list[str]]  # some, as text


def _head(path: Path) -> _Head:
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = [line.strip("\r\n") for line in islice(file, LOOKS + 1)]
    first = lines[0].lstrip("# ").strip() if lines else ""  # numpy's savetxt marks a header by "#"
    if not first:
        raise InputError(f"{path}: is empty")
    # A comma may be inside a number where something else is between them.
    delimiter = next((c for c in ";\t," if c in first), None)

    def cells(line: str) -> list[str]:
        if delimiter is None:
            return [cell.strip('"') for cell in line.split()]
        rows = csv.reader([line], delimiter=delimiter, skipinitialspace=True)
        return [cell.strip() for cell in next(rows)]

    names = cells(first)
    header = not all(_is_number(name) or not name for name in names)
    rows = [cells(line) for line in lines[int(header) :] if line.strip()]
    if not rows:
        raise InputError(f"{path}: has no rows")
    if not header:
        return _Head(delimiter, 0, {i: str(i + 1) for i in range(len(names))}, rows)
    if len(rows[0]) != len(names):
        raise InputError(
            f"{path}: its first line has {len(names)} columns, the rows {len(rows[0])}"
        )
    # A comma at the end of each line makes a column with neither name nor value.
    used = [
        i for i, name in enumerate(names) if name or any(row[i] for row in rows if i < len(row))
    ]
    if len({names[i] for i in used}) < len(used):
        twice = next(names[i] for i in used if names.count(names[i]) > 1)
        raise InputError(f"{path}: has two columns named {twice!r:.40}; wanted each name once")
    return _Head(delimiter, 1, {i: names[i] for i in used}, rows)


def _kind(cells: Sequence[str]) -> str:
    """Numbers, if at least half of the cells are that say something; else dates, or text.

    A cell of a column of numbers that is none is an error, not another kind of column.
    """
    said = [cell for cell in cells if cell.lower() not in MISSING]
    if 2 * sum(_is_number(cell) for cell in said) >= len(said):
        return "f"
    try:
        np.array(said, dtype="datetime64[ns]")
    except ValueError:
        return TEXT
    return DATES


def _numbers(path: Path, head: _Head, columns: Sequence[int]) -> Array:
    """These columns as numbers; what is missing is NaN."""
    try:
        return _parsed(path, head, columns, np.float64)
    except ValueError as error:
        if "convert" not in str(error):
            raise
    cells = _parsed(path, head, columns, str)  # with cells that are empty, or with words
    found = np.empty(cells.shape)
    for i, j in np.ndindex(cells.shape):
        cell = str(cells[i, j]).strip()
        if cell.lower() in MISSING:
            found[i, j] = np.nan
        elif _is_number(cell):
            found[i, j] = float(cell.replace(",", "."))
        else:
            raise InputError(
                f"{path}: column {head.columns[columns[j]]!r} has {cell!r:.40} in row {i}; wanted "
                "a number, or nothing where it is missing"
            )
    return found


def _parsed(path: Path, head: _Head, columns: Sequence[int], dtype: Any) -> Array:
    with warnings.catch_warnings(category=UserWarning, action="ignore"):
        table: Array = np.loadtxt(path, delimiter=head.delimiter, skiprows=head.skipped, ndmin=2,
                                  dtype=dtype, usecols=columns, encoding="utf-8-sig",
                                  quotechar='"')  # fmt: skip
    return table


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))  # a decimal comma; one between cells is not in them
    except ValueError:
        return False
    return True
