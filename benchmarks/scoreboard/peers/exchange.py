"""What a script gets and gives: arrays in .npz files. It runs under the Python of its peer."""

import sys
import time

import numpy as np


class Clock:
    """Processor time of a fit, and of what is counted apart (compilation, probing)."""

    def __init__(self):
        self.fit = self.apart = 0.0

    def timed(self, work, apart=False):
        started = time.process_time()
        found = work()
        seconds = time.process_time() - started
        self.apart += seconds if apart else 0.0
        self.fit += 0.0 if apart else seconds
        return found

    def steps_within(self, seconds, work, steps, most):
        """How many steps fit into these seconds: after a first fit, n steps take a + b n."""
        self.timed(lambda: work(1), apart=True)
        taken = []
        for n in (steps, 4 * steps):
            before = self.apart
            self.timed(lambda n=n: work(n), apart=True)
            taken.append(self.apart - before)
        each = max((taken[1] - taken[0]) / (3 * steps), 1e-9)
        fixed = max(taken[0] - each * steps, 0.0)
        return max(1, min(most, int((seconds - fixed) / each)))


def main(methods):
    """methods: name -> function of the task and a clock, which returns arrays by name."""
    given, out, method = sys.argv[1:]
    with np.load(given) as file:
        task = {name: file[name] for name in file.files}
    clock = Clock()
    found = methods[method](task, clock)
    np.savez(out, **found, fit_seconds=clock.fit, apart_seconds=clock.apart)


def trials(values, lengths):
    return np.split(values, np.cumsum(lengths)[:-1])


def linear_ahead(train, lengths, test, steps):
    """Where states are some steps on, by the least-squares map of one step."""
    parts = trials(train, lengths)
    now, then = (np.concatenate([p[s] for p in parts]) for s in (slice(-1), slice(1, None)))
    ones = np.ones((len(now), 1))
    found = np.linalg.lstsq(np.hstack([now, ones]), then, rcond=None)[0]
    for _ in range(steps):
        test = np.hstack([test, np.ones((len(test), 1))]) @ found
    return test


def principal(train, test, d):
    mean = train.mean(0)
    axes = np.linalg.svd(train[:: max(1, len(train) // 20_000)] - mean, full_matrices=False)[2][
        :d
    ].T
    return (train - mean) @ axes, (test - mean) @ axes
