"""Which modes are used, and which are alike."""

import numpy as np
import pytest
import torch

from dynacl import DCL, TimeSeries, simulate
from dynacl.dynamics import SwitchingLinear
from dynacl.settling import sample
from dynacl.usage import LISTED, alike, cut, listed, sentences, shares, unused
from quick_models import tiny


def test_shares_leave_out_steps_whose_mode_is_not_known():
    np.testing.assert_allclose(shares(np.array([0, 0, 2, -1, 0]), 4), [0.75, 0, 0.25, 0])
    np.testing.assert_array_equal(shares(np.array([-1]), 2), [0, 0])


def test_a_tenth_of_an_even_share_is_the_least_that_is_used():
    assert unused(np.array([0.5, 0.5 - 0.026, 0.026, 0.0])) == [3]
    assert unused(np.array([0.5, 0.5 - 0.024, 0.024, 0.0])) == [2, 3]
    assert unused(np.ones(1)) == []


def steps_of(d, noise=0.01, rank=None, K=3, n=3000):
    """Steps of K different maps: states, modes and what follows. rank: of what the maps add."""
    rng = np.random.default_rng(d)
    x, modes = rng.standard_normal((n, d)), np.arange(n) % K
    rank = d if rank is None else rank
    add = [rng.standard_normal((d, rank)) @ rng.standard_normal((rank, d)) / rank for _ in range(K)]
    maps = np.eye(d) + 0.1 * np.stack(add)
    following = np.einsum("nij,nj->ni", maps[modes], x) + noise * rng.standard_normal((n, d))
    return x, modes, following


def fitted(x, following, n_modes, seed=0):
    """A bank by least squares and argmin in turn, as training has it."""
    bank = SwitchingLinear(x.shape[1], n_modes).double()
    now, then = torch.from_numpy(x), torch.from_numpy(following)
    bank.refit(now, then, generator=torch.Generator().manual_seed(seed), restarts=8)
    modes = bank.best_modes(now, then).numpy()
    return bank.bank(now).detach().numpy(), modes


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_a_regime_that_is_split_in_two_is_seen(d):
    """Four maps fitted to three: whichever is cut in two, into halves of its noise."""
    x, true, following = steps_of(d)
    bank, modes = fitted(x, following, 4)
    counts = np.zeros((3, 4))
    np.add.at(counts, (true, modes), 1)
    owner = counts.argmax(0)
    twins = [(i, j) for i in range(4) for j in range(i + 1, 4) if owner[i] == owner[j]]
    assert len(twins) == 1
    assert alike(bank, modes, following) == twins


@pytest.mark.parametrize(("d", "rank"), [(1, 1), (2, 2), (3, 1), (6, 1), (6, 6)])
def test_regimes_that_differ_are_not_alike(d, rank):
    x, _, following = steps_of(d, rank=rank)
    assert alike(*fitted(x, following, 3), following) == []


def test_a_mode_that_is_hardly_used_is_like_no_other():
    x, modes, following = steps_of(3)
    bank = np.repeat(fitted(x, following, 1)[0], 2, axis=1)
    assert alike(bank, modes % 2, following) == [(0, 1)]
    few = np.zeros_like(modes)
    few[:100] = 1
    assert alike(bank, few, following) == []


def test_gain_of_a_cut_is_the_variance_between_its_parts():
    x = np.random.default_rng(0).standard_normal(400_000)
    for share in (0.5, 0.2, 0.03):
        low = x < np.quantile(x, share)
        between = share * x[low].mean() ** 2 + (1 - share) * x[~low].mean() ** 2
        assert cut(share) == pytest.approx(between, rel=0.01)
    assert cut(0.5) == pytest.approx(2 / np.pi)


def test_a_rare_regime_is_not_taken_for_a_part_of_a_frequent_one():
    """One step in ten: beside what the frequent one misses in all, it gains little."""
    rng = np.random.default_rng(0)
    x, modes = rng.standard_normal((20_000, 3)), (np.arange(20_000) % 10 == 0).astype(int)
    maps = np.stack([np.eye(3), np.eye(3) + 0.15 * rng.standard_normal((3, 3))])
    bank = np.einsum("kij,nj->nki", maps, x)
    following = bank[np.arange(len(x)), modes] + 0.1 * rng.standard_normal(x.shape)
    assert alike(bank, modes, following) == []


