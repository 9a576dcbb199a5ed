"""The pure parts of a gateway's page: what is shown of messages, sensors and secrets."""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.event_log.audit import AuditTrail
from gateway.process.console.exchange import HttpExchange
from gateway.process.console.pages import Page, RequestError, plain
from gateway.process.page import fields, support_bundle
from gateway.process.page.audit_notes import AuditNotes
from gateway.process.page.face import RULES
from gateway.process.page.fields import Field
from gateway.process.page.reading_history import MINUTES, ReadingHistory
from gateway.process.page.routes import ROUTES
from gateway.process.page.topic_tap import (
    KEPT_S,
    LOOKS_MAX,
    LOOKS_PER_VISITOR,
    MESSAGES_MAX,
    PAYLOAD_BYTES_MAX,
    PER_S_MAX,
    TopicTap,
    shown,
)
from gateway.sensors.reading import Reading
from gateway.sensors.values import Measured
from gateway.web.api_error import ApiError


def everything(_topic: str) -> bool:
    return True


def test_a_look_has_the_newest_messages_and_says_how_many_it_left_out() -> None:
    tap, woken = TopicTap(), []
    look = tap.look("anna", "a/+", everything, lambda: woken.append(1), 0.0)
    assert look is not None
    for number in range(MESSAGES_MAX + 5):
        tap.hear([(f"a/{number}", 0, b"x")], 1_000 * number)
    tap.hear([("b/1", 0, b"x")], 1)
    assert len(look.after(0)) == MESSAGES_MAX
    assert (look.number, look.left_out, len(woken)) == (MESSAGES_MAX + 5, 5, MESSAGES_MAX + 5)
    assert [one["topic"] for one in look.after(look.number - 1)] == [f"a/{MESSAGES_MAX + 4}"]


def test_of_what_comes_too_fast_to_be_read_there_is_a_count() -> None:
    tap = TopicTap()
    look = tap.look("anna", "#", everything, lambda: None, 0.0)
    assert look is not None
    tap.hear([("a", 0, b"x" * 5_000)] * 10_000, 1_000)
    assert (look.number, look.left_out) == (PER_S_MAX, 10_000 - PER_S_MAX)
    tap.hear([("a", 0, b"y")], 2_000)
    assert look.number == PER_S_MAX + 1
    (first, *_, last) = look.after(0)
    assert (first["bytes"], len(first["payload"]), last["payload"]) == (
        5_000,
        PAYLOAD_BYTES_MAX,
        "y",
    )


def test_looks_are_bounded_for_one_and_for_all_and_end_when_nobody_asks() -> None:
    told: list[str] = []
    tap = TopicTap(lambda f: told.append(f"+{f}"), lambda f: told.append(f"-{f}"))
    for number in range(LOOKS_PER_VISITOR):
        assert tap.look("anna", f"a/{number}", everything, lambda: None, 0.0)
    assert tap.look("anna", "a/x", everything, lambda: None, 0.0) is None
    assert tap.look("anna", "a/0", everything, lambda: None, 0.0)
    for number in range(LOOKS_MAX - LOOKS_PER_VISITOR):
        assert tap.look(f"v{number}", "a", everything, lambda: None, KEPT_S)
    assert tap.look("late", "a", everything, lambda: None, KEPT_S) is None
    tap.expire(KEPT_S + 1)
    assert len(tap) == LOOKS_MAX - LOOKS_PER_VISITOR
    assert told.count("+a/0") == told.count("-a/0") == 1


def test_what_a_visitor_may_not_receive_never_gets_into_its_look() -> None:
    tap = TopicTap()
    look = tap.look("vera", "#", lambda topic: topic != "private", lambda: None, 0.0)
    assert look is not None
    tap.hear([("private", 0, b"x"), ("open", 0, b"x"), ("$SYS/x", 0, b"x")], 1)
    assert [one["topic"] for one in look.after(0)] == ["open"]


@given(st.binary(max_size=PAYLOAD_BYTES_MAX + 8))
def test_any_payload_is_shown_as_text_or_in_hexadecimal(payload: bytes) -> None:
    told = shown("t", 5, payload)
    assert (told["bytes"], told["qos"], told["retain"]) == (len(payload), 1, True)
    part = payload[:PAYLOAD_BYTES_MAX]
    if told["form"] == "hex":
        assert bytes.fromhex(told["payload"]) == part
    else:
        text = told["payload"].encode()
        assert part.startswith(text) and len(part) - len(text) <= 3


