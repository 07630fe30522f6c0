"""Same seed, same result: wherever the data lie in memory, and whatever the process did before."""

import numpy as np
import pytest
import torch

from dynacl import DCL, TimeSeries, simulate

SYSTEMS = {
    "linear": simulate.lds(rng=np.random.default_rng(0), trials=12, steps=60, observed=20),
    "switching": simulate.slds(
        rng=np.random.default_rng(0), d=3, modes=2, trials=12, steps=60, observed=20, layers=2
    ),
}


def at(x, offset):
    """A copy of x that begins so many bytes after a multiple of 64."""
    room = np.empty(x.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    copy = room[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[:] = x
    assert copy.ctypes.data % 64 == offset
    return copy


def used_heap(seed):
    """Holes of all sizes, filled with numbers that a careless routine would take for its own."""
    rng = np.random.default_rng(seed)
    sizes = [*rng.integers(1, 30_000, 200).tolist(), *rng.integers(1, 40, 2000).tolist()]
    blocks = [torch.from_numpy(rng.integers(0, 2, n, np.int32)).clone() for n in sizes]
    return blocks[::3]


@pytest.mark.parametrize("name", SYSTEMS)
def test_place_in_memory_and_what_was_before_do_not_matter(name):
    data = SYSTEMS[name]
    found = []
    for i, offset in enumerate((0, 4, 16, 36)):
        kept = used_heap(i)
        losses: list[float] = []
        series = TimeSeries(at(data.observations, offset), data.bounds)
        model = DCL(3, name, 2, max_iter=12, batch_size=128, random_state=0, device="cpu")
        model.fit(series, callback=lambda run, record, to=losses: to.append(record["loss"]))
        weights = [*model.encoder_.state_dict().values(), *model.dynamics_.state_dict().values()]
        found.append((losses, weights, np.concatenate(model.transform(series))))
        del kept
    for losses, weights, x in found[1:]:
        assert losses == found[0][0]
        assert all(map(torch.equal, weights, found[0][1]))
        np.testing.assert_array_equal(x, found[0][2])


def test_seed_decides():
    data = SYSTEMS["linear"]
    one, other = (
        DCL(3, max_iter=2, batch_size=64, random_state=seed).fit(data).transform(data)[0]
        for seed in (0, 1)
    )
    assert not np.array_equal(one, other)
