"""A command that asks a gateway sends exactly this, and prints exactly what came of it."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from coap_partner import Behaviour, Partner, partner, says, tells
from one_parser import hedgerow, parser

from coap_engine.codec import decode
from coap_engine.option_numbers import URI_PATH, URI_QUERY
from gateway.base import exit_codes
from gateway.process.state_folder import listeners_file
from gateway.tools.commands import asking, draining

METHODS = {1: "GET", 2: "POST", 3: "PUT", 4: "DELETE"}
DELETED, CHANGED, CREATED = 0x42, 0x44, 0x41
UNAUTHORIZED, FORBIDDEN, MISSING = 0x81, 0x83, 0x84
ALERT = {
    "alert": "hot:gw-a:-",
    "severity": "critical",
    "rule": "hot",
    "gateway": "gw-a",
    "site": "",
    "part": "",
    "message": "81 °C",
    "what_to_do": "give it air",
    "since_us": 1,
    "taken_on": None,
    "silence": None,
    "is_told": True,
}
ALERTS: dict[str, Any] = {
    "alerts": [ALERT],
    "cleared": [],
    "silences": [],
    "ways": {},
    "rules": {
        "hot": {"severity": "critical", "after_s": 5, "clears_after_s": 9, "what_to_do": "look"}
    },
    "left_out": 0,
}
DRAINED = {
    "is_over": True,
    "uncommitted": 0,
    "lacking": {"gw-c": 0, "gw-b": 0},
    "owed": {},
    "left_on_disk": 0,
}
MEMBERS = {"members": [], "as_of": 0}
SENSOR = {
    "name": "door",
    "type": "",
    "kind": "sensor",
    "unit": "Cel",
    "interval_s": 0.5,
    "is_added": True,
    "state": "good",
}
DOOR = b'</sensors/door>;rt="door";unit="Cel";gw="gw-b"'
PUMP = b'</rd/7>;ep="pump";base="coap://10.0.0.7";rt="core.rd-ep"'


def requests(made: Partner) -> list[str]:
    """Return each request as method, path and query, and its payload."""
    found = []
    for message in map(decode, made.datagrams):
        path = "/".join(str(v, "utf-8") for n, v in message.options if n == URI_PATH)
        query = "&".join(str(v, "utf-8") for n, v in message.options if n == URI_QUERY)
        words = [f"{METHODS[message.code]} {path}", f"?{query}" if query else ""]
        found.append(f"{''.join(words)} {message.payload.decode()}".rstrip())
    return found


class Pipe(io.TextIOWrapper):
    """Standard output into a pipe: the reader has what was flushed, and no more."""

    def __init__(self) -> None:
        self.came = io.BytesIO()
        super().__init__(self.came, "utf-8")

    @property
    def shown(self) -> str:
        return self.came.getvalue().decode()


def indented(document: object) -> str:
    return json.dumps(document, indent=1) + "\n"


KICKED = {"was_connected": True, "is_forgotten": True}


@pytest.mark.parametrize(
    ("command", "paths", "code", "printed", "asked"),
    [
        (
            "sensors add type=host name=a --json",
            {"sensors": tells({"names": ["a/b"]})},
            0,
            indented({"names": ["a/b"]}),
            ['POST sensors {"type": "host", "name": "a"}'],
        ),
        (
            "sensors list",
            {"sensors": tells({"sensors": [SENSOR]})},
            0,
            "sensor  type  kind    unit  every  from   state\n"
            "door    -     sensor  Cel   0.5 s  added  good\n",
            ["GET sensors"],
        ),
        (
            "sensors list --json",
            {"sensors": tells({"sensors": [SENSOR]})},
            0,
            indented([SENSOR]),
            ["GET sensors"],
        ),
        (
            "sensors change a/b unit=V",
            {"sensors": tells({"names": ["a/b", "a/c"]})},
            0,
            "a/b is changed\na/c is changed\n",
            ['POST sensors?change=a/b {"unit": "V"}'],
        ),
        (
            "sensors remove a/b",
            {"sensors/a/b": tells({"names": ["a/b"]})},
            0,
            "a/b is removed\n",
            ["DELETE sensors/a/b"],
        ),
        (
            "sensors remove a",
            {"sensors/a": says(b"", MISSING)},
            1,
            "hedgerow: coap://{host}/sensors: 4.04 no such sensor\n",
            ["DELETE sensors/a"],
        ),
        (
            "clients kick a/b --forget --json",
            {"clients": tells(KICKED)},
            0,
            indented({"id": "a/b", **KICKED}),
            ["POST clients?id=a/b&forget=1"],
        ),
        (
            "clients kick x --forget",
            {"clients": tells(KICKED)},
            0,
            "'x' is disconnected and forgotten\n",
            ["POST clients?id=x&forget=1"],
        ),
        (
            "clients kick x --forget",
            {"clients": tells(KICKED | {"was_connected": False})},
            0,
            "'x' is forgotten\n",
            ["POST clients?id=x&forget=1"],
        ),
        (
            "clients kick x",
            {"clients": tells({"was_connected": False, "is_forgotten": False})},
            1,
            "hedgerow: 'x' is not connected\n",
            ["POST clients?id=x"],
        ),
        (
            "members forget gw/b --json",
            {"members": says(b"", DELETED)},
            0,
            indented({"forgotten": "gw/b"}),
            ["DELETE members?id=gw/b"],
        ),
        (
            "members forget gw-b",
            {"members": says(b"", FORBIDDEN)},
            1,
            "hedgerow: 4.03: `hedgerow policy explain` says who may; --psk-identity takes "
            "another key\n",
            ["DELETE members?id=gw-b"],
        ),
        ("clients list --forget", {}, 2, "hedgerow: --forget: needs kick\n", []),
        (
            "members forget gw-b",
            {"members": says(b"", DELETED)},
            0,
            "gw-b is taken out of the fleet's records\n",
            ["DELETE members?id=gw-b"],
        ),
        ("members --json", {"members": tells(MEMBERS)}, 0, "[]\n", ["GET members"]),
        (
            "alerts rules",
            {"alerts": tells(ALERTS)},
            0,
            "rule  severity  after  clears after  what to do\n"
            "hot   critical  5 s    9 s           look\n",
            ["GET alerts"],
        ),
        (
            "alerts show hot --json",
            {"alerts": tells(ALERTS)},
            0,
            indented(ALERT),
            ["GET alerts"],
        ),
        (
            "alerts --json",
            {"alerts": tells(ALERTS)},
            1,
            indented(ALERTS),
            ["GET alerts"],
        ),
        (
            "alerts rules --json",
            {"alerts": tells(ALERTS)},
            0,
            indented(ALERTS["rules"]),
            ["GET alerts"],
        ),
        (
            "alerts list",
            {"alerts": tells(ALERTS | {"alerts": []})},
            0,
            "nothing is wrong\n",
            ["GET alerts"],
        ),
        (
            "alerts list",
            {},
            1,
            "hedgerow: it raises no alerts: alerts.enabled is false, or it is of before 0.2\n",
            ["GET alerts"],
        ),
        ("alerts rules hot", {}, 2, "hedgerow: rules: takes no 'hot'\n", []),
        (
            "alerts unsilence 3 --json",
            {"alerts": tells({"number": 3})},
            0,
            indented({"number": 3}),
            ['POST alerts {"do": "unsilence", "number": 3}'],
        ),
        (
            "alerts close hot",
            {"alerts": tells(ALERTS)},
            1,
            "hedgerow: its answer has no 'alert': is that a gateway, and of which version?\n",
            ["GET alerts", 'POST alerts {"do": "close", "alert": "hot:gw-a:-"}'],
        ),
        (
            "drain",
            {"drain": says(b"", CHANGED), "status": tells({"id": "gw-a", "drain": DRAINED})},
            0,
            "gw-a is drained: all it had is at gw-b, gw-c\n",
            ["POST drain", "GET status"],
        ),
        (
            "drain --json",
            {"drain": says(b"", CHANGED), "status": tells({"id": "gw-a", "drain": DRAINED})},
            0,
            indented({"id": "gw-a", **DRAINED}),
            ["POST drain", "GET status"],
        ),
        (
            "drain",
            {
                "drain": says(b"", CHANGED),
                "status": tells({"id": "gw-a", "drain": DRAINED | {"left_on_disk": 2}}),
            },
            0,
            "gw-a is drained: all it had is at gw-b, gw-c; 2 messages for clients that are away "
            "stay on its disk\n",
            ["POST drain", "GET status"],
        ),
        (
            "drain",
            {"drain": says(b"no", UNAUTHORIZED)},
            1,
            "hedgerow: 4.01 no: --psk-file names a file with one\n",
            ["POST drain"],
        ),
        (
            "rd remove",
            {},
            2,
            "hedgerow: remove: which endpoint, as in ep=meter-7, is needed\n",
            [],
        ),
        (
            "rd remove ep=pump --json",
            {"rd-lookup/ep": says(PUMP), "rd/7": says(b"", DELETED)},
            0,
            indented({"removed": "/rd/7", "ep": "pump"}),
            ["GET rd-lookup/ep?count=100&page=0&ep=pump", "DELETE rd/7"],
        ),
        (
            "rd remove ep=pump",
            {"rd-lookup/ep": says(PUMP), "rd/7": says(b"", DELETED)},
            0,
            "pump is removed\n",
            ["GET rd-lookup/ep?count=100&page=0&ep=pump", "DELETE rd/7"],
        ),
        (
            "rd remove ep=pump",
            {"rd-lookup/ep": says(PUMP), "rd/7": says(b"", UNAUTHORIZED)},
            1,
            "hedgerow: coap://{host}/rd/7: 4.01 removing needs --psk-file\n",
            ["GET rd-lookup/ep?count=100&page=0&ep=pump", "DELETE rd/7"],
        ),
        (
            "rd remove d=campus rt=pump",
            {"rd-lookup/ep": says(PUMP + b"," + PUMP)},
            1,
            "hedgerow: d=campus rt=pump: 2 endpoints, not one\n",
            ["GET rd-lookup/ep?count=100&page=0&d=campus&rt=pump"],
        ),
        (
            "rd list",
            {"rd-lookup/ep": says(PUMP)},
            0,
            "endpoint  domain  group  base             registration  other\n"
            "pump      -       -      coap://10.0.0.7  /rd/7\n"
            "1 registered\n",
            ["GET rd-lookup/ep?count=100&page=0"],
        ),
        (
            "rd list",
            {"rd-lookup/ep": says(b"<none")},
            1,
            "hedgerow: coap://{host}/rd-lookup/ep: ",
            ["GET rd-lookup/ep?count=100&page=0"],
        ),
        (
            "discover unit=Cel --rt temperature --domain campus --group north --at gw-b",
            {"rd-lookup/res": says(DOOR)},
            0,
            "name       type  unit  gateway\ngw-b/door  door  Cel   gw-b\n1 found\n",
            [
                "GET rd-lookup/res?scope=all&count=100&page=0&unit=Cel&rt=temperature&d=campus"
                "&gp=north&gw=gw-b"
            ],
        ),
        (
            "discover --json",
            {"rd-lookup/res": says(DOOR)},
            0,
            indented(
                {
                    "resources": [
                        {
                            "name": "gw-b/door",
                            "href": "/sensors/door",
                            "rt": "door",
                            "unit": "Cel",
                            "gw": "gw-b",
                        }
                    ],
                    "missing": {"count": 0, "gateways": []},
                }
            ),
            ["GET rd-lookup/res?scope=all&count=100&page=0"],
        ),
        (
            "discover",
            {"rd-lookup/res": says(b"<none")},
            1,
            "hedgerow: coap://{host}/rd-lookup/res: ",
            ["GET rd-lookup/res?scope=all&count=100&page=0"],
        ),
        (
            "rd search rt=light --json",
            {"rd-lookup/res": says(b"<coap://10.0.0.7/l>;rt=light;obs")},
            0,
            indented([{"href": "coap://10.0.0.7/l", "rt": "light", "obs": True}]),
            ["GET rd-lookup/res?count=100&page=0&rt=light"],
        ),
    ],
)
async def test_what_is_sent_and_what_is_printed(
    command: str,
    paths: dict[str, Behaviour],
    code: int,
    printed: str,
    asked: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with partner() as (made, address):
        made.paths |= paths
        words = [*command.split(), "--host", address, "--timeout", "20"]
        ended = await asyncio.to_thread(hedgerow, *words)
    told = capsys.readouterr()
    said = printed.replace("{host}", address)
    if said.startswith("hedgerow: ") and not said.endswith("\n"):  # the rest is the parser's
        assert told.err.startswith(said)
        said = told.err
    expected = ("", said) if said.startswith("hedgerow: ") else (said, "")
    assert (ended, told.out, told.err) == (code, *expected)
    assert requests(made) == asked


async def test_all_pages_of_a_directory_and_of_clients_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A page that is full has another behind it; the last client of one begins the next."""
    shown = list[Any]()
    full = ",".join(f"</rd/{at}>;ep=e{at}" for at in range(100)).encode()

    def clients(_block: int) -> tuple[int, bytes, bool]:
        page = made.asked.count("clients")
        told = {"clients": [{"id": f"c{page}"}], "has_more": page < 2}
        return 0x45, json.dumps(told).encode(), False

    def endpoints(block: int) -> tuple[int, bytes, bool] | None:
        is_first = "page=0" in requests(made)[-1]
        return says(full if is_first else b"")(block)

    async with partner() as (made, address):
        made.paths |= {"clients": clients, "rd-lookup/ep": endpoints, "rd-lookup/res": endpoints}
        for command in ("clients", "rd list", "discover"):
            words = [*command.split(), "--json", "--host", address, "--timeout", "20"]
            assert await asyncio.to_thread(hedgerow, *words) == 0
            shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == [{"id": "c1"}, {"id": "c2"}]
    names = [f"e{at}" for at in range(100)]
    assert [one["ep"] for one in shown[1]] == names
    assert [one["ep"] for one in shown[2]["resources"]] == names
    asked = requests(made)
    assert asked[:2] == ["GET clients?after=", "GET clients?after=c1"]
    pages = dict.fromkeys(one for one in asked if "rd-lookup" in one)
    assert list(pages) == [
        f"GET rd-lookup/{kind}count=100&page={page}"
        for kind in ("ep?", "res?scope=all&")
        for page in (0, 1)
    ]


