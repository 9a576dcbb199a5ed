"""Colours of `hedgerow top`, in a terminal that has them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

DRAWS = """
from gateway.tools.top.styled_text import Style
from gateway.tools.top.terminal import opened
with opened() as terminal:
    terminal._screen.addstr("bad", terminal._attributes[Style.WRONG])
    terminal._screen.refresh()
"""


@pytest.mark.parametrize(("value", "coloured"), [(None, True), ("", True), ("1", False)])
def test_no_colour_is_drawn_where_no_color_has_a_value(value: str | None, coloured: bool) -> None:
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    if value is not None:
        environment["NO_COLOR"] = value
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-c", DRAWS], stdin=theirs, stdout=theirs, env=environment, check=True
        )
        drawn = os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"bad" in drawn
    assert (b"\x1b[31m" in drawn) is coloured
