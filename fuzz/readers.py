"""What reads files: data of every format, models, checkpoints, results of sweeps.

A reader makes its input number i in a folder, and reads it. What it returns of an input that must
be as it was written (`exact`) is compared with what it returns of the original.
"""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import signal
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dynacl import DCL, InputError, TimeSeries
from dynacl.data.formats import BY_SUFFIX, apart, write_table
from dynacl.experiments import plan
from dynacl.experiments.fitting import Outcome
from dynacl.experiments.store import Store
from dynacl.persistence import CHECKPOINT, MODEL
from dynacl.sealing import sealed, unsealed
from fuzz.mutations import Rng, changed_tree, mutated, rezipped, spelled_out


class Reader(ABC):
    """Something that reads files. `folder` is where its originals are; they are made once."""

    may_crash = False  # whether a crash is what a user would be told of in one sentence
    alone = False  # whether each input needs a process of its own

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def room(self, place: Path) -> int:
        """Bytes that a user is told it may take to read what is there, beside its size."""
        return 0

    def seconds(self, place: Path) -> float:
        """Seconds of the processor after which what reads it is stopped, where it is."""
        return 0.0

    @abstractmethod
    def write(self, place: Path, rng: Rng) -> bool:
        """Write an input; whether it must be refused unless it reads as the original."""

    @abstractmethod
    def read(self, place: Path) -> Any:
        """Read it; what it says, comparable. InputError: refused."""

    def original(self, place: Path) -> Any:
        """What the original of the last input says."""
        raise NotImplementedError


class Data(Reader):
    """Data in files of one suffix. Damage need not be seen: formats have no checksum."""

    def __init__(self, folder: Path, suffix: str, inside: bool) -> None:
        """inside: read here what is otherwise read in a process of its own, which takes long."""
        super().__init__(folder)
        self.suffix, self.may_crash = suffix, inside and BY_SUFFIX[suffix].apart
        self.alone = self.may_crash and suffix == ".nwb"  # its library keeps files open
        if self.may_crash:
            BY_SUFFIX[suffix].apart = False
        paths = _data_files(folder, suffix)
        if not paths:
            raise LookupError(f"nothing that is installed here writes {suffix}")
        if self.may_crash:
            TimeSeries.read(paths[0])  # imports a library: no input is to be charged for that
        self.originals = [path.read_bytes() for path in paths]

    def write(self, place: Path, rng: Rng) -> bool:
        content = self.originals[int(rng.integers(len(self.originals)))]
        whole = content[:4] == b"PK\x03\x04" and rng.random() < 0.5
        new = rezipped(content, rng) if whole else mutated(content, rng)
        (place / f"x{self.suffix}").write_bytes(new)
        return False

    def room(self, place: Path) -> int:
        path = place / f"x{self.suffix}"
        return apart.most(BY_SUFFIX[self.suffix], path) if self.may_crash else 0

    def seconds(self, place: Path) -> float:
        return apart.longest(place / f"x{self.suffix}") if self.may_crash else 0.0

    def read(self, place: Path) -> Any:
        path = place / f"x{self.suffix}"
        before = resource.getrlimit(resource.RLIMIT_DATA)
        if self.may_crash:  # what reads it for users has no more
            apart.bound_memory(BY_SUFFIX[self.suffix], path)
            apart.bound_time(path)
        try:
            return TimeSeries.read(path).fingerprint()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_files(folder: Path, suffix: str) -> list[Path]:
    rng = np.random.default_rng(0)
    y, found = rng.standard_normal((20, 3)), []
    if suffix == ".npz":
        series = TimeSeries.of(
            [y[:8].astype(np.float32), y[8:].astype(np.float32)], u=[y[:8], y[8:]]
        )
        series.write(folder / "own.npz")
        found.append(folder / "own.npz")
    for name, x in (("one", y), ("whole", np.arange(60).reshape(20, 3))):
        for i, write in enumerate(_BY_LIBRARY.get(suffix, [_own])):
            path = folder / f"{name}{i}{suffix}"
            try:
                write(path, x)
            except ImportError:
                continue
            found.append(path)
    return found


def _own(path: Path, x: Any) -> None:
    write_table(path, {"x": x}, "x")


