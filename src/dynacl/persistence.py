"""Save and load: weights as safetensors, the rest as JSON. Nothing that is read can run code."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dynacl._version import __version__
from dynacl.configuration import FORMAT, check_format, parse, refusing
from dynacl.data import InputError
from dynacl.intervals import Errors
from dynacl.linear_models import ARX
from dynacl.objective.infonce import Loss
from dynacl.readout import Readout
from dynacl.run import Run, Snapshot, Start
from dynacl.sealing import damaged, sealed, texts_of, unsealed
from dynacl.settings import Settings
from dynacl.writing import write

PARTS = ("encoder", "dynamics", "geometry")
SNAPSHOTS = ("floor", "best")
MODEL, CHECKPOINT = "model.safetensors", "checkpoint"
BESIDE = ("metrics.json", "history.jsonl")  # what `dynacl fit` writes beside a model


def save_model(
    run: Run, about: Mapping[str, Any], folder: str | os.PathLike[str], checkpoint: bool = False
) -> None:
    """The weights of a run and what else a model is, as JSON; with all that it takes to go on.

    The folder is one thing. model.safetensors is a whole model, and the checkpoint all of a run.
    Each is replaced in one step, the checkpoint first; both have the run's id. So a folder in
    which they differ is one in which a newer run was stopped before it had written its model.
    config.json is a copy to be read by people: it is there only with the model that it is of.
    """
    made = {"format": FORMAT, "dynacl": __version__, "torch": torch.__version__, "run": run.id}
    # All before a file is written: what cannot be saved leaves nothing behind.
    config = json.dumps(made | dict(about), indent=1)
    weights = sealed(_parts(run) | _beside(run), {"config": config, "id": run.id})
    state = packed(run, config) if checkpoint else None
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    another = run_of(folder / MODEL) != run.id
    if state is not None:
        write(folder / CHECKPOINT, state)
    elif run_of(folder / CHECKPOINT) != run.id:
        (folder / CHECKPOINT).unlink(missing_ok=True)
    for name in ("config.json", *(BESIDE if another else ())):
        (folder / name).unlink(missing_ok=True)
    write(folder / MODEL, weights)
    write(folder / "config.json", config.encode())


def run_of(path: Path) -> str | None:
    """The id of the run that a file is of; None where it has none that can be read."""
    try:
        return texts_of(path).get("id")
    except (OSError, InputError):
        return None


def half_made(folder: Path) -> bool:
    """Whether a run was begun here and stopped before it had written its first model."""
    begun, model = run_of(folder / CHECKPOINT), folder / MODEL
    try:
        return begun is not None and not (model.exists() and texts_of(model).get("id") == begun)
    except InputError:
        return False  # damaged, which is said when it is read


def plain_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON holds them; modules and random states are not kept."""
    return {k: _plain(v) for k, v in given.items()}


