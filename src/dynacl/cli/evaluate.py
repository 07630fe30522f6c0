"""`dynacl evaluate`: a fitted model beside the truth of a simulated data set."""

from __future__ import annotations

import argparse

from dynacl.cli.files import print_spectrum, print_table, read
from dynacl.cli.options import add_data, add_run, add_shared
from dynacl.dynamics import BY_NAME

EXAMPLE = "dynacl evaluate runs/slds slds.npz --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_data(parser)
    parser.add_argument(
        "--post-hoc", choices=list(BY_NAME), help="judge dynamics fitted afterwards"
    )
    parser.add_argument("--train", metavar="FILE", help="the training data, where DATA is new: fit "
                        "the affine map to the truth there too (r2_train_map)")  # fmt: skip
    add_shared(parser, "--seed", "--json", "--device")


def run(options: argparse.Namespace) -> None:
    from dynacl.estimator import DCL
    from dynacl.evaluation import evaluate
    from dynacl.flows import equations, no_equations
    from dynacl.persistence import to_json

    model, series = DCL.load(options.run, device=options.device), read(options)
    train = None if options.train is None else read(options, options.train)
    found = evaluate(model, series, post_hoc=options.post_hoc, train=train, seed=options.seed)
    flow = None if no_equations(model, series) else equations(model, series)
    if options.json:
        spectrum = model.spectrum_
        found["spectrum"] = None if spectrum is None else spectrum.as_dict()
        if flow is not None:
            found["equations"] = {k: flow[f"{k}_text"] for k in ("recovered", "true")}
        print(to_json(found))
        return
    print_table(found)
    print_spectrum(model)
    if flow is not None:
        for mine, true in zip(flow["recovered_text"], flow["true_text"], strict=True):
            print(f"  found  {mine}\n  true   {true}")
