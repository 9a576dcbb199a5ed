"""A browser is told what not to do, and what another site has it send is refused."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from gateway.web import browser_rules
from gateway.web.host_field import names_this_machine

JSON = "application/json"
FOREIGN = (HTTPStatus.FORBIDDEN, "the request comes from another site")
NO_JSON = (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: not application/json")


@pytest.mark.parametrize("is_secure", [False, True])
def test_every_answer_tells_a_browser_what_not_to_do(*, is_secure: bool) -> None:
    found = browser_rules.headers(is_secure=is_secure)
    policy = found.pop("Content-Security-Policy").split("; ")
    assert policy == [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    assert found.pop("Strict-Transport-Security", None) == (
        "max-age=31536000" if is_secure else None
    )
    assert found == {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }


def test_pictures_may_come_from_one_other_place() -> None:
    found = browser_rules.headers(is_secure=True, images="https://tiles.example")
    assert "img-src 'self' https://tiles.example; " in found["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("method", "origin", "site", "content_type", "why"),
    [
        ("GET", "https://other", "cross-site", "", None),
        ("HEAD", "https://other", "cross-site", "", None),
        ("POST", None, None, JSON, None),
        ("POST", "https://gw:1", None, JSON, None),
        ("POST", "https://gw:1", "same-origin", JSON, None),
        ("POST", None, "none", JSON, None),
        ("DELETE", None, "", JSON, None),
        ("POST", "https://gw", None, JSON, FOREIGN),
        ("POST", "null", None, JSON, FOREIGN),
        ("POST", "", None, JSON, FOREIGN),
        ("POST", None, "cross-site", JSON, FOREIGN),
        ("POST", None, "same-site", JSON, FOREIGN),
        ("POST", "https://gw:1", "same-site", JSON, FOREIGN),
        ("POST", "https://other", "same-origin", JSON, FOREIGN),
        ("PUT", None, None, "text/plain", NO_JSON),
        ("PUT", "https://gw:1", "same-origin", "", NO_JSON),
        ("PUT", None, "cross-site", "text/plain", FOREIGN),
    ],
)
def test_what_another_site_may_have_sent_is_refused_unless_it_only_reads(
    method: str,
    origin: str | None,
    site: str | None,
    content_type: str,
    why: tuple[HTTPStatus, str] | None,
) -> None:
    assert browser_rules.why_foreign(method, "gw:1", origin, site, content_type) == why


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("", ""),
        ("a=1", "1"),
        ("b=2; a=1", "1"),
        ("b=2;a=1;c=3", "1"),
        ("a=1; a=2", "1"),
        ("a=x=y", "x=y"),
        ("aa=1; ba=2", ""),
        ("a", ""),
        ("A=1", ""),
    ],
)
def test_a_cookie_is_the_first_of_its_name(field: str, value: str) -> None:
    assert browser_rules.cookie(field, "a") == value


@pytest.mark.parametrize(
    ("field", "is_own"),
    [
        ("", True),
        ("localhost", True),
        ("LocalHost.:8080", True),
        ("10.0.0.1", True),
        ("10.0.0.1:8080", True),
        ("[2001:db8::1]", True),
        ("[2001:db8::1]:8080", True),
        ("gw.example", True),
        ("GW.Example.:443", True),
        ("other.example", False),
        ("other.example:443", False),
        ("gw.example:http", False),
        ("gw.example.other", False),
        (":443", False),
        ("10.0.0.1.example", False),
    ],
)
def test_a_host_is_this_machine_by_an_address_or_a_name_of_its_own(
    field: str, *, is_own: bool
) -> None:
    assert names_this_machine(field, ("gw.Example",)) is is_own