def read_model(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and the weights of a saved model, checked."""
    folder = Path(folder)
    if half_made(folder):
        raise InputError(f"{folder}: its fit was stopped before it had written a model; "
                         "`dynacl fit` with --resume goes on with it, without begins anew"
                         )  # fmt: skip
    path, beside = folder / MODEL, folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder}: has no {MODEL}; wanted a folder that a model was saved to")
    weights, texts = unsealed(path)
    if "config" in texts and "seal" in texts:
        if beside.exists() and beside.read_bytes() != texts["config"].encode():
            raise InputError(f"{beside}: is not as it was written with {MODEL}, which has all that "
                             "is needed; remove it")  # fmt: skip
        return parse(texts["config"], path), weights
    if not beside.is_file():
        raise InputError(f"{folder}: has no config.json; wanted a folder that a model was saved to")
    try:
        config = parse(beside.read_text(), beside)
    except UnicodeDecodeError as error:
        raise InputError(f"{beside}: is not valid JSON: {error}") from error
    if config["format"] == FORMAT:  # which has a checksum, and this has none
        raise damaged(path, "it has no checksum")
    return config, weights


def read_checkpoint(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and the weights of the run that a folder's checkpoint is of."""
    path = Path(folder) / CHECKPOINT
    if not path.is_file():
        raise InputError(f"{folder}: has no checkpoint to resume from")
    weights, texts = unsealed(path)
    if not texts.get("config"):
        check_format(path, _state(path, texts), (FORMAT,))
        raise damaged(path, "it has no configuration")
    return parse(texts["config"], path), weights


def load_weights(part: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    mine = _under(f"{name}.", weights)
    try:
        part.load_state_dict(mine)
    except RuntimeError as error:
        raise InputError(
            f"{name}: the saved weights do not fit {type(part).__name__}; a model with a custom "
            f"{name} is loaded with DCL.load(path, {name}=module) "
            f"({str(error).splitlines()[-1].strip()})"
        ) from error


def load_parts(run: Run, weights: Mapping[str, Tensor]) -> None:
    for name in PARTS:
        load_weights(getattr(run, name), weights, name)


def load_beside(run: Run, weights: Mapping[str, Tensor], n_controls: int) -> None:
    """What a saved model needs to predict observations and to be compared; older ones lack it."""
    run.readout = _readout(_under("readout.", weights))
    readout = _readout(_under("start.readout.", weights))
    if readout is not None:
        run.start = Start(
            _under("start.encoder.", weights), _under("start.dynamics.", weights), readout
        )
    arx = {k: v.numpy() for k, v in _under("arx.", weights).items()}
    if arx:
        run.arx = ARX.of_arrays(run.settings.time_lags, n_controls, arx)
    errors = {k: v.numpy() for k, v in _under("errors.", weights).items()}
    run.errors = Errors(**errors) if errors else None


def _readout(weights: Mapping[str, Tensor]) -> Readout | None:
    if not weights:
        return None
    inputs = len(weights["feedthrough"]) if "feedthrough" in weights else 0
    made = Readout(len(weights["shift"]), len(weights["centre"]), inputs)
    load_weights(made, {f"readout.{k}": v for k, v in weights.items()}, "readout")
    return made


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def save_checkpoint(run: Run, path: str | os.PathLike[str]) -> None:
    """One file with everything from which the run continues bit for bit."""
    write(path, packed(run, ""))


def packed(run: Run, config: str) -> bytes:
    """The content of a checkpoint."""
    tensors = _parts(run) | {f"dynamics.{k}": v for k, v in (run.as_trained or {}).items()}
    for i, optimizer in enumerate(run.optimizers):
        for j, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{j}.{k}": torch.as_tensor(v) for k, v in state.items()}
    tensors["generator"] = run.generator.get_state()
    kept = {name: shot for name in SNAPSHOTS if (shot := getattr(run, name)) is not None}
    for name, shot in kept.items():
        for part, weights in shot.weights.items():
            tensors |= {f"{name}.{part}.{k}": v for k, v in weights.items()}
    if run.emphasis is not None:
        tensors |= {f"emphasis.{k}": v for k, v in run.emphasis.state_dict().items()}
    if run.pending:
        tensors["pending"] = torch.stack([torch.stack(list(loss)) for loss in run.pending])
    state = {
        "format": FORMAT,
        "dynacl": __version__,
        "settings": asdict(run.settings),
        "step": run.step,
        "seconds": run.seconds,
        "history": run.history,
        "judged": run.judged,
        "snapshots": {name: [shot.figure, shot.step] for name, shot in kept.items()},
    }
    cpu = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    return sealed(cpu, {"run": json.dumps(state), "config": config, "id": run.id})


def load_checkpoint(run: Run, path: str | os.PathLike[str]) -> Run:
    """Put the state of a saved run into one that was built with the same parts."""
    path = Path(path)
    tensors, texts = unsealed(path)
    state = _state(path, texts)
    check_format(path, state, (FORMAT,))
    if "seal" not in texts:
        raise damaged(path, "it has no checksum")
    with refusing(path):
        return _restore(run, tensors, state, path)


def _state(path: Path, texts: Mapping[str, str]) -> dict[str, Any]:
    try:
        state = json.loads(texts.get("run", "null"))
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from error
    if not isinstance(state, dict):
        raise InputError(f"{path}: is not a checkpoint")
    return state


def _restore(run: Run, tensors: Mapping[str, Tensor], state: Mapping[str, Any], path: Path) -> Run:
    if Settings.read(state["settings"]) != run.settings:
        raise InputError(f"{path}: was trained with other settings than the run has")
    load_parts(run, tensors)
    if run.emphasis is not None:
        load_weights(run.emphasis, tensors, "emphasis")
    run.as_trained, run.whole = None, True
    for i, optimizer in enumerate(run.optimizers):
        kept: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith(f"optimizer.{i}."):
                _, _, j, name = key.split(".", 3)
                # A copy lies aligned in memory, as the original did: products round alike.
                kept.setdefault(int(j), {})[name] = value.clone()
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": kept, "param_groups": groups})
    run.generator.set_state(tensors["generator"])
    run.pending = [Loss(*row.unbind()) for row in tensors.get("pending", torch.empty(0, 3))]
    run.step, run.seconds, run.history = state["step"], state["seconds"], state["history"]
    run.judged = [(step, figure) for step, figure in state["judged"]]
    for name, (figure, step) in state["snapshots"].items():
        if name not in SNAPSHOTS:
            raise damaged(path, f"no snapshot is called {name!r}")
        weights = {part: _under(f"{name}.{part}.", tensors) for part in PARTS}
        setattr(run, name, Snapshot(figure, step, weights))
    return run


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, list | tuple | range | np.ndarray):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else None


def to_json(found: Any, **how: Any) -> str:
    """JSON has no infinity: a roll-out that diverged (R² of −inf) is null there."""
    return json.dumps(_finite(found), allow_nan=False, **how)


def _finite(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {k: _finite(v) for k, v in found.items()}
    if isinstance(found, list | tuple):
        return [_finite(v) for v in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def _beside(run: Run) -> dict[str, Tensor]:
    """The readout, and what predictions of observations are compared with."""
    found: dict[str, Mapping[str, Tensor]] = {}
    if run.readout is not None:
        found["readout"] = run.readout.state_dict()
    if run.start is not None:
        found["start.encoder"], found["start.dynamics"] = run.start.encoder, run.start.dynamics
        found["start.readout"] = run.start.readout.state_dict()
    if run.arx is not None:
        # Copies: the way into components and the way back may be one array.
        found["arx"] = {k: torch.from_numpy(v).clone() for k, v in run.arx.arrays().items()}
    if run.errors is not None:
        found["errors"] = {k: torch.from_numpy(v) for k, v in run.errors._asdict().items()}
    return {
        f"{name}.{k}": v.detach().cpu().contiguous()
        for name, weights in found.items()
        for k, v in weights.items()
    }


def _parts(run: Run) -> dict[str, Tensor]:
    """The weights of encoder, dynamics and similarity, each under its name."""
    return {
        f"{name}.{k}": v.detach().cpu().contiguous()
        for name in PARTS
        for k, v in getattr(run, name).state_dict().items()
    }
