"""A run: its optimisers, its rates, and what it hands to its parts."""

import math

import pytest
import torch

from dynacl import DCL
from dynacl.dynamics import Linear, SwitchingLinear
from dynacl.encoders import Asymmetric, CustomEncoder
from dynacl.objective import Flat, Sphere
from dynacl.run import Run
from dynacl.settings import Settings


def begun(dynamics=None, encoder=None, geometry=None, **changed):
    encoder = encoder or CustomEncoder(torch.nn.Linear(2, 2))
    generator = torch.Generator().manual_seed(0)
    return Run(encoder, dynamics or Linear(2), Settings(**changed), generator, geometry or Flat())


def test_run_hands_its_generator_and_its_logits_to_the_dynamics():
    run = begun(SwitchingLinear(2, 2), switching_logits="relative")
    assert run.dynamics.choice.generator is run.generator
    assert run.dynamics.choice.logits == "relative"


def test_separate_rates_move_encoder_and_dynamics_separately(trials, small, assert_equal):
    slow = small(protocol="paper-slds", n_negatives=64, learning_rate=1e-30, max_iter=3).fit(trials)
    still = DCL(3, "switching", 2, random_state=0, max_iter=1, protocol="paper-slds",
                n_negatives=64, batch_size=64, learning_rate=1e-30).fit(trials)  # fmt: skip
    assert_equal(list(slow.encoder_.parameters()), list(still.encoder_.parameters()))
    assert not torch.equal(slow.dynamics_.matrices, still.dynamics_.matrices)


@pytest.mark.parametrize("optimizer", ["adam", "soap"])
def test_every_parameter_has_one_optimiser_and_the_similarity_learns_with_the_dynamics(optimizer):
    run = begun(geometry=Sphere(), optimizer=optimizer, learning_rate=0.5)
    owners = {p: g["peak"] for o in run.optimizers for g in o.param_groups for p in g["params"]}
    parts = (run.encoder, run.dynamics, run.geometry)
    assert set(owners) == {p for part in parts for p in part.parameters()}
    assert {owners[p] for p in run.encoder.parameters()} == {0.5}
    assert owners[run.geometry.theta] == owners[run.dynamics.matrix] == 0.01
    frozen = begun(encoder=CustomEncoder(torch.nn.Linear(2, 2).requires_grad_(False)))
    assert [len(g["params"]) for o in frozen.optimizers for g in o.param_groups] == [1]


def test_rates_warm_up_and_fall_as_a_cosine_or_stay():
    run = begun(max_iter=100, learning_rate=1.0)
    rates = []
    for run.step in range(100):
        run.set_rates()
        rates.append(run.optimizers[0].param_groups[0]["lr"])
    assert rates[0] == pytest.approx(0.5)  # a fiftieth of the steps warms up
    for step in range(2, 100):
        assert rates[step] == pytest.approx(0.5 * (1 + math.cos(math.pi * step / 100)))
    still = begun(max_iter=100, learning_rate=1.0, schedule="constant")
    still.step = 99
    still.set_rates()
    assert still.optimizers[0].param_groups[0]["lr"] == 1.0


def test_dynamics_anneal_with_the_training():
    run = begun(SwitchingLinear(2, 2, temperature=(4.0, 1.0)), max_iter=10)
    run.step = 5
    run.set_rates()
    assert run.dynamics.choice.temperature == pytest.approx(2)


def test_horizon_is_one_step_until_it_is_long():
    run = begun(max_iter=10, horizon=4, one_step=0.3)
    seen = []
    for run.step in range(10):
        seen.append(run.horizon)
    assert seen == [1] * 3 + [4] * 7


def test_the_cap_counts_the_negatives_that_a_row_has():
    assert begun(n_negatives=31).cap == 5
    assert begun(batch_size=9).n_negatives == 16  # references and positives, without its own pair
    pair = Asymmetric(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    assert begun(encoder=pair, batch_size=9).n_negatives == 8  # positives alone


def test_the_density_estimate_is_as_wide_as_the_kernel_unless_told():
    assert begun(geometry=Flat(0.25)).bandwidth == 0.25
    assert begun(geometry=Sphere(0.5)).bandwidth == pytest.approx(0.5)
    assert begun(geometry=Flat(0.25), bandwidth=2.0).bandwidth == 2.0


def test_training_goes_on_with_what_it_left_whatever_inference_did():
    run = begun()
    run.rest()
    run.keep_dynamics()
    run.dynamics.matrix.data.mul_(3)
    run.keep_dynamics()  # a second time keeps the first
    assert not run.encoder.training
    run.go_on()
    assert torch.equal(run.dynamics.matrix, torch.eye(2))
    assert run.as_trained is None
    assert run.encoder.training
    assert run.dynamics.training


def test_weight_on_alignment_is_there_where_the_settings_want_it():
    assert begun().emphasis is None
    assert begun(emphasis=3.0).emphasis.most == 3.0