@pytest.mark.parametrize("form", ["{}", "coap://{}", "coap://{}/"])
async def test_a_gateway_is_named_by_its_address_or_by_its_uri(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with partner() as (made, address):
        made.paths["members"] = tells(MEMBERS)
        words = ["members", "--json", "--host", form.format(address)]
        assert await asyncio.to_thread(hedgerow, *words) == 0
    assert (capsys.readouterr().out, made.asked) == ("[]\n", ["members"])


@pytest.mark.parametrize("as_json", [False, True])
async def test_endpoints_are_watched_until_the_user_ends_it_whatever_is_answered_meanwhile(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = PUMP.replace(b"10.0.0.7", b"10.0.0.8")
    answers = [says(PUMP), says(b"", MISSING), says(changed), says(b"")]
    waited, pipe, shown = list[float](), Pipe(), list[str]()

    def wait(seconds: float) -> None:
        waited.append(seconds)
        shown.append(pipe.shown)
        if len(waited) == len(answers):
            raise KeyboardInterrupt
        made.paths["rd-lookup/ep"] = answers[len(waited)]

    monkeypatch.setattr(sys, "stdout", pipe)
    monkeypatch.setattr(asking, "time", SimpleNamespace(sleep=wait))
    async with partner() as (made, address):
        made.paths["rd-lookup/ep"] = answers[0]
        words = ["rd", "watch", "--every", "7", "--host", address]
        code = await asyncio.to_thread(hedgerow, *words, *["--json"] * as_json)
    told = capsys.readouterr()
    assert (code, waited) == (exit_codes.INTERRUPTED, [7.0] * 4)
    assert told.err == "hedgerow: 4.04\n"
    assert [text.count("\n") for text in shown] == [1, 1, 2, 3], "it is there before the wait"
    bases = (("+", 7), ("~", 8), ("-", 8))
    if as_json:
        seen = [json.loads(line) for line in shown[-1].splitlines()]
        assert seen == [
            {
                "change": sign,
                "href": "/rd/7",
                "ep": "pump",
                "base": f"coap://10.0.0.{at}",
                "rt": "core.rd-ep",
            }
            for sign, at in bases
        ]
    else:
        lines = [f"{sign} pump  coap://10.0.0.{at}  /rd/7\n" for sign, at in bases]
        assert shown[-1] == "".join(lines)


@pytest.mark.parametrize("as_json", [False, True])
async def test_what_is_shown_again_and_again_goes_on_after_an_error(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waited, pipe, shown = list[float](), Pipe(), list[str]()

    def wait(seconds: float) -> None:
        waited.append(seconds)
        shown.append(pipe.shown)
        made.paths["alerts"] = tells(ALERTS | {"alerts": []})
        if len(waited) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdout", pipe)
    monkeypatch.setattr(asking, "time", SimpleNamespace(sleep=wait))
    async with partner() as (made, address):
        made.paths["alerts"] = says(b"none", 0xA0)
        words = ["alerts", "--watch", "--host", address, *["--json"] * as_json]
        code = await asyncio.to_thread(hedgerow, *words)
    told = capsys.readouterr()
    assert (code, told.err, waited) == (exit_codes.INTERRUPTED, "", [2.0, 2.0])
    assert shown[0] == shown[1].splitlines(keepends=True)[0], "it is there before the wait"
    if as_json:
        assert shown[-1] == '{"error": "5.00 none"}\n' + json.dumps(ALERTS | {"alerts": []}) + "\n"
    else:
        assert shown[-1] == "5.00 none\nnothing is wrong\n"


async def test_a_drain_is_looked_at_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def status(_block: int) -> tuple[int, bytes, bool]:
        state = DRAINED | {"is_over": made.asked.count("status") == 3}
        return 0x45, json.dumps({"id": "gw-a", "drain": state}).encode(), False

    monkeypatch.setattr(asking, "POLL_S", 0.001)
    async with partner() as (made, address):
        made.paths |= {"drain": says(b"", CHANGED), "status": status}
        words = ["drain", "--host", address, "--timeout", "60"]
        code = await asyncio.to_thread(hedgerow, *words)
    told = capsys.readouterr()
    said = "gw-a is drained: all it had is at gw-b, gw-c\n"
    assert (code, told.out, told.err) == (0, said, "")
    assert requests(made) == ["POST drain", *["GET status"] * 3]


async def test_a_gateway_that_has_not_drained_in_time_says_in_json_too_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = DRAINED | {"is_over": False, "lacking": {"gw-b": 4, "gw-c": None, "gw-d": 0}}
    told = {"id": "gw-a", "mqtt_clients": 0, "drain": state}
    async with partner() as (made, address):
        made.paths |= {"drain": says(b"", CHANGED), "status": tells(told)}
        words = ["drain", "--json", "--host", address, "--timeout", "0.29"]
        code = await asyncio.to_thread(hedgerow, *words)
    said = capsys.readouterr()
    assert code == exit_codes.FAILED
    if "no answer" not in said.err:  # of a machine that stood still
        why = "gw-b lacks 4 messages, gw-c has not told what it has"
        assert said.err == f"hedgerow: gw-a is not drained: {why}\n"
        assert said.out == indented({"id": "gw-a", **state})


@pytest.mark.parametrize(
    ("told", "state", "why"),
    [
        ({"mqtt_clients": 3}, {"uncommitted": 9}, "3 clients are still connected"),
        ({}, {"uncommitted": 9}, "9 bytes are not in its log yet"),
        ({}, {"lacking": {}}, "it has no neighbour to hand its messages to"),
        ({}, {"lacking": {"gw-b": 1, "gw-a": None}, "owed": {"gw-c": 5}},
         "gw-a has not told what it has, gw-b lacks 1 messages, gw-c lacks 5 messages"),
        ({}, {"lacking": {"gw-b": 0}, "owed": {"gw-b": 5}}, "gw-b lacks 5 messages"),
    ],
)  # fmt: skip
def test_what_keeps_a_gateway_from_being_drained_is_told_the_nearest_first(
    told: dict[str, Any], state: dict[str, Any], why: str
) -> None:
    status = {"mqtt_clients": 0, "drain": DRAINED | state} | told
    assert draining.what_is_left(status) == why


def test_what_stays_on_the_disk_of_a_drained_gateway_is_told_with_its_owners() -> None:
    state = {"left_on_disk": 2, "owed": {"gw-c": 5, "gw-b": 1}}
    assert list(draining.what_stays(state)) == [
        "2 messages for clients that are away",
        "1 messages for gw-b, which is out of reach,",
        "5 messages for gw-c, which is out of reach,",
    ]
    assert list(draining.what_stays({"left_on_disk": 0, "owed": {}})) == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ([], "--psk-file: needed for coaps://192.0.2.1/status"),
        (["--psk-file", "psk", "--psk-identity", "b"], "--psk-identity: 'b' is not in psk"),
        (["--psk-file", "none"], "--psk-file: none: No such file or directory"),
    ],
)
def test_a_key_that_is_missing_is_named(
    more: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "psk").write_text("a:" + "ab" * 16)
    (tmp_path / "psk").chmod(0o600)
    assert hedgerow(*["status", "--host", "coaps://192.0.2.1", *more]) == exit_codes.WRONG_USE
    assert capsys.readouterr().err == f"hedgerow: {why}\n"


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon", ""])
def test_what_is_no_time_to_wait_is_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["status", f"--timeout={text}"])
    assert f"{text!r} is no time in seconds" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0.1", "3600"])
