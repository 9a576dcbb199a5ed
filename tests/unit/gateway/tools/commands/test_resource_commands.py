"""`hedgerow get`, `put`, `call` and `observe` show what came, and end by what did not."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

import pytest

from gateway.base import exit_codes
from gateway.coap_client import (
    BadUriError,
    ClientError,
    HandshakeRefusedError,
    NoAnswerError,
    Response,
    UnreachableError,
)
from gateway.tools.commands import asking, resource_arguments, resources
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.gateway_arguments import add_host
from gateway.tools.commands.parser import Parser

BASE = "coap://gw"
SENML = 110
HIERARCHY = Response(
    "2.05",
    json.dumps(
        {"id": "gw-a", "gateways": [{"id": "gw-a", "place": "-/-"}, {"id": "gw-b", "place": "c/d"}]}
    ).encode(),
    50,
)
Printed = pytest.CaptureFixture[str]
Came = Response | ClientError | TimeoutError


def text(payload: str, code: str = "2.05") -> Response:
    return Response(code, payload.encode(), 0)


class Gateway:
    """Answers each path as a test says: the answers in turn, of which the last stays.

    Attributes:
        paths: the answers, by path.
        rounds: what each observation brings.
        asked: method and path of each request.
        bodies: the payload of each, and its content format.
        named: whether each has a name, under which it may be asked again.

    """

    def __init__(self) -> None:
        self.paths: dict[str, list[Came]] = {}
        self.rounds: list[list[Came]] = []
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[tuple[bytes, int | None]] = []
        self.named: list[bool] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.asked.append(("close", ""))

    async def request(self, method: str, uri: str, **more: Any) -> Response:
        assert uri.startswith(BASE)
        path = uri.removeprefix(BASE)
        self.asked.append((method, path))
        self.bodies.append((more.get("payload", b""), more.get("content_format")))
        self.named.append(bool(more.get("request_id")))
        answers = self.paths[path]
        return given(answers.pop(0) if len(answers) > 1 else answers[0])

    async def observe(self, uri: str, **_: Any) -> AsyncIterator[Response]:
        self.asked.append(("observe", uri.removeprefix(BASE)))
        for one in self.rounds.pop(0):
            yield given(one)


def given(came: Came) -> Response:
    if isinstance(came, Exception):
        raise came
    return came


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    made = Gateway()
    made.paths["/hierarchy"] = [HIERARCHY]
    monkeypatch.setattr(asking, "client_for", lambda *_: made)
    return made


def run(*words: str) -> int:
    parser = Parser(prog="hedgerow")
    resource_arguments.add(
        parser.add_subparsers(), add_host, lambda name: getattr(resources, name, None)
    )
    options = parser.parse_args([*words, *(() if "coap:" in " ".join(words) else ("--host", "gw"))])
    options.every = 0.0
    code: int = options.command(options)
    return code


# -- many gateways ---------------------------------------------------------------------------------


def test_what_each_gateway_says_is_a_line_and_who_says_nothing_is_counted(
    gateway: Gateway, capsys: Printed
) -> None:
    gateway.paths["/q/-/-/gw-a/sensors/valve"] = [text("21.5")]
    gateway.paths["/q/c/d/gw-b/sensors/valve"] = [NoAnswerError("no answer within 5 s")]
    with pytest.raises(FailedError) as failed:
        run("get", "*/valve")
    assert (str(failed.value), failed.value.exit_code) == (
        "1 of 2 gateways have not answered",
        exit_codes.REFUSED,
    )
    said = capsys.readouterr()
    assert (said.out, said.err) == ("21.5\n", "hedgerow: gw-b: no answer within 5 s\n")
    gateway.paths["/q/c/d/gw-b/sensors/valve"] = [text("no\x1bne", "4.04")]
    with pytest.raises(FailedError, match=r"^1 of 2 gateways"):
        run("get", "*/valve")
    assert capsys.readouterr().err == "hedgerow: gw-b: 4.04 no\\x1bne\n"


def test_all_gateways_that_answer_are_no_failure_and_objects_for_scripts(
    gateway: Gateway, capsys: Printed
) -> None:
    gateway.paths["/q/-/-/gw-a/sensors/valve"] = [text("1")]
    gateway.paths["/q/c/d/gw-b/sensors/valve"] = [text("2")]
    assert run("get", "*/valve", "--json") == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(told, key=lambda one: str(one["gateway"])) == [
        {"gateway": name, "code": "2.05", "content_format": 0, "payload": payload}
        for name, payload in (("gw-a", "1"), ("gw-b", "2"))
    ]


def test_a_place_where_no_gateway_stands_is_told(gateway: Gateway) -> None:
    with pytest.raises(FailedError) as failed:
        run("get", "nowhere/*/*/valve")
    assert str(failed.value) == "/q/nowhere/*/*/sensors/valve: no gateway stands there"
    assert failed.value.exit_code == exit_codes.REFUSED
    assert gateway.asked == [("GET", "/hierarchy"), ("close", "")]


@pytest.mark.parametrize(
    ("hierarchy", "complaint"),
    [
        (text("", "4.04"), ""),
        (
            text("no right", "4.03"),
            "hedgerow: coap://gw/hierarchy: no right; who may not read it names no gateways\n",
        ),
    ],
)
def test_where_gateways_are_not_named_one_request_asks_for_all(
    gateway: Gateway, hierarchy: Response, complaint: str, capsys: Printed
) -> None:
    gateway.paths["/hierarchy"] = [hierarchy]
    gateway.paths["/q/*/*/*/sensors/valve"] = [text("[all]")]
    assert run("get", "*/valve") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("[all]\n", complaint)
    gateway.paths["/q/*/*/*/sensors/valve"] = [text("", "4.03")]
    with pytest.raises(FailedError, match=r"^coap://gw/q/\*/\*/\*/sensors/valve: 4\.03") as failed:
        run("get", "*/valve")
    assert failed.value.exit_code == exit_codes.REFUSED


@pytest.mark.parametrize("words", [("put", "*/valve", "1"), ("observe", "*/valve")])
def test_many_gateways_can_only_be_read(gateway: Gateway, words: Sequence[str]) -> None:
    with pytest.raises(WrongUseError, match=r"^\*/valve: many gateways can only be read"):
        run(*words)
    assert gateway.asked == []


# -- one resource ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "asked", "body", "content_format"),
    [
        (("put", "valve", "1"), "PUT", b"1", 0),
        (("put", "valve", ' [{"v":1}]'), "PUT", b' [{"v":1}]', SENML),
        (("call", "post", "valve", "on"), "POST", b"on", 0),
        (("call", "post", "valve", ' {"a":1}'), "POST", b' {"a":1}', 50),
        (("call", "patch", "valve", "[1]"), "PATCH", b"[1]", 50),
        (("call", "ipatch", "valve", "x", "--format", "65535"), "iPATCH", b"x", 65_535),
        (("call", "delete", "valve"), "DELETE", b"", None),
        (("call", "fetch", "valve", "x", "--format", "0"), "FETCH", b"x", 0),
    ],
)
def test_a_request_has_the_body_and_the_content_format_that_it_is_given(
    gateway: Gateway,
    words: Sequence[str],
    asked: str,
    body: bytes,
    content_format: int | None,
    capsys: Printed,
) -> None:
    gateway.paths["/sensors/valve"] = [text("done\n", "2.04")]
    assert run(*words) == 0
    assert capsys.readouterr().out == "done\n"
    assert gateway.asked == [(asked, "/sensors/valve"), ("close", "")]
    assert gateway.bodies == [(body, content_format)]
    assert gateway.named == [asked != "FETCH"], "what only reads may be done twice"


def test_what_was_created_is_named_and_a_script_gets_one_document(
    gateway: Gateway, capsys: Printed
) -> None:
    gateway.paths["/sensors/valve"] = [Response("2.01", b"", None, "/sensors/pump")]
    assert run("call", "post", "valve") == 0
    assert capsys.readouterr().out == "created /sensors/pump\n"
    assert run("call", "post", "valve", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "code": "2.01",
        "content_format": None,
        "payload": "",
        "location": "/sensors/pump",
    }


@pytest.mark.parametrize(
    ("words", "answer", "why"),
    [
        (("put", "valve", "1"), text("", "4.01"), "4.01 writing needs coaps:// with --psk-file"),
        (
            ("get", "valve"),
            text("", "4.04"),
            "4.04 nothing there; `hedgerow discover` shows what there is",
        ),
        (("get", "valve"), text("gone", "4.04"), "4.04 gone"),
        (("get", "valve"), text("", "4.01"), "4.01: --psk-file names a file with one"),
        (
            ("call", "fetch", "valve"),
            text("", "4.01"),
            "4.01: --psk-file names a file with one",
        ),
        (("put", "valve", "1"), text("stuck", "5.00"), "5.00 stuck"),
    ],
)
def test_a_refusal_is_told_with_its_code_and_what_would_help(
    gateway: Gateway, words: Sequence[str], answer: Response, why: str, capsys: Printed
) -> None:
    gateway.paths["/sensors/valve"] = [answer]
    with pytest.raises(FailedError) as failed:
        run(*words)
    assert str(failed.value) == f"{BASE}/sensors/valve: {why}"
    assert failed.value.exit_code == exit_codes.REFUSED
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnreachableError("w"), exit_codes.UNREACHABLE),
        (NoAnswerError("w"), exit_codes.NO_ANSWER),
        (HandshakeRefusedError("w"), exit_codes.NO_SESSION),
        (ClientError("w"), exit_codes.FAILED),
    ],
)
@pytest.mark.parametrize("command", ["get", "observe"])
def test_no_answer_has_the_exit_code_of_its_reason(
    gateway: Gateway, command: str, error: ClientError, code: int
) -> None:
    gateway.paths["/sensors/valve"], gateway.rounds = [error], [[error]]
    with pytest.raises(FailedError) as failed:
        run(command, "valve")
    assert (str(failed.value), failed.value.exit_code) == ("w", code)


def test_a_uri_that_is_none_is_wrong_use(gateway: Gateway) -> None:
    gateway.paths["/a"] = [BadUriError("coap://gw/a: no port")]
    with pytest.raises(WrongUseError, match=r"^coap://gw/a: no port$"):
        run("get", f"{BASE}/a")


@pytest.mark.parametrize(
    ("payload", "line"),
    [
        (b'[{"bn":"gw/","n":"valve","v":1,"u":"Cel","bt":0}]', ""),
        (b"[]", "[]"),
        (b'[{"n":"valve"}]', '[{"n":"valve"}]'),
        (b'[{"n":"valve","v":1,"vs":"x"}]', '[{"n":"valve","v":1,"vs":"x"}]'),
        (b"[1]", "[1]"),
        (b'{"v":1}', '{"v":1}'),
        (b'[{"n":1,"v":1}]', '[{"n":1,"v":1}]'),
        (b'[{"v":1,"t":1e300}]', '[{"v":1,"t":1e300}]'),
        (b"\xff", "\ufffd"),
        (b"[" * 9_999, "[" * 9_999),
    ],
)
def test_readings_that_can_not_be_read_are_shown_as_they_came(
    gateway: Gateway, payload: bytes, line: str, capsys: Printed
) -> None:
    gateway.paths["/sensors/valve"] = [Response("2.05", payload, SENML)]
    assert run("get", "valve") == 0
    out = capsys.readouterr().out
    assert out == f"{line}\n" if line else out.split()[:3] == ["gw/valve", "1", "Cel"]


@pytest.mark.parametrize(
    ("is_terminal", "shown"), [(False, "a\tb\n\x1b[2Jc\n"), (True, "a\tb\n\\x1b[2Jc\n")]
)
@pytest.mark.parametrize("asked", [("get", "valve"), ("put", "valve", "1")])
def test_a_payload_tells_a_terminal_nothing_and_a_program_all(
    gateway: Gateway,
    is_terminal: bool,
    shown: str,
    asked: Sequence[str],
    capsys: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway.paths["/sensors/valve"] = [text("a\tb\n\x1b[2Jc")]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    assert run(*asked) == 0
    assert capsys.readouterr().out == shown


# -- what comes ------------------------------------------------------------------------------------


def test_what_is_the_same_is_shown_once_and_as_many_values_as_were_asked_for(
    gateway: Gateway, capsys: Printed
) -> None:
    gateway.rounds = [[text("1"), text("1"), text("2"), text("3"), text("4")]]
    assert run("observe", "valve", "--count", "3") == 0
    assert capsys.readouterr().out == "1\n2\n3\n"


def test_what_can_not_be_observed_is_read_again_and_again(
    gateway: Gateway, capsys: Printed
) -> None:
    gateway.rounds = [[text("1"), text("", "5.01")]]
    gateway.paths["/sensors/valve"] = [text("1"), text("2"), text("2"), text("3")]
    assert run("observe", "valve", "--count", "3", "--json") == 0
    told = [json.loads(line)["payload"] for line in capsys.readouterr().out.splitlines()]
    assert told == ["1", "2", "3"]
    observed, *read, closed = gateway.asked
    assert (observed, closed) == (("observe", "/sensors/valve"), ("close", ""))
    assert read == [("GET", "/sensors/valve")] * 4


def test_an_observation_is_begun_anew_when_it_is_silent_or_a_gateway_is_away_for_a_while(
    gateway: Gateway, capsys: Printed
) -> None:
    gateway.rounds = [
        [text("1")],
        [TimeoutError()],
        [NoAnswerError("no answer within 5 s")],
        [text("", "5.03")],
        [text("1"), text("2")],
    ]
    assert run("observe", "valve", "--count", "2") == 0
    said = capsys.readouterr()
    assert said.out == "1\n2\n"
    assert said.err == (f"hedgerow: no answer within 5 s\nhedgerow: {BASE}/sensors/valve: 5.03\n")


def test_an_error_that_comes_first_ends_it(gateway: Gateway) -> None:
    gateway.rounds = [[text("", "4.04")]]
    with pytest.raises(FailedError, match=r"4\.04 nothing there"):
        run("observe", "valve")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("observe", "valve", "--count", "0"), "--count: '0' is not 1 or more"),
        (("observe", "valve", "--count", "\u00b2"), "--count: '\u00b2' is not 1 or more"),
        (("call", "post", "v", "--format", "65536"), "--format: '65536' is not 0 to 65535"),
        (("call", "post", "v", "--format", "000000"), "--format: '000000' is not 0 to 65535"),
        (("call", "post", "v", "--format", "-1"), "--format: '-1' is not 0 to 65535"),
        (
            ("call", "get", "v"),
            "invalid choice: 'get', there are post, delete, fetch, patch, ipatch",
        ),
        (("get", "v", "--timeout", "0"), "--timeout: '0' is no time in seconds"),
        (("get", "v", "--timeout", "inf"), "--timeout: 'inf' is no time in seconds"),
    ],
)
def test_a_number_out_of_its_limits_is_told_with_them(
    words: Sequence[str], why: str, capsys: Printed
) -> None:
    with pytest.raises(SystemExit):
        run(*words)
    assert why in capsys.readouterr().err


class Pipe(io.StringIO):
    """Keeps apart what was flushed, as a reader behind a pipe sees it."""

    seen = ""

    def flush(self) -> None:
        Pipe.seen = self.getvalue()


def test_a_reader_sees_each_value_when_it_comes(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Pipe())
    gateway.rounds = [[text("1"), text("2")]]
    assert run("observe", "valve", "--count", "2") == 0
    assert Pipe.seen == "1\n2\n"
    monkeypatch.setattr(sys, "stdout", Pipe())
    for path in ("/q/-/-/gw-a/sensors/valve", "/q/c/d/gw-b/sensors/valve"):
        gateway.paths[path] = [text("21")]
    assert run("get", "*/valve") == 0
    assert Pipe.seen == "21\n21\n"


def test_an_observation_is_begun_anew_a_minute_behind_the_time_for_an_answer(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, timeout = list[float | None](), asyncio.timeout

    def noted(limit_s: float | None) -> asyncio.Timeout:
        limits.append(limit_s)
        return timeout(limit_s)

    monkeypatch.setattr(asyncio, "timeout", noted)
    gateway.rounds = [[text("1")]]
    assert run("observe", "valve", "--count", "1", "--timeout", "7") == 0
    assert limits == [67.0]
