"""Goal: no input costs more work than its sender may cause, whatever it is made of.

Method: each parser gets the shapes that cost it most, at the largest size that it looks at, and the
lines of Python that are carried out are counted: the same number on each machine. What is measured
in time, and a search for shapes that nobody thought of, is ``python tests/fuzz work``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

import work

SHAPES = [(name, shape) for name, parser in work.PARSERS.items() for shape in parser.shapes]


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_the_dearest_inputs_of_a_parser_cost_what_their_sender_may_cause(
    name: str, shape: str
) -> None:
    parser = work.PARSERS[name]
    data = parser.shapes[shape](parser.most_bytes)
    assert len(data) <= parser.most_bytes
    assert work.lines(parser.run, data, parser.most_lines) <= parser.most_lines


def test_a_parser_without_a_bound_is_found_out() -> None:
    def loops(data: bytes) -> int:
        count = 0
        for _ in data:
            count += 1
        return count

    assert work.lines(loops, bytes(1_000), 500) == 501
    assert work.lines(loops, bytes(100), 500) < 500
