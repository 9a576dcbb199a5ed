"""Goal: no input costs more work than its sender may cause, whatever it is made of.

Method: each parser gets the shapes that cost it most, at the largest size that it looks at, and the
lines of Python that are carried out are counted: the same number on each machine. Of what C makes
no line is carried out: there it is the memory that is counted. What is measured in time, and a
search for shapes that nobody thought of, is ``python tests/fuzz work``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import gateway
from gateway.node.links.clock_part import ClockPart
from gateway.node.links.direct_part import DirectPart
from gateway.node.links.exchange import Exchange
from gateway.node.links.locator_part import LocatorPart
from gateway.node.links.overlay_part import OverlayPart
from gateway.node.links.retained_part import RetainedPart
from gateway.node.links.routed_part import RoutedPart
from gateway.node.signing.certificate_part import CertificatePart
from gateway.node.signing.revocation_part import RevocationPart
from gateway.process.running.substitutes import SubstitutePart

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

import link_parsers
import parser_cost
import work

MADE_BYTES = {
    parser_cost.STRANGER: 4 << 20,
    parser_cost.CLIENT: 16 << 20,
    parser_cost.MEMBER: 32 << 20,
}
"""The most bytes that C code may make of one input, by its sender."""
HOSTILE_BYTES = 1 << 20
"""More bytes than any honest gateway sends; more would show no more."""
SHAPES = [(name, shape) for name, parser in work.PARSERS.items() for shape in parser.shapes]


def made_bytes_max(name: str) -> int:
    return MADE_BYTES[work.PARSERS[name].who]


@pytest.mark.drawn(50)
@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_the_dearest_inputs_of_a_parser_cost_what_their_sender_may_cause(
    name: str, shape: str
) -> None:
    parser = work.PARSERS[name]
    data = parser.shapes[shape](parser.most_bytes)
    assert len(data) <= parser.most_bytes
    assert parser_cost.lines(parser.run, data, parser.most_lines) <= parser.most_lines
    assert parser_cost.made_bytes(parser.run, data) <= made_bytes_max(name)


def test_a_parser_without_a_bound_is_found_out() -> None:
    def loops(data: bytes) -> int:
        count = 0
        for _ in data:
            count += 1
        return count

    assert parser_cost.lines(loops, bytes(1_000), 500) == 501
    assert parser_cost.lines(loops, bytes(100), 500) < 500


LINK_PARSERS = [
    name
    for name, parser in link_parsers.MEMBERS.items()
    if name not in {"announcement", "BPDU", "records of an answer"}
]


@pytest.fixture(scope="module")
def hostile() -> dict[str, bytes]:
    return {name: shape(HOSTILE_BYTES) for name, shape in link_parsers.HOSTILE.items()}


@pytest.mark.parametrize("name", LINK_PARSERS)
def test_no_message_of_another_gateway_makes_more_objects_than_an_honest_one(
    name: str, hostile: dict[str, bytes]
) -> None:
    parser = link_parsers.MEMBERS[name]
    for shape, packed in hostile.items():
        data = link_parsers.in_batch(packed) if name == "batch" else packed
        assert parser_cost.made_bytes(parser.run, data) <= made_bytes_max(name), shape


def test_each_topic_of_a_link_has_a_parser_that_is_measured() -> None:
    parts: list[Any] = [
        *(Exchange, CertificatePart, RevocationPart, ClockPart, DirectPart),
        *(LocatorPart, OverlayPart, RetainedPart, RoutedPart, SubstitutePart),
    ]
    topics = frozenset[bytes]().union(*(part.topics for part in parts))
    assert topics == link_parsers.TOPICS.keys()
    assert {part.__name__ for part in parts if part is not Exchange} == _parts()


def _parts() -> set[str]:
    """The classes that say which topics of links are theirs, as the source has them."""
    said = re.compile(r"^class (\w+Part)\b(?:(?!^class ).)*?^    topics: ClassVar", re.M | re.S)
    sources = (file.read_text() for file in Path(gateway.__file__).parent.rglob("*.py"))
    return {name for source in sources for name in said.findall(source)}