def test_sentences_name_the_modes_and_how_little_they_are_used():
    assert sentences(np.array([0.5, 0.5]), []) == []
    usage = np.full(8, 1 / 6)
    usage[[3, 7]] = 1e-4
    (said,) = sentences(usage, [])
    assert said.startswith("modes 3 and 7 of 8 are each used by less than 1.25% of the steps")
    assert sentences(np.array([1.0, 0.0]), [])[0].startswith("mode 1 of 2 is used by less than 5")
    assert sentences(np.array([0.5, 0.5]), [(0, 1)])[0].startswith("modes 0 and 1 predict alike")
    assert listed(range(LISTED + 2)).endswith("7 and 2 more")


@pytest.fixture(scope="module")
def three_for_two(as_it_is):
    """The true maps of two modes, and a third that nothing follows."""
    data = simulate.slds(
        rng=np.random.default_rng(1), d=2, modes=2, angle=60, switch_probability=0.02, trials=6,
        steps=100, mixing="none",
    )  # fmt: skip
    bank = SwitchingLinear(2, 3)
    with torch.no_grad():
        bank.matrices[:2] = torch.from_numpy(data.truth.system["matrices"]).float()
        bank.matrices[2] = -torch.eye(2)
    model = tiny(2, bank, encoder=as_it_is(2), learning_rate=1e-9, dynamics_learning_rate=1e-9,
                 settings={"refit_after": None})  # fmt: skip
    return model.fit(data), data


def test_usage_is_that_of_the_decoded_modes_and_is_kept(three_for_two, tmp_path):
    model, data = three_for_two
    modes = np.concatenate(model.modes(data))
    np.testing.assert_allclose(model.mode_usage_, np.bincount(modes, minlength=3) / len(modes))
    assert model.unused_modes_ == [2]
    assert model.alike_modes_ == []
    model.save(tmp_path)
    loaded = DCL.load(tmp_path, encoder=model.encoder, dynamics=model.dynamics)
    np.testing.assert_array_equal(loaded.mode_usage_, model.mode_usage_)
    assert loaded.unused_modes_ == [2]
    assert loaded.alike_modes_ == []


def test_models_without_hidden_modes_have_no_usage(rotating, two_modes):
    for model in (tiny(3).fit(rotating), tiny(3, "gated", n_modes=2).fit(two_modes)):
        assert model.mode_usage_ is model.unused_modes_ is model.alike_modes_ is None


def test_pieces_that_are_decoded_are_spread_over_the_recording():
    y = np.arange(300_000, dtype=np.float32)[:, None]  # each step its number
    for trial_length in (300_000, 1000, 100):
        series = TimeSeries.of(y, u=y + 0.5, trial_length=trial_length)
        some = sample(series, 5)
        assert 80_000 < len(some) <= 100_000
        assert some.n_trials >= 400
        at = some.observations[:, 0]
        inside = np.setdiff1d(np.arange(1, len(some)), some.bounds)
        assert (at[inside] - at[inside - 1] == 1).all()
        firsts = at[some.bounds[:-1]]
        assert np.diff(firsts).max() < 2_000
        assert at.max() > 298_000
        np.testing.assert_array_equal(some.control[:, 0], at + 0.5)
        crosses = at[some.bounds[:-1]] // trial_length != at[some.bounds[1:] - 1] // trial_length
        assert not crosses.any()
    assert len(sample(series, 1000)) <= 20_000
    short = TimeSeries.of(y[:500])
    assert sample(short, 5) is short


def test_usage_of_many_modes_is_near_that_of_all_the_data():
    """Whole trials would be too few: each has a mode or two of forty."""
    data = simulate.slds(rng=np.random.default_rng(0), d=2, modes=40, trials=300, steps=1000,
                         observed=2, mixing="none")  # fmt: skip
    some = sample(data, 40)
    index = {tuple(row): i for i, row in enumerate(data.observations.tolist())}
    modes = data.truth.modes[[index[tuple(row)] for row in some.observations.tolist()]]
    usage, whole = shares(modes, 40), shares(data.truth.modes, 40)
    assert unused(usage) == unused(whole) == []
    assert np.abs(usage - whole).max() < 0.02
