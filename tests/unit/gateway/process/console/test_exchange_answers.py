"""An HTTP answer has the fields that its status asks for, and a head has its bounds."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from gateway.process.console.exchange import (
    HEAD_BYTES_MAX,
    LINES_MAX,
    REALM,
    ExchangeRules,
    HttpExchange,
)
from gateway.process.console.pages import Page, RequestError
from gateway.process.page.face import RULES

HTML = Page("text/html", b"<p>")


def answered(
    page: Page,
    method: str = "GET",
    rules: ExchangeRules = RULES,
    *,
    is_last: bool = False,
) -> tuple[dict[str, str], bytes]:
    """Return the fields and the body of an answer."""
    exchange = HttpExchange(rules)
    assert exchange.feed(f"{method} / HTTP/1.1\r\nHost: a\r\n\r\n".encode()) is not None
    head, _, body = exchange.answer(page, is_last=is_last).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == f"HTTP/1.1 {page.status} {page.status.phrase}"
    fields = dict(line.split(": ", 1) for line in lines)
    assert len(fields) == len(lines)
    return {name.lower(): value for name, value in fields.items()}, body


USUAL = {"content-type": "text/html", "cache-control": "no-store"}
USUAL |= {"x-content-type-options": "nosniff"}


def test_an_answer_tells_its_length_and_that_nobody_is_to_keep_it() -> None:
    assert answered(HTML) == (USUAL | {"content-length": "3"}, b"<p>")
    empty = Page("text/html", b"")
    assert answered(empty) == (USUAL | {"content-length": "0"}, b"")
    kept = Page("text/html", b"<p>", headers={"Cache-Control": "max-age=9", "ETag": "x"})
    assert answered(kept)[0]["cache-control"] == "max-age=9"
    assert answered(kept)[0]["etag"] == "x"


def test_to_head_there_is_the_length_of_the_body_and_no_body() -> None:
    assert answered(HTML, "HEAD") == (USUAL | {"content-length": "3"}, b"")


def test_of_what_has_not_changed_no_length_is_told() -> None:
    assert answered(Page("text/html", b"", HTTPStatus.NOT_MODIFIED)) == (USUAL, b"")


def test_the_last_answer_says_that_the_connection_closes() -> None:
    assert answered(HTML, is_last=True)[0]["connection"] == "close"
    assert answered(HTML, rules=ExchangeRules())[0]["connection"] == "close"
    assert "connection" not in answered(HTML)[0]


def test_a_password_is_asked_for_where_the_page_wants_one() -> None:
    asked = answered(Page("text/plain", b"", HTTPStatus.UNAUTHORIZED))[0]
    assert asked["www-authenticate"] == f'Basic realm="{REALM}", charset="UTF-8"'
    page = Page("text/plain", b"", HTTPStatus.UNAUTHORIZED, asks_for_password=False)
    assert "www-authenticate" not in answered(page)[0]
    assert "www-authenticate" not in answered(Page("text/plain", b"", HTTPStatus.FORBIDDEN))[0]


def test_a_method_that_is_not_served_is_told_which_are() -> None:
    told = answered(Page("text/plain", b"", HTTPStatus.METHOD_NOT_ALLOWED))[0]
    assert told["allow"] == ", ".join(RULES.methods)
    assert "allow" not in answered(HTML)[0]


def head_of(lines: int, size: int | None = None) -> bytes:
    """Return a head of so many lines, and so many bytes."""
    first = b"GET / HTTP/1.1\r\nHost: a\r\n"
    more = b"".join(b"x-%d: y\r\n" % number for number in range(lines - 3))
    if size is not None:
        more += b"z: %s\r\n" % (b"z" * (size - len(first) - len(more) - len(b"z: \r\n\r\n")))
    return first + more + b"\r\n"


@pytest.mark.parametrize(
    ("head", "is_taken"),
    [
        (head_of(LINES_MAX), True),
        (head_of(LINES_MAX + 1), False),
        (head_of(3, HEAD_BYTES_MAX), True),
        (head_of(3, HEAD_BYTES_MAX + 1), False),
    ],
)
def test_a_head_has_so_many_lines_and_bytes_in_any_pieces(head: bytes, *, is_taken: bool) -> None:
    for size in (len(head), 100):
        exchange, request = HttpExchange(RULES), None
        parts = [head[at : at + size] for at in range(0, len(head), size)]
        if is_taken:
            for part in parts:
                request = exchange.feed(part)
            assert request is not None
        else:
            with pytest.raises(RequestError) as refused:
                for part in parts:
                    exchange.feed(part)
            assert refused.value.status is HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


def test_a_request_is_begun_with_its_first_byte_and_over_with_its_answer() -> None:
    exchange = HttpExchange(RULES)
    assert not exchange.is_begun
    assert exchange.feed(b"G") is None
    assert exchange.is_begun
    assert exchange.feed(b"ET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b") is not None
    assert exchange.is_begun
    exchange.answer(HTML, is_last=False)
    assert exchange.goes_on
    assert exchange.again() is None
    assert exchange.is_begun  # a part of the next one has come
    again = exchange.feed(b" HTTP/1.1\r\nHost: a\r\n\r\n")
    assert again is not None
    assert again.path == "/b"
    exchange.answer(HTML, is_last=False)
    exchange.again()
    assert not exchange.is_begun
