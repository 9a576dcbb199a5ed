"""Payloads are read as far as links may be many, and written once for who reads again."""

from __future__ import annotations

import pytest

from resource_directory.link_format import LinkFormatError, parse
from resource_directory.payloads import (
    KEPT_BYTES,
    KEPT_MAX,
    PARSED_BYTES,
    PARSED_MAX,
    ParsedPayloads,
    ReadLately,
)
from resource_directory.registry import Registry

BASE = "coap://192.0.2.1"


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


def test_what_is_read_again_is_the_same_text_until_the_links_change() -> None:
    registry, kept = Registry(), ReadLately()
    one = registry.register("a", parse(b"</t>;rt=temperature,</h>"), 0.0, base=BASE)
    links = kept.links(one)
    assert links.payload == b'</t>;rt="temperature",</h>'
    assert kept.links(one) is links
    renewed = registry.register("a", parse(b"</t>;rt=temperature,</h>"), 1.0, base=BASE)
    assert kept.links(renewed).payload == links.payload
    changed = registry.register("a", parse(b"</p>"), 2.0, base=BASE)
    assert changed.location == one.location
    assert kept.links(changed).payload == b"</p>"
    assert kept.links(changed).etag != links.etag
    assert len(kept) == 1


def test_few_are_kept_and_none_that_is_long() -> None:
    registry, kept = Registry(), ReadLately()
    for number in range(3 * KEPT_MAX):
        one = registry.register(f"e{number}", parse(b"</t>"), 0.0, base=BASE)
        assert kept.links(one).payload == b"</t>"
        assert len(kept) <= KEPT_MAX
    before = len(kept)
    links = parse(b"</" + b"x" * KEPT_BYTES + b">", max_bytes=2 * KEPT_BYTES)
    kept.links(registry.register("long", links, 0.0, base=BASE))
    assert len(kept) == before


def test_so_many_payloads_are_remembered_with_their_links_and_then_all_are_forgotten() -> None:
    payloads = ParsedPayloads(10)
    first = payloads.links(b"</0>")
    for number in range(1, PARSED_MAX):
        payloads.links(f"</{number}>".encode())
    assert payloads.links(b"</0>") is first
    payloads.links(b"</more>")
    assert payloads.links(b"</0>") == first
    assert payloads.links(b"</0>") is not first


def test_a_payload_that_is_long_is_read_each_time() -> None:
    payloads = ParsedPayloads(10)
    for size, is_remembered in ((PARSED_BYTES, True), (PARSED_BYTES + 1, False)):
        text = b"</".ljust(size - 1, b"x") + b">"
        assert len(text) == size
        assert (payloads.links(text) is payloads.links(text)) is is_remembered
