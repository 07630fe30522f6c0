""".csv: one row per step, with a header or without; commas, semicolons, tabs or spaces between."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import Format, columns_of


@final
class Csv(Format):
    suffix = ".csv"

    def read(
        self, path: Path, key: str | None, control_key: str | None, label_key: str | None
    ) -> dict[str, Any]:
        with open(path, encoding="utf-8-sig") as file:
            first = file.readline().lstrip("# ").strip()  # numpy's savetxt marks a header with "#"
        if not first:
            raise InputError(f"{path}: is empty")
        delimiter = next((c for c in ",;\t" if c in first), None)
        names = [cell.strip().strip('"') for cell in first.split(delimiter)]
        header = not all(_is_number(name) for name in names)

        def columns(wanted: str) -> list[int]:
            chosen = [c.strip() for c in wanted.split(",")]
            missing = [c for c in chosen if not header or c not in names]
            if missing:
                has = ", ".join(names) if header else "no header"
                raise InputError(f"{path}: has no column {missing[0]!r}; it has {has}")
            return [names.index(c) for c in chosen]

        with warnings.catch_warnings(category=UserWarning, action="ignore"):  # no rows: said below
            table = np.loadtxt(path, delimiter=delimiter, skiprows=int(header), dtype=np.float64,
                               ndmin=2, encoding="utf-8-sig")  # fmt: skip
        if table.size == 0:
            raise InputError(f"{path}: has no rows")
        if table.shape[1] != len(names):
            raise InputError(
                f"{path}: its first line has {len(names)} columns, the rows {table.shape[1]}"
            )
        control = columns(control_key) if control_key else []
        labels = columns(label_key) if label_key else []
        others = [i for i in range(len(names)) if i not in control and i not in labels]
        chosen = columns(key) if key else others
        fields = {"observations": table if len(chosen) == len(names) else table[:, chosen]}
        if header:
            fields["names"] = np.array([names[i] for i in chosen])
        if control:
            fields["control"] = table[:, control]
        return fields | {f"label.{names[i]}": table[:, i] for i in labels}

    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        file.write(as_csv(columns_of(arrays, main)).encode())


def as_csv(columns: Mapping[str, Array]) -> str:
    """Columns of equal length under their names, as text."""
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerows
    write([columns])
    write(zip(*map(_written, columns.values()), strict=True))
    return text.getvalue()


def _written(column: Array) -> list[str]:
    """With as many digits as the precision of a column has; what is not known is empty."""
    if column.dtype.kind != "f":
        return list(column.astype(str))
    digits = 7 if column.dtype.itemsize <= 4 else 15
    return ["" if value != value else f"{value:.{digits}g}" for value in column.tolist()]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