def _hdf5(path: Path, x: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        if x.dtype.kind == "f":
            file["x"] = x
        else:
            file.create_dataset("x", data=x, chunks=(5, 3), compression="gzip", maxshape=(None, 3))


def _mat(path: Path, x: Any) -> None:
    from scipy.io import savemat

    savemat(path, {"x": x}, do_compression=x.dtype.kind == "i")


def _mat_by_hdf5(path: Path, x: Any) -> None:
    """As MATLAB writes from version 7.3 on: a matrix, or a cell of two."""
    import h5py

    kind = "cell" if x.dtype.kind == "i" else "double"
    with h5py.File(path, "w", userblock_size=512) as file:
        if kind == "cell":
            parts = [file.create_dataset(f"#refs#/{i}", data=x[i : i + 10].T) for i in (0, 10)]
            file["x"] = np.array([[part.ref for part in parts]], dtype=h5py.ref_dtype)
        else:
            file["x"] = x.T
        file["x"].attrs["MATLAB_class"] = np.bytes_(kind)


def _nwb(path: Path, x: Any) -> None:
    import pynwb

    file = pynwb.NWBFile("test", "1", datetime(2026, 1, 1, tzinfo=UTC))
    file.add_acquisition(pynwb.TimeSeries(name="x", data=x, unit="V", rate=10.0))
    with pynwb.NWBHDF5IO(path, "w") as io:
        io.write(file, cache_spec=x.dtype.kind == "f")  # the specification is most of such a file


# Ways to write what we only read; each is an original of its own.
_BY_LIBRARY: dict[str, list[Callable[[Path, Any], None]]] = {
    ".h5": [_hdf5], ".hdf5": [_hdf5], ".mat": [_mat, _mat_by_hdf5], ".nwb": [_nwb],
}  # fmt: skip


class Models(Reader):
    """Saved models: damaged ones, and whole ones that were made up (`strangers`)."""

    file, checkpoint = MODEL, False

    def __init__(self, folder: Path, strangers: bool = False) -> None:
        super().__init__(folder)
        self.strangers = strangers
        self.names = _models(folder)
        self.name = self.names[0]
        self.said = {name: self.read(folder / name) for name in self.names}

    def write(self, place: Path, rng: Rng) -> bool:
        self.name = self.names[int(rng.integers(len(self.names)))]
        source = self.folder / self.name
        for path in place.iterdir():
            path.unlink()
        for name in (MODEL, "config.json", CHECKPOINT):
            shutil.copy(source / name, place / name)
        if not self.strangers:
            beside = self.file == MODEL and rng.random() < 0.2
            file = place / ("config.json" if beside else self.file)
            file.write_bytes(mutated(file.read_bytes(), rng))
            return True
        tensors, texts = unsealed(source / self.file)
        if rng.random() < 0.3:
            tensors = _changed_tensors(tensors, rng)
        else:
            part = "run" if self.checkpoint and rng.random() < 0.5 else "config"
            texts[part] = spelled_out(json.dumps(changed_tree(json.loads(texts[part]), rng)))
        (place / self.file).write_bytes(sealed(tensors, texts))
        if not self.checkpoint:
            (place / "config.json").write_text(texts["config"])
        return False

    def read(self, place: Path) -> Any:
        model = DCL.load(place, device="cpu", checkpoint=self.checkpoint)
        run = model.run_
        said = [repr(model.get_params(deep=False)), repr(run.settings), repr(run.history), run.step]
        digest = hashlib.sha256(repr(said).encode())
        for part in run.parts.values():
            _add(digest, part.state_dict())
        if self.checkpoint:
            digest.update(run.generator.get_state().numpy().tobytes())
            for optimizer in run.optimizers:
                # safetensors hands tensors out in an order of its own.
                for _, state in sorted(optimizer.state_dict()["state"].items()):
                    _add(digest, {k: torch.as_tensor(v) for k, v in state.items()})
        return digest.hexdigest()

    def original(self, place: Path) -> Any:
        return self.said[self.name]


class Checkpoints(Models):
    """Runs that were stopped."""

    file, checkpoint = CHECKPOINT, True


def _models(folder: Path) -> list[str]:
    y = np.random.default_rng(0).standard_normal((40, 2)).cumsum(0)
    size: dict[str, Any] = {"max_iter": 4, "batch_size": 8, "random_state": 0, "validation": 0}
    kinds: dict[str, dict[str, Any]] = {
        "linear": {"dynamics": "linear", "protocol": "paper-lds", "n_negatives": 8},
        "switching": {"dynamics": "switching", "n_modes": 2, "time_lags": (0, 1)},
        "polynomial": {"dynamics": "polynomial", "degree": 2},
    }
    for name, kind in kinds.items():
        if not (folder / name).exists():
            model = DCL(1, **(size | kind))
            model.fit(y, callback=lambda run, _: run.step == 2)
            model.save(folder / name, checkpoint=True)
    return list(kinds)


def _changed_tensors(tensors: Mapping[str, torch.Tensor], rng: Rng) -> dict[str, torch.Tensor]:
    new, names = dict(tensors), sorted(tensors)
    name = names[int(rng.integers(len(names)))]
    x = new.pop(name)
    fate = int(rng.integers(7))
    if fate == 1:
        new[name] = x.reshape(-1)
    elif fate == 2:
        new[name] = x[None]
    elif fate == 3:
        new[name] = x.reshape(-1)[:0]
    elif fate == 4:
        new[name] = torch.full_like(x, float("nan")) if x.is_floating_point() else x + 1
    elif fate == 5:
        new[name] = x.to(torch.int8)
    elif fate == 6:
        new[f"{name}.more"] = x
    return new


def _add(digest: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    for name, x in sorted(tensors.items()):
        digest.update(f"{name} {x.dtype} {tuple(x.shape)}".encode())
        digest.update(x.detach().contiguous().numpy().tobytes())


class Results(Reader):
    """Results of a sweep, with their arrays. What is damaged is missing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        config = {"data": {"dataset": 0}, "model": {}, "training": {}, "control": {}, "seed": 0}
        self.name = plan.name(config)
        record = {"config": config, "state": "done", "seconds": 1.5, "metrics": {"r2": 0.75}}
        Store(folder).put(self.name, Outcome(record, {"x": np.arange(12.0).reshape(4, 3)}), "one")
        self.said = self.read(folder)

    def write(self, place: Path, rng: Rng) -> bool:
        (place / "runs").mkdir(exist_ok=True)
        for suffix in (".json", ".npz"):
            shutil.copy(self.folder / "runs" / f"{self.name}{suffix}", place / "runs")
        file = place / "runs" / f"{self.name}{'.npz' if rng.random() < 0.3 else '.json'}"
        content = file.read_bytes()
        if file.suffix == ".json" and rng.random() < 0.3:
            changed = changed_tree(json.loads(content), rng)
            file.write_text(spelled_out(json.dumps(changed)))
        else:
            file.write_bytes(mutated(content, rng))
        return True

    def read(self, place: Path) -> Any:
        store = Store(place)
        if said := store.damage(self.name):
            raise InputError(said)
        record, arrays = store.get(self.name), store.arrays(self.name)
        if record is None:
            raise InputError("it is missing")
        told = {k: v for k, v in record.items() if k != "checksum"}  # older results have none
        return json.dumps(told, sort_keys=True), {k: v.tobytes() for k, v in arrays.items()}

    def original(self, place: Path) -> Any:
        return self.said


def readers(folder: Path, inside: bool = True) -> dict[str, Callable[[], Reader]]:
    """Every reader by name, to be made when it is used."""
    warnings.simplefilter("ignore")  # what damaged data are warned of is not what is looked for

    def data(suffix: str) -> Callable[[], Reader]:
        return lambda: Data(folder / suffix.removeprefix("."), suffix, inside)

    return {f"data{suffix}": data(suffix) for suffix in BY_SUFFIX} | {
        "model": lambda: Models(folder / "models"),
        "model-made-up": lambda: Models(folder / "models", strangers=True),
        "checkpoint": lambda: Checkpoints(folder / "models"),
        "checkpoint-made-up": lambda: Checkpoints(folder / "models", strangers=True),
        "results": lambda: Results(folder / "results"),
    }
