"""Format: what a file format says about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from dynacl.data.arrays import Array


class Format(ABC):
    """A file format, with the suffix (dot included) that its files are known by."""

    suffix: ClassVar[str]

    @abstractmethod
    def read(
        self, path: Path, key: str | None, control_key: str | None, label_key: str | None
    ) -> dict[str, Any]:
        """The fields of a series: "observations", and of the others those that the file holds.

        key picks the observations, control_key the control, label_key labels, which are fields
        named "label.…". Values need no check here. What is wrong with the file as such is an
        InputError, or a ValueError or OSError of its library.
        """

    @abstractmethod
    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        """Write results: all arrays, or a table by `columns_of`, or arrays[main] alone.

        The file is open, and takes its place when it is whole.
        """


def columns_of(arrays: Mapping[str, Array], main: str) -> dict[str, Array]:
    """Results as the columns of a table, for formats that hold one: one row per row of `main`.

    Vectors come first, then tables with their columns side by side. "names" are those of the
    columns of `main` (else x1, x2, …); a table beside it adds its own, such as a_lower. "bounds"
    are left out: a column "trial" says the same.
    """
    rows, width = arrays[main].shape
    names = [str(n) for n in arrays.get("names", [f"x{i + 1}" for i in range(width)])]
    beside = {k: v for k, v in arrays.items() if k not in ("bounds", "names") and len(v) == rows}
    found = {k: v for k, v in beside.items() if v.ndim == 1}
    names = [f"{main}_{name}" if name in found else name for name in names]
    for i, name in enumerate(names):
        for key, table in beside.items():
            if table.ndim == 2:
                found[name if key == main else f"{name}_{key}"] = table[:, i]
    return found
