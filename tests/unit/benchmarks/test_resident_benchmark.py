"""The benchmark of resident memory sums the pages of a process by the file that is mapped."""

from __future__ import annotations

from benchmarks.resident import parsed, rows

SMAPS = """\
55e0-55f0 r--p 00000000 fe:00 1 /usr/bin/python3.11
Size:               2048 kB
Rss:                1024 kB
VmFlags: rd mr mw me sd
55f0-5600 rw-p 00100000 fe:00 1 /usr/bin/python3.11
Rss:                 512 kB
5600-5700 rw-p 00000000 00:00 0 [heap]
Rss:                 600 kB
5700-5800 rw-p 00000000 00:00 0
Rss:                2048 kB
5800-5900 r-xp 00000000 fe:00 2 /x/site-packages/gateway/a.cpython-311.so
Rss:                   4 kB
"""


def test_pages_are_summed_by_what_is_mapped() -> None:
    assert parsed(SMAPS.splitlines()) == {
        "python3.11": 1536,
        "heap of glibc": 600,
        "anonymous: objects of Python, stacks, arenas": 2048,
        "compiled modules of ours": 4,
    }


def test_what_is_small_is_one_row() -> None:
    assert list(rows(parsed(SMAPS.splitlines()))) == [
        "| all | 4.1 |",
        "| anonymous: objects of Python, stacks, arenas | 2.0 |",
        "| python3.11 | 1.5 |",
        "| heap of glibc | 0.6 |",
        "| what takes less than 0.5 MiB each | 0.0 |",
    ]
