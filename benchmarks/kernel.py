"""The C kernel against textbook PyTorch: loss and gradients of one batch, time and memory.

    python -m benchmarks.kernel

Both are measured in the same run, as medians, because the machine is never quiet. Also printed: how
many vector operations a pair takes, and how many the machine can do.
"""

from __future__ import annotations

import ctypes
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import peak
from dynacl import info_nce
from dynacl.objective import native

SIZES = [  # d, B, M; eager PyTorch needs 2 to 3 GB for the large ones
    (6, 2048, 65536),
    (3, 2048, 4096),
    (6, 2048, 4096),
    (1, 2048, 4096),
    (13, 2048, 4096),
    (32, 2048, 4096),
    (64, 2048, 4096),
    (128, 2048, 4096),
    (6, 130, 4099),
    (3, 64, 64),
]

FMA = """
typedef float v __attribute__((vector_size(64)));
float fma_peak(long n) {  // 16 independent chains: enough to hide the latency of two units
    v a[16]; for (int i = 0; i < 16; i++) a[i] = (v){0} + (float)i;
    v x = (v){0} + 0.999f, y = (v){0} + 1e-3f;
    for (long k = 0; k < n; k++) {
        for (int i = 0; i < 16; i++) a[i] = a[i] * x + y;
        __asm__ volatile("" : "+v"(x));
    }
    float s = 0; for (int i = 0; i < 16; i++) s += a[i][0];
    return s;
}
"""


def eager(q: Tensor, following: Tensor, k: Tensor) -> Tensor:
    """The textbook: the whole matrix of distances, logsumexp, and autograd."""
    positive = -(q - following).square().sum(1)
    others = -torch.cdist(q, k).square()
    return (torch.cat([positive[:, None], others], 1).logsumexp(1) - positive).mean()


def ours(q: Tensor, following: Tensor, k: Tensor) -> Tensor:
    return info_nce(q, following, k).total


def measure(repeats: int = 7) -> list[dict[str, Any]]:
    """One row per size: milliseconds for loss and gradients, eager and native, and memory."""
    rows = []
    for d, n_rows, n_keys in SIZES:
        generator = torch.Generator().manual_seed(0)
        q = torch.randn(n_rows, d, generator=generator).requires_grad_()
        k = torch.randn(n_keys, d, generator=generator).requires_grad_()
        f = torch.randn(n_rows, d, generator=generator).requires_grad_()

        def step(loss: Callable[..., Tensor], q: Tensor = q, f: Tensor = f, k: Tensor = k):
            return lambda: torch.autograd.grad(loss(q, f, k), (q, f, k))

        fast, slow = step(ours), step(eager)
        memory = peak_extra_mb(fast)
        few = 2 if n_rows * n_keys > 1e8 else repeats
        fast_ms, slow_ms = interleaved(fast, slow, repeats, few)
        rows.append(
            {
                "what": f"loss: d {d}, {n_rows} x {n_keys}",
                "d": d,
                "B": n_rows,
                "M": n_keys,
                "eager_ms": slow_ms,
                "native_ms": fast_ms,
                "ratio": slow_ms / fast_ms,
                "native_extra_mb": memory,
            }
        )
    return rows


def interleaved(
    fast: Callable[[], object], slow: Callable[[], object], n_fast: int, n_slow: int
) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    fast()
    for i in range(max(n_fast, n_slow)):
        for which, n, out in ((fast, n_fast, times[0]), (slow, n_slow, times[1])):
            if i < n:
                start = time.perf_counter()
                which()
                out.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[0]), statistics.median(times[1])


def peak_extra_mb(work: Callable[[], object]) -> float:
    """How far the process's memory rises above what it has now."""
    before = peak.forget()
    work()
    return peak.megabytes() - before


def fma_peak() -> float | None:
    """Measured 16-lane multiply-adds per second, all threads together."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "fma.c", Path(folder) / "fma.so"
        source.write_text(FMA)
        command = [compiler, "-O3", "-march=native", "-fPIC", "-shared", "-o", library, source]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        run = ctypes.CDLL(str(library)).fma_peak
    n, n_threads = 20_000_000, torch.get_num_threads()
    threads = [threading.Thread(target=run, args=(ctypes.c_long(n),)) for _ in range(n_threads)]
    start = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return 16 * n * n_threads / (time.perf_counter() - start)


def operations(d: int) -> int:
    """Vector operations on the two arithmetic ports for 16 pairs, forward and backward.

    Each side: start 1, dot product d, maximum or weight 1, comparison 1, exponential 10, sum 1,
    gradient d. (At large scales the differences cost 2d more, but most exponentials are skipped.)
    """
    return 2 * (2 * d + 14)


def main() -> None:
    if not native.available():
        raise SystemExit("no native kernel here: no C compiler, or DYNACL_NATIVE=0")
    peak = fma_peak()
    print(f"{torch.get_num_threads()} threads; vector multiply-adds: ", end="")
    print("unknown" if peak is None else f"{peak / 1e9:.2f} G/s = {32 * peak / 1e9:.0f} GFLOP/s")
    print(f"{'d':>4} {'B':>5} {'M':>6} {'eager ms':>9} {'native ms':>9} {'ratio':>6} ", end="")
    print(f"{'extra MB':>8} {'limit ms':>8} {'of limit':>8}")
    for r in measure():
        line = f"{r['d']:4} {r['B']:5} {r['M']:6} {r['eager_ms']:9.2f} {r['native_ms']:9.2f} "
        line += f"{r['ratio']:6.1f} {r['native_extra_mb']:8.1f}"
        if peak is not None:
            limit = 1e3 * operations(r["d"]) * r["B"] * r["M"] / 16 / peak
            line += f" {limit:8.2f} {limit / r['native_ms']:8.0%}"
        print(line)


if __name__ == "__main__":
    main()
