"""Goal: a registration that is read again is not put into text again, and never told wrongly."""

from __future__ import annotations

from resource_directory.link_format import parse
from resource_directory.read_lately import KEPT_BYTES, KEPT_MAX, ReadLately
from resource_directory.registry import Registry

BASE = "coap://192.0.2.1"


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
