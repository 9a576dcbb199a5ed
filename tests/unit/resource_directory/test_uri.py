"""Equivalent URIs are found as the same (RFC 3986, section 6.2; RFC 7252, section 6.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_directory.errors import InvalidParameterError
from resource_directory.link_format import WebLink
from resource_directory.registration import resolved_links
from resource_directory.uri import checked_base, normalised, path_of

NORMAL = [
    "coap://h/",
    "coap://[2001:db8::1]:61616/a/b?c=%2F",
    "coaps://gw-1.example/s/temp",
    "/rd/4521",
    "http://www.example.com/%C3%BC",
]


@pytest.mark.parametrize("uri", NORMAL)
def test_what_is_normal_stays_as_it_is(uri: str) -> None:
    assert normalised(uri) == uri


@pytest.mark.parametrize(
    ("uri", "normal"),
    [
        ("COAP://Host/", "coap://host/"),
        ("coap://host", "coap://host/"),
        ("coap://host:/", "coap://host/"),
        ("coap://host:5683/a", "coap://host/a"),
        ("coaps://host:5684/a", "coaps://host/a"),
        ("coap://host:5684/a", "coap://host:5684/a"),
        ("coaps+tcp://host:5684", "coaps+tcp://host/"),
        ("http://host:80?a", "http://host/?a"),
        ("coap://[2001:DB8::1]:5683/a", "coap://[2001:db8::1]/a"),
        ("coap://h/%7esmith/%41%2f%c3%bc", "coap://h/~smith/A%2F%C3%BC"),
        ("coap://h/ü", "coap://h/%C3%BC"),
        ("coap://h/a/./b/../c", "coap://h/a/c"),
        ("coap://h/../..", "coap://h/"),
        ("coap://h/a/b/..", "coap://h/a/"),
        ("coap://h/a?b=/../c", "coap://h/a?b=/../c"),
        ("/rd/%34521", "/rd/4521"),
        ("urn:dev:X", "urn:dev:X"),
        ("relative/%41", "relative/%41"),
        ("", ""),
    ],
)
def test_what_is_equivalent_is_written_alike(uri: str, normal: str) -> None:
    assert normalised(uri) == normal


@pytest.mark.parametrize(
    ("prefix", "normal"),
    [
        ("COAP://Ho", "coap://ho"),
        ("coap://host:56", "coap://host:56"),
        ("coap://host:5683", "coap://host/"),
        ("coap://host:5683/A%7", "coap://host/A%7"),
        ("coap://h/a/.", "coap://h/a/."),
        ("coap://h/%41", "coap://h/A"),
        ("/r", "/r"),
        ("", ""),
    ],
)
def test_the_beginning_of_a_uri_stays_one(prefix: str, normal: str) -> None:
    assert normalised(prefix, is_prefix=True) == normal


def test_the_path_of_a_uri_of_coap_is_known() -> None:
    assert path_of("coap://h/rd/1") == path_of("coaps://[::1]:5/rd/1") == "/rd/1"
    assert path_of("http://h/rd/1") == path_of("/rd/1") == ""


@given(st.text(alphabet="coap:/%.4aF?#[]@ü~ -", max_size=40))
def test_what_was_normalised_is_normal(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once


@given(st.text(alphabet="%.4aF/?-", max_size=20), st.sampled_from(["coap://H", "coap://h:5683/b"]))
def test_what_a_link_was_resolved_to_is_found_by_it(path: str, base: str) -> None:
    (text,), _ = resolved_links(base, [WebLink("/" + path.lstrip("/"), ())])
    assert normalised(text[1:-1]).startswith("coap://h/")


@pytest.mark.parametrize("base", ["coap://[1::2::3]", "coap://[::1.2.3]", "coap://[12345::]"])
def test_a_base_whose_address_is_none_is_refused(base: str) -> None:
    with pytest.raises(InvalidParameterError, match="base"):
        checked_base(base)
