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
        """Write a table of results: all arrays, or arrays[main] where a file holds only one.

        The file is open, and takes its place when it is whole.
        """
