"""What an experiment is: rows of plain settings, and the configurations that they stand for.

A configuration is a JSON dict that says everything a fit depends on; its hash is the fit's name.
Two experiments that need the same fit (table1, dynr2 and mcc share most of theirs) find it once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from dynacl.data import InputError
from dynacl.settings import PROTOCOLS

SCALES = ("smoke", "quick", "standard", "paper")
TRAINING = ("ours", "paper")
T = TypeVar("T")
Config = dict[str, Any]
Settings = Mapping[str, Any]

# Part of every name. Raise a number when the same settings would give other results, and the old
# ones are not found any more. The training protocols are in the name by themselves, but not what
# the parts of a model and the data change in them (`recipe.settings`).
CODE = {"simulate": 1, "training": 13, "evaluation": 1}

# Most samples of a data set: fewer trials first, then shorter ones. None: the paper's size.
SAMPLES = {"smoke": 1_000, "quick": 200_000, "standard": 200_000, "paper": None}
MILLION = 1_000_000  # most where the size itself is compared, at `--scale standard`
SMOKE = {"max_iter": 20, "batch_size": 64}
SMOKE_STEPS = 50  # per trial
SMOKE_MODES = 5
QUICK_SHARE = 0.1  # of the paper's training steps, for `--scale quick --protocol paper`


@dataclass(frozen=True)
class Row:
    """A line of a table or a point of a figure: what is simulated, fitted and shown."""

    name: str
    data: Settings  # "system" and its settings, at the paper's size; "starts": one per data set
    model: Settings  # arguments of DCL; or "baseline" and its name
    cells: tuple[str, ...]  # metrics shown, keys of verdicts.METRICS
    family: str = "slds"  # which of the paper's protocols: lds, slds or lorenz
    post_hoc: str | None = None  # dynamics fitted afterwards, which are judged instead
    control: bool = True  # whether the model is given the control input, where there is one
    fresh: bool = False  # whether the fit is also judged on fresh trials of its system
    paper_training: Settings = field(default_factory=dict)  # replaces settings of that protocol
    our_training: Settings = field(default_factory=dict)  # and of ours
    place: Settings = field(default_factory=dict)  # in the figure: panel, x, curve
    datasets: int = 3  # repeats of the paper
    seeds: int = 3
    sized: bool = False  # whether the number of samples is what is compared

    @property
    def is_baseline(self) -> bool:
        """Whether its numbers are no claim of the paper: higher is not better there."""
        return self.model.get("dynamics") == "identity" or "baseline" in self.model

    def repeats(self, scale: str) -> tuple[int, int]:
        """Data sets and seeds at a scale. Where seeds are compared, all of them at every scale."""
        between = "consistency" in self.cells
        if scale == "paper":
            return self.datasets, self.seeds
        if scale == "standard":
            return min(self.datasets, 3), self.seeds if between or self.datasets == 1 else 1
        return 1, self.seeds if between else 1


@dataclass(frozen=True)
class Claim:
    """A difference of two cells that the paper makes a point of."""

    text: str
    more: tuple[str, str]  # row, metric
    less: tuple[str, str]
    sign: int | None = None  # 1, 0 (no difference) or −1: what it says where it prints no numbers


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, as data. `rows` takes the scale: grids are smaller in quick.

    figures: View -> {name: Figure}. values: (View, row, metric) -> numbers, where a metric is not
    one of a single fit.
    """

    name: str
    title: str
    source: str  # label in the paper
    rows: Callable[[str], Sequence[Row]]
    note: str = ""  # settings that the paper does not print, and what to know of a cell
    reduced: Mapping[str, str] = field(default_factory=dict)  # scale: what it leaves out
    claims: tuple[Claim, ...] = ()
    figures: Callable[..., dict[str, Any]] | None = None
    values: Callable[..., list[float]] | None = None
    summary: Callable[..., tuple[str, Any]] | None = None  # of a store, beside or instead of rows
    quick_samples: int = 200_000
    needs_data: bool = False  # from --data-dir
    shares: str = ""  # the experiment of the paper's numbers, where they are another's

    @property
    def numbers(self) -> dict[str, dict[str, tuple[float, float | None]]]:
        return paper_numbers(self.shares or self.name)


@dataclass(frozen=True)
class Fit:
    """One configuration and where it stands in an experiment."""

    row: Row
    dataset: int
    seed: int
    config: Config

    @property
    def name(self) -> str:
        return name(self.config)

    @property
    def label(self) -> str:
        return f"{self.row.name}, data {self.dataset}, seed {self.seed}"


def plan(
    experiment: Experiment,
    *,
    scale: str = "quick",
    protocol: str = "ours",
    only: Sequence[str] = (),
    datasets: Sequence[int] | None = None,
    seeds: Sequence[int] | None = None,
    threads: int = 1,
    data_dir: Path | None = None,
) -> list[Fit]:
    """Every fit of an experiment, fits of the same data together."""
    chosen = choose(experiment, experiment.rows(scale), only)
    found = []
    for row in chosen:
        n_datasets, n_seeds = row.repeats(scale)
        for dataset in range(n_datasets) if datasets is None else datasets:
            for seed in range(n_seeds) if seeds is None else seeds:
                config = configuration(
                    experiment, row, scale, protocol, dataset, seed, threads, data_dir
                )
                found.append(Fit(row, dataset, seed, config))
    order = {key: i for i, key in reversed(list(enumerate(_data_key(f) for f in found)))}
    return sorted(found, key=lambda f: order[_data_key(f)])


