"""`dynacl evaluate`: judges a model by its predictions, beside surrogates and beside the truth."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dynacl.cli.files import print_spectrum, print_table, read
from dynacl.cli.options import add_data, add_run, add_shared
from dynacl.data import InputError, TimeSeries
from dynacl.dynamics import BY_NAME

if TYPE_CHECKING:
    from dynacl.estimator import DCL
    from dynacl.without_truth import Evidence

EXAMPLE = """\
dynacl evaluate runs/mine recording.npz
dynacl evaluate runs/mine recording.npz --seeds 5 --mean-embedding z.csv
dynacl evaluate runs/mine recording.npz --nulls none --label-key position
dynacl evaluate runs/slds slds.npz --json"""
NONE = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_data(parser)
    parser.add_argument("--nulls", metavar="NAMES", help="surrogates that the model is refitted "
                        "to: shuffle, phase, shift (of u), separated by commas, or none "
                        "(default: shuffle,phase; none for data with truth)")  # fmt: skip
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="number of runs from "
                        "different random numbers, to see how alike they are (default: 1)"
                        )  # fmt: skip
    parser.add_argument("--mean-embedding", metavar="FILE", help="with --seeds: the mean of the "
                        "runs' aligned latents, as .npz, .npy or .csv")  # fmt: skip
    parser.add_argument("--refit-iter", type=int, metavar="N", help="training steps of a refit "
                        "(default: as many as the model took)")  # fmt: skip
    parser.add_argument(
        "--post-hoc", choices=list(BY_NAME), help="with truth: judge dynamics fitted to the latents"
    )
    parser.add_argument("--train", metavar="FILE", help="with truth: the training data, if DATA "
                        "are new; the affine map to the truth is fitted there, too (r2_train_map)"
                        )  # fmt: skip
    add_shared(parser, "--seed", "--force", "--quiet", "--json", "--device")


def run(options: argparse.Namespace) -> None:
    from dynacl.behaviour import decode_labels, table
    from dynacl.estimator import DCL
    from dynacl.evaluation import against_truth
    from dynacl.flows import equations, no_equations
    from dynacl.persistence import to_json

    model, series = DCL.load(options.run, device=options.device), read(options)
    if options.mean_embedding is not None:
        _check_embedding(options)
    found: dict[str, Any] = {}
    if series.truth is not None:
        train = None if options.train is None else read(options, options.train)
        how = {"post_hoc": options.post_hoc, "train": train, "seed": options.seed}
        found = against_truth(model, series, **how)
    elif options.post_hoc or options.train:
        option = "--post-hoc" if options.post_hoc else "--train"
        raise InputError(f"{option}: given, but {options.data} carries no true latents")
    labels = decode_labels(model, series, seed=options.seed) if series.labels else {}
    weighed = _weighed(model, series, options)
    flow = None if no_equations(model, series) else equations(model, series)
    if weighed is not None and options.mean_embedding is not None:
        _write_embedding(model, series, weighed, options.mean_embedding)
    if options.json:
        found |= {} if weighed is None else weighed.as_dict()
        if labels:
            found["labels"] = {name: one.as_dict() for name, one in labels.items()}
        spectrum = model.spectrum_
        found["spectrum"] = None if spectrum is None else spectrum.as_dict()
        if flow is not None:
            found["equations"] = {k: flow[f"{k}_text"] for k in ("recovered", "true")}
        print(to_json(found))
        return
    if found:
        print_table(found)
    print_spectrum(model)
    if flow is not None:
        for mine, true in zip(flow["recovered_text"], flow["true_text"], strict=True):
            print(f"  found  {mine}\n  true   {true}")
    if labels:
        print(table(labels))
    if weighed is not None:
        print(weighed)


def _weighed(model: DCL, series: TimeSeries, options: argparse.Namespace) -> Evidence | None:
    """Predictions, and refits; None: simulated trials that are too short to predict."""
    from dynacl.without_truth import evidence

    asked = options.nulls or (NONE if series.truth is not None else "shuffle,phase")
    nulls = [] if asked == NONE else [name.strip() for name in asked.split(",")]
    try:
        return evidence(
            model, series, nulls=nulls, seeds=options.seeds, refit_iter=options.refit_iter,
            seed=options.seed, verbose=not options.quiet,
        )  # fmt: skip
    except InputError:
        if series.truth is not None and not nulls and options.seeds == 1:
            return None
        raise


def _check_embedding(options: argparse.Namespace) -> None:
    from dynacl.cli.files import new_file
    from dynacl.data.formats import BY_SUFFIX

    if options.seeds < 2:
        raise InputError("--mean-embedding: is of several runs; wanted --seeds of at least 2")
    new_file(options.mean_embedding, options.force, BY_SUFFIX)


def _write_embedding(model: DCL, series: TimeSeries, found: Evidence, out: str) -> None:
    from pathlib import Path

    import numpy as np

    from dynacl.cli.files import rows_of
    from dynacl.data.formats import write_table

    assert found.consistency is not None
    latents = np.concatenate(found.consistency.embedding).astype(np.float32)
    parts = rows_of(series, model.settings_.past)
    write_table(Path(out), {**parts, "latents": latents}, "latents")
