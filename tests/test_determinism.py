"""Same seed, same result: in every process, for every dynamics model."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from determinism import learned
from dynacl import DCL, dynamics, metrics, simulate
from dynacl.experiments.fitting import threads

# Of the spread of the latents, between one thread and two. Sums over threads round differently,
# which grows with every step of a training; these fits are short.
BETWEEN_THREADS = 1e-3


@pytest.fixture(scope="module")
def here():
    """What is learned in this process, which has done other things before."""
    return learned()


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """The same in a process of its own."""
    out = tmp_path_factory.mktemp("determinism") / "learned.npz"
    script = Path(__file__).with_name("determinism.py")
    subprocess.run([sys.executable, "-W", "ignore", script, out], check=True)
    return dict(np.load(out))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", dynamics.BY_NAME)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_process_learns_the_same_bit_for_bit(name, threads, here, there):
    for part in ("weights", "latents"):
        key = f"{threads}.{name}.{part}"
        np.testing.assert_array_equal(there[key], here[key])


@pytest.mark.parametrize("name", dynamics.BY_NAME)
def test_two_threads_learn_what_one_does_but_for_rounding(name, there):
    one, two = (there[f"{n}.{name}.latents"] for n in (1, 2))
    assert np.abs(two - one).max() <= BETWEEN_THREADS * one.std()


def test_a_whole_training_ends_at_the_same_state_with_one_thread_and_with_two():
    """Long enough for differences to grow, and large enough for threads to share the work."""
    data = simulate.lds(rng=np.random.default_rng(0), d=2, trials=20, steps=100, layers=2)
    found = []
    for n in (1, 2):
        with threads(n):
            model = DCL(2, max_iter=100, batch_size=512, validation=False, random_state=0)
            found.append(np.concatenate(model.fit(data).transform(data)))
    one, two = found
    assert metrics.r2(one, two) > 0.999
    assert np.abs(two - one).max() < 0.05 * one.std()