def test_a_long_text_that_is_cut_within_a_character_stays_text() -> None:
    told = shown("t", 0, ("x" * (PAYLOAD_BYTES_MAX - 1) + "ä" * 9).encode())
    assert (told["form"], told["payload"]) == ("text", "x" * (PAYLOAD_BYTES_MAX - 1))


def reading(value: Any, minute: float) -> Reading:
    return Reading({"": Measured(value, "Cel")}, 60 * minute, 0.0)


def test_of_each_minute_the_last_value_counts_and_an_hour_is_kept() -> None:
    history = ReadingHistory()
    for minute in range(70):
        history.add("hall", reading(minute, 1_000 + minute))
        history.add("hall", reading(minute + 0.5, 1_000 + minute))
    hour = history.of("hall", 60 * 1_069)
    assert hour == [minute + 0.5 for minute in range(10, 70)]
    later = history.of("hall", 60 * 1_072)
    assert later[-3:] == [None] * 3 and later[0] == 13.5
    assert history.of("nobody", 0.0) == [None] * MINUTES


def test_a_clock_that_is_set_back_begins_the_hour_anew() -> None:
    history = ReadingHistory()
    history.add("hall", reading(1, 5_000))
    history.add("hall", reading(2, 1_000))
    assert history.of("hall", 60_000)[-1] == 2
    history.add("door", reading("open", 1_000))
    last = history.last("door")
    assert last is not None and last.value == "open"
    assert len(history) == 1


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"password": "x"}, {"password": support_bundle.HIDDEN}),
        ({"password_file": "/etc/p"}, {"password_file": "/etc/p"}),
        ({"api_key": ["a", "b"]}, {"api_key": [support_bundle.HIDDEN] * 2}),
        (
            {"url": "https://u:p@h/x?t=1"},
            {"url": f"https://{support_bundle.HIDDEN}@h/x?{support_bundle.HIDDEN}"},
        ),
        ({"port": 1883, "names": ["a"]}, {"port": 1883, "names": ["a"]}),
    ],
)
def test_a_bundle_leaves_out_what_may_be_a_secret(value: Any, kept: Any) -> None:
    assert support_bundle.without_secrets(value) == kept


POST = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n{\n  1\n}"


def test_a_body_may_look_as_it_likes_and_come_in_any_pieces() -> None:
    for end in range(1, len(POST)):
        exchange = HttpExchange(RULES)
        assert exchange.feed(POST[:end]) is None
        request = exchange.feed(POST[end:] + POST)
        assert request is not None
        assert (request.method, request.path, request.query) == ("POST", "/a", "b=c")
        assert request.body == b"{\n  1\n}"
        assert exchange.answer(Page("text/plain", b"x"), is_last=False).endswith(b"\r\n\r\nx")
        assert exchange.goes_on
        again = exchange.again()
        assert again is not None and again.body == request.body


@given(st.binary(min_size=1, max_size=400), st.integers(1, 64), st.booleans())
def test_any_bytes_are_requests_or_refused(data: bytes, size: int, is_behind: bool) -> None:
    data = POST + data if is_behind else data
    exchange, waiting = (
        HttpExchange(RULES),
        [data[at : at + size] for at in range(0, len(data), size)],
    )
    try:
        for part in waiting:
            request = exchange.feed(part)
            while request is not None:
                assert exchange.answer(Page("text/plain", b"x"), is_last=False)
                if not exchange.goes_on:
                    return
                request = exchange.again()
    except RequestError as error:
        assert exchange.answer(plain(error.status)).startswith(b"HTTP/1.1 %d " % error.status)


FIELDS = (Field("name", "string", "", is_needed=True, most=4), Field("n", "integer", "", least=0))


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{", b"null", b'{"n": 1}', b'{"name": "toolong"}', b'{"name": 1}'),
        *(b'{"name": "a", "n": -1}', b'{"name": "a", "n": true}', b'{"name": "a", "x": 1}'),
    ],
)
def test_a_body_that_is_wrong_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError) as raised:
        fields.of_body(body, FIELDS)
    assert raised.value.status == 400


@given(st.binary(max_size=200))
def test_any_body_is_taken_or_refused(body: bytes) -> None:
    try:
        found = fields.of_body(body, FIELDS)
    except ApiError as error:
        assert error.status == 400
    else:
        assert isinstance(found["name"], str)


