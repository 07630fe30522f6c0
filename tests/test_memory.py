"""Memory between steps: page faults are counted, not seconds."""

import json
import platform
import subprocess
import sys

import pytest

libc, version = platform.libc_ver()
pytestmark = pytest.mark.skipif(
    libc != "glibc" or tuple(map(int, version.split("."))) < (2, 35),
    reason="only glibc's allocator, from 2.35 on, can be told to keep memory",
)

# In a process of its own: what other tests left in the heap would count too.
PROBE = """
import json, resource
import torch
from dynacl.memory import kept_memory

def faults_of_large_arrays():
    for _ in range(12):  # 64 MB each; the first ones are new, until the heap has room
        torch.ones(64 << 18)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(40):  # where the heap is cut up, one or two of them need a new place
        torch.ones(64 << 18)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20

usual = faults_of_large_arrays()
with kept_memory():
    kept = faults_of_large_arrays()
    inside = resident()
print(json.dumps([usual, kept, inside - resident()]))
"""


def test_large_arrays_are_used_again_inside_and_given_back_after():
    printed = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True).stdout
    usual, kept, given_back = json.loads(printed)
    assert kept < usual / 10
    assert given_back >= 60  # MB
