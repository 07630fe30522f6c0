"""Memory between steps: page faults are counted, not seconds."""

import platform
import resource

import pytest
import torch

from dynacl.memory import kept_memory

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told to keep memory"
)


def faults_of_large_arrays():
    for _ in range(3):  # 64 MB each; the first ones are new in any case
        torch.ones(64 << 18)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(64 << 18)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_large_arrays_are_used_again_inside_and_given_back_after():
    usual = faults_of_large_arrays()
    with kept_memory():
        kept = faults_of_large_arrays()
    assert kept < usual / 10
    assert faults_of_large_arrays() > 10 * kept