@given(st.text(max_size=100))
def test_any_query_is_taken_or_refused(query: str) -> None:
    try:
        found = fields.of_query(query, FIELDS)
    except ApiError as error:
        assert error.status == 400
    else:
        assert len(found["name"]) <= 4


def test_of_2000_values_the_last_hour_is_kept_and_what_is_silent_makes_room() -> None:
    history = ReadingHistory()
    for number in range(2_000):
        history.add(f"s{number}", reading(number, 1_000 + number % 2))
    history.add("more", reading(1, 1_001))
    assert (len(history), history.last("more")) == (2_000, None)
    history.add("more", reading(1, 1_060))
    assert (len(history), history.last("more")) == (2_000, None)
    history.add("s1", reading(7, 1_061))  # what is known needs no room
    history.add("more", reading(1, 1_061))
    assert len(history) == 1_001
    assert history.last("s0") is None
    assert history.of("s0", 60 * 1_061) == [None] * MINUTES
    assert history.of("more", 60 * 1_061)[-1] == 1.0
    history.add("more", reading(2, 1_061))
    more = history.last("more")
    assert more is not None
    assert more.value == 2


def test_each_value_of_a_reading_has_an_hour_of_its_own_and_a_text_has_none() -> None:
    history = ReadingHistory()
    values = {"a": Measured(1, "V"), "b": Measured("x"), "c": Measured(None), "d": Measured(True)}
    history.add("s", Reading(values, 600.0, 0.0))
    assert history.of("s/a", 659.9) == [*[None] * 59, 1.0]
    assert history.of("s/a", 660.0) == [*[None] * 58, 1.0, None]
    assert history.of("s/a", 600.0 + 59 * 60) == [1.0, *[None] * 59]
    for late_s in (600.0 + 60 * 60, 599.0):
        assert history.of("s/a", late_s) == [None] * MINUTES
    assert len(history) == 2


NEEDED = FIELDS
FREE = (
    Field("s", "string", ""),
    Field("f", "number", "", least=-1.5, most=2),
    Field("n", "integer", "", least=0),
    Field("b", "boolean", ""),
    Field("t", "object", ""),
    Field("l", "array", ""),
)


def why_refused(body: bytes, of: tuple[Field, ...] = FREE) -> str:
    with pytest.raises(ApiError) as raised:
        fields.of_body(body, of)
    return raised.value.why


def test_an_empty_body_says_nothing_where_nothing_is_needed() -> None:
    assert fields.of_body(b"", FREE) == {}
    assert fields.of_body(b"{}", FREE) == {}
    assert why_refused(b"", NEEDED) == "the body is not JSON"
    assert why_refused(b"{}", NEEDED) == "name: is missing"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        *[(b"[]", "the body is no object"), (b"{", "the body is not JSON")],
        *[(b"\xff", "the body is not JSON"), (b'{"x": 1}', "x: is not known")],
        (b'{"' + b"x" * 65 + b'": 1}', "x" * 64 + ": is not known"),
        (b'{"s": "' + b"x" * 1025 + b'"}', "s: 1025 characters are more than 1024"),
        *[(b'{"f": 2.5}', "f: 2.5 is not -1.5 to 2"), (b'{"f": -2}', "f: -2 is not -1.5 to 2")],
        *[(b'{"n": -1}', "n: -1 is not 0 to any"), (b'{"n": 1.0}', "n: is no integer")],
        *[(b'{"b": 1}', "b: is no boolean"), (b'{"f": true}', "f: is no number")],
        *[(b'{"t": []}', "t: is no object"), (b'{"l": {}}', "l: is no array")],
    ],
)
def test_a_field_that_is_wrong_is_told_with_its_bounds(body: bytes, why: str) -> None:
    assert why_refused(body) == why


