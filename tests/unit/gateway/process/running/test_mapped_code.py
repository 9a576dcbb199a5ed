"""Code that is as its file has it is given back after a start; nothing else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.process.running import mapped_code
from gateway.process.running.mapped_code import unchanged_code

LIBRARY = """\
7f00000-7f01000 r--p 00000000 fe:00 7                          /usr/lib/lib one.so
Rss:                   4 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
7f01000-7f05000 r-xp 00001000 fe:00 7                          /usr/lib/lib one.so
Rss:                  12 kB
Anonymous:             0 kB
7f05000-7f07000 r--p 00005000 fe:00 7                          /usr/lib/lib one.so
Rss:                   8 kB
Anonymous:             8 kB
7f07000-7f08000 rw-p 00007000 fe:00 7                          /usr/lib/lib one.so
Rss:                   4 kB
Anonymous:             0 kB
"""
OTHERS = """\
7e00000-7e01000 r--p 00000000 fe:00 9                          /var/lib/hedgerow/log/1.segment
Rss:                   4 kB
Anonymous:             0 kB
7e10000-7e11000 r-xs 00000000 fe:00 8                          /usr/lib/shared.so
Rss:                   4 kB
Anonymous:             0 kB
7d00000-7d01000 r-xp 00000000 00:00 0                          [vdso]
Rss:                   4 kB
Anonymous:             0 kB
7c00000-7c01000 r-xp 00000000 00:00 0
Rss:                   4 kB
Anonymous:             0 kB
7b00000-7b01000 r-xp 00000000 fe:00 6                          /usr/lib/unused.so
Rss:                   0 kB
Anonymous:             0 kB
"""
PROGRAM = """
import ctypes, hashlib, json, socket, ssl
from gateway.process.running import mapped_code

def code_kib():
    with mapped_code.MAPPINGS.open() as smaps:
        return sum(one.resident_kib for one in mapped_code.unchanged_code(smaps))

before_kib = code_kib()
given_kib = mapped_code.give_back()
left_kib = code_kib()
assert json.loads("[1]") == [1]
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
ssl.create_default_context()
print(before_kib, given_kib, left_kib)
"""


def test_what_a_library_has_unchanged_is_code_to_give_back() -> None:
    found = unchanged_code(LIBRARY.splitlines(keepends=True))
    assert [(one.start, one.size_bytes) for one in found] == [
        (0x7F00000, 0x1000),
        (0x7F01000, 0x4000),
    ]


def test_files_that_are_no_code_and_memory_of_no_file_stay() -> None:
    assert unchanged_code(OTHERS.splitlines(keepends=True)) == []
    assert unchanged_code([]) == []


def test_a_process_runs_on_by_code_that_it_has_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    before_kib, given_kib, left_kib = map(int, done.stdout.split())
    assert given_kib > before_kib / 2
    assert left_kib < before_kib


def test_where_mappings_are_not_told_nothing_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_code, "MAPPINGS", tmp_path / "smaps")
    assert mapped_code.give_back() == 0
