"""A text is shown as a QR code that a telephone reads from the screen (ISO/IEC 18004)."""

from __future__ import annotations

import segno

from gateway.tools.commands import qr

TEXT = "hedgerow-enrol://gw-c@10.0.0.1:8890/AAAA/BBBB"
QUIET = 4
"""Modules of light around a code (section 9.1)."""
BLOCKS = {" ": (0, 0), "\u2580": (1, 0), "\u2584": (0, 1), "\u2588": (1, 1)}


def test_the_lines_for_a_terminal_are_the_modules_of_the_code_with_its_quiet_zone() -> None:
    lines = qr.code(TEXT).splitlines()
    modules = [[int(one) for one in row] for row in segno.make(TEXT, error="m", micro=False).matrix]
    side = len(modules) + 2 * QUIET
    rows = [[BLOCKS[char][half] for char in line] for line in lines for half in (0, 1)]
    assert {len(row) for row in rows} == {side}
    assert (len(rows) + 1) // 2 * 2 == side + side % 2
    dark = [[1 - one for one in row] for row in rows[:side]]  # light modules are what is written
    assert [row[QUIET:-QUIET] for row in dark[QUIET : side - QUIET]] == modules
    assert not any(map(any, dark[:QUIET]))


def test_a_file_is_black_on_white_whatever_stands_behind_it() -> None:
    file = qr.picture(TEXT)
    assert file.startswith(b"<?xml")
    assert b'fill="#fff"' in file
    side = len(segno.make(TEXT, error="m", micro=False).matrix) + 2 * QUIET
    assert f'width="{side * 4}" height="{side * 4}"'.encode() in file
    assert qr.drawing(TEXT).startswith("<svg ")