def test_each_bound_of_a_field_is_in_its_range() -> None:
    text = "x" * 1024
    whole = {"s": text, "f": 2, "n": 0, "b": False, "t": {}, "l": [1]}
    assert fields.of_body(json.dumps(whole).encode(), FREE) == whole
    assert fields.of_body(b'{"f": -1.5}', FREE) == {"f": -1.5}
    assert fields.of_body(b'{"name": "four"}', NEEDED) == {"name": "four"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        *[("name=a%20b&n=3", {"name": "a b", "n": 3}), ("name=", {"name": ""})],
        *[("name=a&name=b", "name: stands twice"), ("name=a&x=1", "x: is not known")],
        *[("name=a&n=x", "n: is no integer"), ("name=a&n=-1", "n: -1 is not 0 to any")],
        *[("n=1", "name: is missing"), ("name=" + "x" * 5, "name: 5 characters are more than 4")],
        ("&".join(["name=a"] * 17), "query: Max number of fields exceeded"),
        ("&".join(["name=a"] * 16), "name: stands twice"),
    ],
)
def test_a_query_is_told_by_its_parameters(query: str, found: Any) -> None:
    if isinstance(found, dict):
        assert fields.of_query(query, FIELDS) == found
        return
    with pytest.raises(ApiError) as raised:
        fields.of_query(query, FIELDS)
    assert raised.value.why == found


def test_a_bundle_has_the_configuration_or_why_there_is_none(tmp_path: Path) -> None:
    assert support_bundle.configuration(None) == b"{}"
    file = tmp_path / "gw.toml"
    told = json.loads(support_bundle.configuration(file))
    assert told == {"error": "it can't be read: FileNotFoundError"}
    for damage, error in ((b"a =", "TOMLDecodeError"), (b"\xff", "UnicodeDecodeError")):
        file.write_bytes(damage)
        told = json.loads(support_bundle.configuration(file))
        assert told == {"error": f"it can't be read: {error}"}
    file.write_text('[a]\npassword = "x"\nat = 2026-01-01\n')
    told = json.loads(support_bundle.configuration(file))
    assert told == {"a": {"password": support_bundle.HIDDEN, "at": "2026-01-01"}}


def test_a_bundle_is_an_archive_of_files_for_its_owner_alone() -> None:
    data = support_bundle.bundle("gw", {"a.json": b"{}", "b.txt": b"line"}, 7.9)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        told = [(one.name, one.size, one.mtime, one.mode) for one in archive]
        last = archive.extractfile("gw/b.txt")
        assert last is not None
        assert last.read() == b"line"
    assert told == [("gw/a.json", 2, 7, 0o600), ("gw/b.txt", 4, 7, 0o600)]


@pytest.mark.parametrize(
    ("segment", "why"),
    [
        *[("%ff", "id: is not UTF-8"), ("", "id: is empty or too long")],
        ("x" * 1_025, "id: is empty or too long"),
    ],
)
def test_a_name_in_a_path_that_can_be_none_is_told(segment: str, why: str) -> None:
    route = next(one for one in ROUTES if one.path.endswith("/{id}"))
    segments = [*route.path[1:].split("/")[:-1], segment]
    with pytest.raises(ApiError) as raised:
        route.names(tuple(segments))
    assert raised.value.why == why
    longest = (*segments[:-1], "%41" * 1_024)
    assert route.names(tuple(longest)) == {"id": "A" * 1_024}


async def test_what_the_audit_trail_can_not_take_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counted = list[tuple[str, str]]()
    trail = AuditTrail(tmp_path / "none" / "audit.jsonl")
    notes = AuditNotes(trail, lambda kind, who: counted.append((kind, who)))
    notes.changed("anna", "user added", name="bob")
    assert "the audit trail does not have that anna: user added: " in caplog.text
    assert counted == []
    notes.refused("forbidden: x", "a" * 65, "::1")
    notes.refused("forbidden: x", "anna", "::1", "wrong password")
    assert counted == [
        ("page: forbidden: x", f"'{'a' * 64}' (::1)"),
        ("wrong password", "'anna' (::1)"),
    ]


async def test_the_trail_has_30_refusals_and_10_comings_of_each_user_at_once(
    tmp_path: Path,
) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    notes = AuditNotes(trail, lambda _kind, _who: None)
    for _ in range(31):
        notes.refused("forbidden", "eve", "::1")
    for user in ("anna", "bob"):
        for _ in range(11):
            notes.came_or_went(user, "logged in", "::1")
    for number in range(40):
        notes.changed("anna", "user added", number=number)
    told = Counter((one.who, one.what) for one in trail.changes())
    assert told == {
        ("eve", "refused at the page"): 30,
        ("anna", "logged in"): 10,
        ("bob", "logged in"): 10,
        ("anna", "user added"): 40,
    }
