"""What a turn frees is there for the next one."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

TURNS = 200
BUFFER_BYTES = 300_000
SCRIPT = f"""
import resource
from gateway.process.running import allocator
assert allocator.keep_what_is_freed()
def turn():
    return len(b"".join([bytes({BUFFER_BYTES}), bytes({BUFFER_BYTES})]))
turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({TURNS}):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tells glibc's allocator")
def test_large_buffers_made_again_and_again_cost_no_page_faults() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    pages = TURNS * 4 * BUFFER_BYTES / 4096
    assert int(done.stdout) < pages / 20
