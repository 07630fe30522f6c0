"""Memory between training steps: kept, not given back and asked for again.

A step with 65,536 negatives frees and wants a few arrays of 50 MB each. glibc returns such arrays
to the system at once, and each page of the next one costs a fault and is cleared: a quarter of the
step's time (docs/log.md). Elsewhere than on glibc this does nothing, and before its version 2.35
little.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
USUAL = {M_MMAP_THRESHOLD: 32 << 20, M_TRIM_THRESHOLD: 64 << 20}  # where glibc's own growth ends
ALWAYS = 1 << 30


@contextmanager
def kept_memory() -> Iterator[None]:
    """Inside, freed memory stays with the process; at the end it goes back to the system."""
    libc = ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
    if libc is None:
        yield
        return
    if not libc.mallopt(M_MMAP_THRESHOLD, ALWAYS):  # glibc before 2.35 has a limit
        libc.mallopt(M_MMAP_THRESHOLD, USUAL[M_MMAP_THRESHOLD])
    libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
    try:
        yield
    finally:
        for option, value in USUAL.items():
            libc.mallopt(option, value)
        libc.malloc_trim(0)
