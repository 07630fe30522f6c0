"""A short noisy recording: where in the film is the mouse's cortex? Each repeat held out in turn.

python -m benchmarks.recording                 ten repeats, default settings, d 8, the paper's lags
python -m benchmarks.recording --seeds 5       beside it, consistency of five seeds

Nine repeats of the film train an embedding; in the tenth, the film's frame is read off the ten
nearest training frames (the median of theirs). The error is the median over the frames, in frames
of 900. Beside the default stand 150 steps (once chosen by hand on this recording), the linear start
of every fit, which "start" has with hardly any training, principal components, and a recording
shuffled in time. Every fit is one line in runs/recording.jsonl; fits that are there are not made
again. Needs the folder named by DYNACL_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from dynacl import DCL, metrics
from dynacl.data import Array

OUT = Path("runs/recording.jsonl")
LAGS = (0, 5, 10, 15, 20)  # as in the paper
D = 8
NEIGHBOURS = 10
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "150 steps": {"max_iter": 150},
    "shuffled in time": {},
    "start": {"max_iter": 1},
    "start, shuffled in time": {"max_iter": 1},
}


def repeats() -> list[Array]:
    """The recording, (900, 800) for each of the ten repeats of the film."""
    folder = os.environ.get("DYNACL_DATA")
    found = sorted(Path(folder).glob("allen*800*.npz")) if folder else []
    if not found:
        raise SystemExit("DYNACL_DATA: names no folder with an allen*800*.npz")
    file = np.load(found[0])
    return [file["neural"][file["repeat"] == i].astype(np.float32) for i in range(10)]


def frame_error(train: Sequence[Array], held: Array, past: int = max(LAGS)) -> float:
    """Median distance, in frames, of the frame that neighbours tell from the one that it is."""
    frames = np.concatenate([past + np.arange(len(x)) for x in train])
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(np.concatenate(train))
    told = np.median(frames[near.kneighbors(held, return_distance=False)], axis=1)
    return float(np.median(np.abs(told - past - np.arange(len(held)))))


def shuffled(trials: Sequence[Array], seed: int) -> list[Array]:
    """All frames of the whole recording in random order: nothing follows from anything."""
    order = np.random.default_rng(seed).permutation(sum(map(len, trials)))
    return np.split(np.concatenate(trials)[order], np.cumsum([len(x) for x in trials])[:-1])


def fit(case: str, held: int, seed: int) -> dict[str, Any]:
    trials = repeats()
    if case.endswith("shuffled in time"):
        trials = shuffled(trials, held)
    train = [x for i, x in enumerate(trials) if i != held]
    started = time.perf_counter()
    model = DCL(D, "linear", time_lags=LAGS, random_state=seed, **CASES[case]).fit(train)
    seconds = time.perf_counter() - started
    left = model.transform(trials[held])
    row = {
        "case": case, "held": held, "seed": seed,
        "error": frame_error(model.transform(train), left),
        "score": model.score(train), "held_out_score": model.score([trials[held]]),
        "verdict": model.verdict_, "steps": model.n_iter_, "seconds": round(seconds, 1),
        "embedding": np.round(left, 4).tolist(),
    }  # fmt: skip
    floor = model.run_.floor
    if floor is not None:
        model.run_.restore(floor.weights)
        row["linear_start"] = frame_error(model.transform(train), model.transform(trials[held]))
    return row


def components(held: int) -> float:
    """The frame error of as many principal components of the same windows."""
    trials = repeats()
    past = max(LAGS)
    windows = [
        np.concatenate([x[past - lag : len(x) - lag] for lag in LAGS], axis=1) for x in trials
    ]
    train = [x for i, x in enumerate(windows) if i != held]
    pca = PCA(D, random_state=0).fit(np.concatenate(train))
    return frame_error([pca.transform(x) for x in train], pca.transform(windows[held]))


def kept() -> dict[tuple[str, int, int], dict[str, Any]]:
    if not OUT.exists():
        return {}
    rows = [json.loads(line) for line in OUT.read_text().splitlines()]
    return {(row["case"], row["held"], row["seed"]): row for row in rows}


def summary() -> list[dict[str, Any]]:
    """For each case: the median of the error over the repeats, and consistency over seeds."""
    found = []
    for case in CASES:
        rows = [row for row in kept().values() if row["case"] == case]
        first = [row for row in rows if row["seed"] == 0]
        if not first:
            continue
        shown: dict[str, Any] = {"what": case, "repeats": len(first)}
        for name in ("error", "linear_start", "score", "held_out_score", "seconds"):
            numbers = [row[name] for row in first if name in row]
            if numbers:
                shown[name] = float(np.median(numbers))
        alike = [np.array(row["embedding"]) for row in rows if row["held"] == 9]
        if len(alike) > 1:
            pairs = metrics.consistency(alike, alike)
            off = ~np.eye(len(alike), dtype=bool)
            shown["seeds"], shown["consistency"] = len(alike), float(pairs[off].mean())
        found.append(shown)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--held", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--seeds", type=int, default=1, help="of the fit without repeat 9")
    options = parser.parse_args()
    OUT.parent.mkdir(exist_ok=True)
    wanted = [(case, held, 0) for case in options.cases for held in options.held]
    wanted += [(case, 9, seed) for case in options.cases for seed in range(1, options.seeds)]
    for key in wanted:
        if key in kept():
            continue
        row = fit(*key)
        with OUT.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print({k: v for k, v in row.items() if k != "embedding"}, flush=True)
    from benchmarks.__main__ import store, table

    rows = summary()
    rows.append({"what": "principal components", "error": float(np.median(
        [components(held) for held in options.held]))})  # fmt: skip
    store("recording", rows)
    table(rows)


if __name__ == "__main__":
    main()