def grid_of(scale: str, grids: Mapping[str, T]) -> T:
    """Of grids by scale; `standard` has the paper's where it has none of its own."""
    return grids["paper" if scale == "standard" and scale not in grids else scale]


def choose(experiment: Experiment, rows: Sequence[Row], only: Sequence[str]) -> list[Row]:
    """Rows whose name is, or matches, one of `only` (as file names are matched); all if empty."""
    for pattern in only:
        if not any(fnmatchcase(row.name, pattern) for row in rows):
            raise InputError(
                f"--only: no row of {experiment.name} is {pattern!r}; it has "
                f"{', '.join(row.name for row in rows)}"
            )
    return [r for r in rows if not only or any(fnmatchcase(r.name, pattern) for pattern in only)]


def configuration(
    experiment: Experiment,
    row: Row,
    scale: str,
    protocol: str,
    dataset: int,
    seed: int,
    threads: int = 1,
    data_dir: Path | None = None,
) -> Config:
    data, where = dict(row.data), dict[str, str]()
    if experiment.needs_data:
        data, where = recording(data, data_dir, dataset)
    elif "trials" in data or "steps" in data:
        most = experiment.quick_samples if scale == "quick" else SAMPLES[scale]
        if scale == "standard" and row.sized:
            most = MILLION
        data |= size(data["trials"], data["steps"], most, scale)
    model = dict(row.model)
    if scale == "smoke" and "n_modes" in model:
        model["n_modes"] = min(model["n_modes"], SMOKE_MODES)
    if "baseline" in model:
        training: dict[str, Any] = {}  # how long is in the model's settings
    else:
        training = train_as(row, scale, protocol)
    config = {
        "code": CODE,
        "data": data | {"dataset": dataset},
        "model": model,
        "control": row.control,
        "training": training,
        "settings": protocol_settings(training["protocol"]) if training else None,
        "post_hoc": row.post_hoc,
        "fresh": row.fresh,
        "seed": seed,
        "threads": threads,
    }
    plain: Config = json.loads(json.dumps(config))  # as it is read back: lists, no tuples
    return plain | {"where": where}


def protocol_settings(protocol: str) -> dict[str, Any]:
    """All of a training protocol: its settings, and whether parts and data may change them."""
    settings, adapts = PROTOCOLS[protocol]
    return {**vars(settings), "adapts": adapts}


def train_as(row: Row, scale: str, protocol: str) -> dict[str, Any]:
    """Arguments of DCL that say how to train."""
    # No judge: models on the same data are compared after the same training, baselines too.
    unjudged = {"protocol": "default", "settings": {"validation": 0.0}}
    training: dict[str, Any] = unjudged | dict(row.our_training)
    if protocol == "paper":
        training = {"protocol": f"paper-{row.family}"} | dict(row.paper_training)
        if scale == "quick":
            steps = training.get("max_iter", PROTOCOLS[training["protocol"]].settings.max_iter)
            training["max_iter"] = round(QUICK_SHARE * steps)
    if scale == "smoke":
        training |= SMOKE | ({"n_negatives": 256} if protocol == "paper" else {})
    return training


def size(trials: int, steps: int, most: int | None, scale: str) -> dict[str, int]:
    if most is None:
        return {"trials": trials, "steps": steps}
    if scale == "smoke" and trials > 1:
        steps = min(steps, SMOKE_STEPS)
    steps = min(steps, most)
    return {"trials": min(trials, max(1, most // steps)), "steps": steps}


def recording(
    data: dict[str, Any], folder: Path | None, dataset: int
) -> tuple[dict[str, Any], Any]:
    """A file of --data-dir: its content goes into the name, its path does not."""
    pattern = data["file"]
    if folder is None:
        raise InputError(f"--data-dir: missing; wanted the folder that holds {pattern}")
    found = sorted(p for p in Path(folder).glob(pattern) if p.suffix in (".npz", ".npy", ".csv"))
    if dataset >= len(found):
        raise InputError(
            f"--data-dir: {folder} holds {len(found)} files {pattern} (.npz, .npy or .csv); "
            f"wanted at least {dataset + 1}"
        )
    path = found[dataset].resolve()
    return data | {"file": path.name, "sha256": _content(path)}, {"path": str(path)}


@cache
def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def name(config: Config) -> str:
    """Hash of all that a result depends on; where the files lie is not part of it."""
    essential = {k: v for k, v in config.items() if k != "where"}
    text = json.dumps(essential, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def paper_numbers(name: str) -> dict[str, dict[str, tuple[float, float | None]]]:
    """Row → metric → (mean, std) as fractions, from paper/NAME.json; empty where it prints none.

    A std is None where the paper prints a mean alone.
    """
    file = files("dynacl.experiments") / "paper" / f"{name}.json"
    if not file.is_file():
        return {}
    table = json.loads(file.read_text())
    unit = table["unit"]
    return {
        row: {
            metric: (mean * unit[metric], None if std is None else std * unit[metric])
            for metric, (mean, std) in of.items()
        }
        for row, of in table["rows"].items()
    }


def _data_key(fit: Fit) -> str:
    return json.dumps(fit.config["data"], sort_keys=True)