def test_a_gateway_is_looked_at_again_after_a_tenth_of_a_second_to_an_hour(text: str) -> None:
    assert parser().parse_args(["status", "--watch", text]).watch == float(text)
    assert parser().parse_args(["rd", "watch", "--every", text]).every == float(text)


@pytest.mark.parametrize("text", ["0.09", "3600.1", "nan", "often"])
def test_to_look_more_often_or_more_seldom_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["status", "--watch", text])
    assert f"{text!r} is not 0.1 to 3600 seconds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("listeners", "more", "why"),
    [
        (
            {"coaps": ["127.0.0.1:1"]},
            [],
            "gw-a has no coap listener, and over coaps this needs --psk-file",
        ),
        ({"coap": ["127.0.0.1:1"]}, ["--psk-file", "psk"], "gw-a has no coaps listener"),
    ],
)
def test_a_gateway_that_listens_otherwise_than_it_is_asked_is_told(
    listeners: dict[str, list[str]],
    more: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tree.key").touch(mode=0o600)
    Path("tree.key").write_text("ab" * 32)
    Path("gw.toml").write_text(
        '[gateway]\nid = "gw-a"\nstate_dir = "."\n'
        '[tree]\nkey_file = "tree.key"\ntls = "off"\n[access]\nanonymous = true\n'
    )
    listeners_file.write(Path(), "gw-a", listeners)
    assert hedgerow("status", "--config", "gw.toml", *more) == exit_codes.FAILED
    assert capsys.readouterr().err == f"hedgerow: {why}\n"
