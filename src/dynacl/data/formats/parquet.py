""".parquet: a table, of which only the columns that are used are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import DATES, OTHER, TEXT, Entry, Format, columns_of

AT_ONCE = 1 << 22  # cells that are copied at a time while a table is written


@final
class Parquet(Format):
    table = True
    apart = True
    libraries = ("pyarrow.parquet",)
    room = 1 << 27  # 15 MB, and its threads
    extra = "files"

    def entries(self, path: Path) -> list[Entry]:
        with _opened(path) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
        return [Entry(field.name, (rows,), _kind(field.type)) for field in schema]

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Array]:
        with _opened(path) as file:
            table = file.read(columns=list(names), use_threads=False)
        return {name: _array(table[name]) for name in names}

    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ModuleNotFoundError as error:
            raise InputError("out: pyarrow is needed to write .parquet, and is not installed: "
                             f"pip install 'dynacl[{self.extra}]'") from error  # fmt: skip
        columns, rows = columns_of(arrays, main), len(arrays[main])
        size = max(1, AT_ONCE // len(columns))
        some = pyarrow.table({name: column[:size] for name, column in columns.items()})
        with parquet.ParquetWriter(file, some.schema) as writer:
            writer.write_table(some)
            for i in range(size, rows, size):
                part = {name: column[i : i + size] for name, column in columns.items()}
                writer.write_table(pyarrow.table(part, schema=some.schema))


def _opened(path: Path) -> Any:
    """The file, read in this thread and into memory that is asked for as it is needed.

    By itself pyarrow sets a gigabyte aside as it is imported, which is all that the process that
    reads (`apart`) may have.
    """
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    from pyarrow import parquet

    return parquet.ParquetFile(path, pre_buffer=False)


def _kind(arrow: Any) -> str:
    from pyarrow import types

    inside = arrow.value_type if types.is_dictionary(arrow) else arrow
    for kind, belongs in {
        "f": (types.is_floating, types.is_decimal),
        "i": (types.is_integer,),
        "b": (types.is_boolean,),
        TEXT: (types.is_string, types.is_large_string),
        DATES: (types.is_timestamp, types.is_date),
    }.items():
        if any(is_one(inside) for is_one in belongs):
            return kind
    return OTHER


def _array(column: Any) -> Array:
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = _kind(column.type)
    if kind == TEXT:
        return np.array(["" if cell is None else cell for cell in column.to_pylist()], dtype=str)
    if types.is_decimal(column.type) or (kind in "ib" and column.null_count):
        column = column.cast("float64")  # with NaN where nothing is said
    found: Array = column.to_numpy()
    return found.astype("datetime64[ns]") if kind == DATES else found
