""".nwb: Neurodata Without Borders, through pynapple.

Time series are arrays with ".times" and ".names"; epochs are (n, 2) arrays of starts and ends.
Spikes are counted in bins: "units@0.02" has those of each unit in 20 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import OTHER, Entry, Format, check_honest
from dynacl.data.formats.hdf5 import arrays_in, bytes_of

BIN = 0.02  # seconds; the bin that is offered where spikes are listed


@final
class Nwb(Format):
    apart = True
    libraries = ("h5py", "pynapple", "pynwb")
    room = 1 << 27  # 59 MB were the least for spikes, whose counting is compiled
    extra = "nwb"

    def entries(self, path: Path) -> list[Entry]:
        found = []
        for name in (file := _opened(path)):
            for part, array in _arrays(name, file[name]).items():
                found.append(Entry(part, array.shape, _kind(array)))
        return found

    def read(self, path: Path, names: Sequence[str]) -> dict[str, Array]:
        file = _opened(path)
        found: dict[str, Any] = {}
        for name in names:
            whole, _, part = name.rpartition(".")
            thing = name if part not in ("times", "names") else whole
            found |= _arrays(thing, file[thing.partition("@")[0]])
        return {name: np.asarray(found[name]) for name in names}


def _opened(path: Path) -> Any:
    import h5py
    import pynapple

    with h5py.File(path) as file:  # pynapple reads whole tables, whatever they say of their size
        check_honest(path, sum(bytes_of(array) for _, array in arrays_in(file)))
    return pynapple.load_file(str(path))


def _kind(array: Any) -> str:
    kind: str = np.dtype(array.dtype).kind
    return OTHER if kind == "V" else kind


def _arrays(name: str, thing: Any) -> dict[str, Any]:
    """What a pynapple object is, as arrays; nothing where it is no series and no epochs."""
    import pynapple

    whole, _, width = name.partition("@")
    if isinstance(thing, pynapple.TsGroup):
        try:
            counts = thing.count(float(width or BIN))
        except ValueError as error:
            raise InputError(f"key: got {name!r}; wanted {whole}@SECONDS") from error
        return _arrays(f"{whole}@{width or BIN}", counts)
    if isinstance(thing, pynapple.IntervalSet):
        return {name: np.asarray(thing.values)}
    if isinstance(thing, pynapple.TsdFrame):
        names = np.array([str(c) for c in thing.columns])
        return {name: thing.d, f"{name}.times": thing.t, f"{name}.names": names}
    if isinstance(thing, pynapple.Tsd):
        return {name: thing.d, f"{name}.times": thing.t}
    return {}
