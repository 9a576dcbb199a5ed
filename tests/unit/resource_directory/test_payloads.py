"""Payloads of registrations are read as far as links may be many."""

from __future__ import annotations

import pytest

from resource_directory.link_format import LinkFormatError
from resource_directory.payloads import ParsedPayloads


def payload(links: int, link_bytes: int = 60) -> bytes:
    """Links of a usual length, each with its comma."""
    behind = ">;rt=temperature-c"
    names = (f"<{number:0{link_bytes - len(behind) - 2}d}{behind}" for number in range(links))
    return ",".join(names).encode()


@pytest.mark.parametrize("links_max", [2_048, 10_000])
def test_as_many_links_as_there_may_be_are_read_though_they_are_of_a_usual_length(
    links_max: int,
) -> None:
    payloads = ParsedPayloads(links_max)
    assert len(payloads.links(payload(links_max))) == links_max
    with pytest.raises(LinkFormatError, match=f"more than {links_max} links"):
        payloads.links(payload(links_max + 1))


def test_few_links_may_be_long_but_not_without_bound() -> None:
    payloads = ParsedPayloads(1)
    assert payloads.links(payload(1, 128 << 10))
    with pytest.raises(LinkFormatError, match="longer than 131072 bytes"):
        payloads.links(payload(1, (128 << 10) + 2))
