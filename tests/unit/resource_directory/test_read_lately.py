"""Goal: a registration that is read again is not put into text again, and never told wrongly."""

from __future__ import annotations

from resource_directory.link_format import parse
from resource_directory.read_lately import KEPT_CHARACTERS, KEPT_MAX, ReadLately
from resource_directory.registry import Registry

BASE = "coap://192.0.2.1"


def test_what_is_read_again_is_the_same_text_until_the_links_change() -> None:
    registry, kept = Registry(), ReadLately()
    one = registry.register("a", parse(b"</t>;rt=temperature,</h>"), 0.0, base=BASE)
    text = kept.text(one)
    assert text == '</t>;rt="temperature",</h>'
    assert kept.text(one) is text
    renewed = registry.register("a", parse(b"</t>;rt=temperature,</h>"), 1.0, base=BASE)
    assert kept.text(renewed) == text
    changed = registry.register("a", parse(b"</p>"), 2.0, base=BASE)
    assert changed.location == one.location
    assert kept.text(changed) == "</p>"
    assert len(kept) == 1


def test_few_are_kept_and_none_that_is_long() -> None:
    registry, kept = Registry(), ReadLately()
    for number in range(3 * KEPT_MAX):
        one = registry.register(f"e{number}", parse(b"</t>"), 0.0, base=BASE)
        assert kept.text(one) == "</t>"
        assert len(kept) <= KEPT_MAX
    before = len(kept)
    links = parse(b"</" + b"x" * KEPT_CHARACTERS + b">", max_bytes=2 * KEPT_CHARACTERS)
    kept.text(registry.register("long", links, 0.0, base=BASE))
    assert len(kept) == before
