"""Each bound of what a directory is told and asked at its exact value."""

from __future__ import annotations

import pytest

from resource_directory import link_format
from resource_directory.errors import InvalidParameterError
from resource_directory.link_format import LinkFormatError
from resource_directory.parameters import QueryParameters
from resource_directory.query import LookupQuery
from resource_directory.registration import checked_lifetime
from resource_directory.uri import checked_base


def test_a_look_up_has_up_to_16_criteria_and_paging_is_none_of_them() -> None:
    criteria = [f"rt=x{number}" for number in range(16)]
    query = LookupQuery.parse([*criteria, "page=0", "count=1"])
    assert (len(query.criteria), query.page, query.count) == (16, 0, 1)
    with pytest.raises(InvalidParameterError, match="more than 16"):
        LookupQuery.parse([*criteria, "rt=x16"])


@pytest.mark.parametrize("value", ["0", "00", "-1", "1.0", "", "1234567890", "\u0663"])
def test_a_page_has_at_least_one_link_and_at_most_nine_digits_say_how_many(value: str) -> None:
    assert LookupQuery.parse(["count=999999999", "page=999999999"]).count == 999_999_999
    with pytest.raises(InvalidParameterError):
        LookupQuery.parse([f"count={value}"])


def test_a_page_without_its_size_and_anything_twice_is_refused() -> None:
    for parameters in (["page=1"], ["count=1", "count=1"], ["count=1", "page=0", "page=0"]):
        with pytest.raises(InvalidParameterError):
            LookupQuery.parse(parameters)


def test_a_lifetime_is_1_to_4294967295_seconds() -> None:
    for lifetime_s in (1, 4_294_967_295):
        assert QueryParameters([f"lt={lifetime_s}"]).lifetime_s() == lifetime_s
        assert checked_lifetime(lifetime_s) == lifetime_s
    for lifetime_s in (0, 4_294_967_296):
        with pytest.raises(InvalidParameterError, match="lt is not 1 to 4294967295"):
            checked_lifetime(lifetime_s)
    for text in ("0", "-1", "x", "", "42949672950"):
        with pytest.raises(InvalidParameterError, match="lt is not 1 to 4294967295"):
            QueryParameters([f"lt={text}"]).lifetime_s()
    assert QueryParameters(["ep=x"]).lifetime_s() is None


def test_a_base_has_at_most_512_characters() -> None:
    base = f"coap://host.example/{'a' * 492}"
    assert len(base) == 512
    assert checked_base(base)
    with pytest.raises(InvalidParameterError, match="longer than 512"):
        checked_base(f"{base}a")


def test_a_link_has_at_most_64_attributes_and_a_document_as_many_links_as_are_asked_for() -> None:
    attributes = "".join(f";a{number}" for number in range(64))
    (link,) = link_format.parse(f"</x>{attributes}")
    assert len(link.attributes) == 64
    with pytest.raises(LinkFormatError, match="64"):
        link_format.parse(f"</x>{attributes};b")
    assert len(link_format.parse("</a>,</b>", max_links=2)) == 2
    with pytest.raises(LinkFormatError, match="more than 2 links"):
        link_format.parse("</a>,</b>,</c>", max_links=2)
    assert len(link_format.parse(b"</abc>", max_bytes=6)) == 1
    with pytest.raises(LinkFormatError, match="longer than 6 bytes"):
        link_format.parse(b"</abcd>", max_bytes=6)


@pytest.mark.parametrize("character", ["a", "ä", "€", "\U0001f331", "\ud800"])
def test_a_text_has_as_many_bytes_as_are_asked_for_whichever_way_it_is_given(
    character: str,
) -> None:
    text = f'</x>;title="{character * 20}"'
    data = text.encode(errors="surrogatepass")
    for given in (text, data):
        with pytest.raises(LinkFormatError, match=f"longer than {len(data) - 1} bytes"):
            link_format.parse(given, max_bytes=len(data) - 1)
    if character.isprintable():
        for given in (text, data):
            (link,) = link_format.parse(given, max_bytes=len(data))
            assert link.get("title") == character * 20
