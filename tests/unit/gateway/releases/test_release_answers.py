"""A release stays only if its listeners answer: what each is asked, and what counts."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from coap_engine import codec
from gateway.mqtt import ConnAck, Connect, Disconnect, Scanner, Version, body_at, decode, encode
from gateway.releases import __main__ as command
from gateway.releases import asking
from gateway.releases.answers import (
    CONNECT,
    DISCONNECT,
    LISTENERS_MAX,
    CoapQuestion,
    DtlsQuestion,
    ListenerOnTrial,
    MqttQuestion,
    asked_of,
    silent,
)
from gateway.releases.asking import OwnListeners
from gateway.releases.folder import ReleaseFolder
from gateway.releases.trial import ServiceEnds
from gateway.releases.websocket_questions import BYE, FramedMqttQuestion, UpgradeQuestion

MQTT, COAP = ListenerOnTrial("mqtt", "127.0.0.1", 1883), ListenerOnTrial("coap", "::1", 5683)


def test_the_broker_is_asked_by_a_client_that_is_nobody() -> None:
    scanner = Scanner(1 << 10)
    scanner.feed(CONNECT + DISCONNECT)
    first, second = (decode(raw[0], raw[body_at(raw) :], Version.V311) for raw in scanner.take(2))
    assert isinstance(first, Connect)
    assert (first.version, first.client_id, first.username) == (Version.V311, "", None)
    assert isinstance(second, Disconnect)


@pytest.mark.parametrize("code", range(6))
def test_any_connack_is_an_answer_a_refusal_too(code: int) -> None:
    connack = (
        encode(ConnAck(False, code, {}), Version.V311) if not code else bytes([32, 2, 0, code])
    )
    assert MqttQuestion().answered(connack)
    assert MqttQuestion().answered(connack + b"\xd0\x00")
    for length in range(4):
        assert not MqttQuestion().answered(connack[:length])


@given(st.binary(min_size=1))
def test_what_is_no_connack_is_refused_or_waited_for_and_never_an_answer(data: bytes) -> None:
    is_connack = data[:2] == b"\x20\x02" and data[2:4] in {
        b"\x01\x00",
        *(bytes([0, code]) for code in range(6)),
    }
    try:
        answered = MqttQuestion().answered(data)
    except ValueError as error:
        assert data[:8].hex() in str(error)
        assert not is_connack
    else:
        assert answered == is_connack
        assert answered or b"\x20\x02\x00"[: len(data)] == data or data == b"\x20\x02\x01"


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_a_ping_is_answered_by_its_own_reset(own: int, other: int) -> None:
    question = CoapQuestion(own)
    ping = codec.decode(question.data)
    assert (ping.type, ping.code, ping.message_id) == (0, 0, own)
    assert question.answered(b"\x70\x00" + own.to_bytes(2, "big"))
    assert not question.answered(b"")
    if own != other:
        with pytest.raises(ValueError, match="in place of a reset"):
            question.answered(b"\x70\x00" + other.to_bytes(2, "big"))


def test_what_is_no_dtls_is_refused() -> None:
    question = DtlsQuestion(bytes(32))
    assert not question.answered(b"")
    with pytest.raises(ValueError, match="HelloVerifyRequest"):
        question.answered(b"\x15\xfe\xfd" + bytes(12))


def test_a_dtls_server_is_asked_by_one_whole_hello_that_offers_what_gateways_take() -> None:
    data = DtlsQuestion(random := bytes(range(32))).data
    record, handshake, hello = data[:13], data[13:25], data[25:]
    length = len(hello).to_bytes(3)
    assert record == bytes.fromhex("16fefd") + bytes(8) + (len(data) - 13).to_bytes(2)
    assert handshake == b"\x01" + length + bytes(5) + length, "one fragment"
    assert hello[:36] == b"\xfe\xfd" + random + bytes(2), "no session, no cookie"
    # PSK and ECDHE_ECDSA, with AES in CCM or GCM (RFC 6655, 7251, 5289, 5487).
    assert hello[36:50].hex() == "000c" + "c0a4" + "c0a8" + "c0ae" + "c02b" + "c02c" + "00a8"
    assert hello[50:54] == b"\x01\0" + (len(hello) - 54).to_bytes(2), "not compressed"
    assert DtlsQuestion(bytes(32)).data != data


@pytest.mark.parametrize("version", ["feff", "fefd"])
def test_dtls_is_known_by_the_first_byte_of_its_handshake(version: str) -> None:
    question = DtlsQuestion(bytes(32))
    record = bytes.fromhex(f"16{version}") + bytes(10)
    for kind in (3, 2):  # HelloVerifyRequest, ServerHello
        assert question.answered(record + bytes([kind]))
    for data in (record, record + b"\x01", record + b"\x0e", b"\x16\xfe\xfe" + bytes(10) + b"\x03"):
        with pytest.raises(ValueError, match=f"^{data.hex()} in place of a HelloVerifyRequest$"):
            question.answered(data)


def test_listeners_are_asked_where_this_machine_reaches_them() -> None:
    told = {
        "listeners": {
            "mqtt": ["0.0.0.0:1883", "[::]:1883", "10.0.0.1:1884"],
            "ws": ["127.0.0.1:80"],
            "http": ["127.0.0.1:81"],
            "coaps": ["[fe80::1%eth0]:5684"],
        }
    }
    assert [str(one) for one in asked_of(told)] == [
        *("mqtt 127.0.0.1:1883", "mqtt [::1]:1883", "mqtt 10.0.0.1:1884", "ws 127.0.0.1:80"),
        "coaps [fe80::1%eth0]:5684",
    ]
    assert len(asked_of({"listeners": {"mqtt": ["127.0.0.1:1"] * 1000}})) == LISTENERS_MAX


def test_a_listener_has_a_port_from_1_to_65535() -> None:
    def asked(port: object) -> list[int]:
        return [one.port for one in asked_of({"listeners": {"mqtt": [f"gw:{port}"]}})]

    assert (asked(1), asked(65_535)) == ([1], [65_535])
    for port in (0, 65_536, -1, "", "1x"):
        with pytest.raises(ValueError, match=rf"^listeners\.mqtt: 'gw:{port}' is not host:port$"):
            asked(port)


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({}, "listeners: None"),
        ({"listeners": {"mqtt": 1}}, "listeners.mqtt: 1"),
        ({"listeners": {"coap": ["localhost"]}}, "listeners.coap"),
        ({"listeners": {"coap": ["127.0.0.1:70000"]}}, "listeners.coap"),
        ({"listeners": {"mqtts": [None]}}, "listeners.mqtts"),
    ],
)
def test_a_wrong_file_of_listeners_is_named_by_its_field(
    told: dict[str, object], field: str
) -> None:
    with pytest.raises(ValueError, match=field):
        asked_of(told)


def test_one_that_is_silent_or_not_there_any_more_is_a_complaint() -> None:
    assert not silent({MQTT: "", COAP: ""}, ["mqtt", "coap"])
    assert list(silent({MQTT: "no CONNACK", COAP: ""}, ["mqtt", "coap", "mqtts"])) == [
        "it does not listen on mqtts any more",
        "mqtt 127.0.0.1:1883: no CONNACK",
    ]


# -- over sockets --------------------------------------------------------------------------------


class ReleaseOnTrial:
    """A release whose listeners do what they are told with who comes."""

    def __init__(self, folder: Path, connection: Callable[[socket.socket], None]) -> None:
        self.folder = folder
        self._connection = connection
        self._kept: list[socket.socket] = []
        self.stream = socket.create_server(("127.0.0.1", 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        self.config = folder / "hedgerow.toml"
        self.config.write_text('[gateway]\nstate_dir = "state"\n')
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def tell(self, *schemes: str) -> None:
        ports = dict.fromkeys(("mqtt", "mqtts", "ws"), self.stream)
        each = {
            scheme: [f"127.0.0.1:{ports.get(scheme, self.datagrams).getsockname()[1]}"]
            for scheme in schemes
        }
        (self.folder / "state").mkdir(exist_ok=True)
        (self.folder / "state/listeners.json").write_text(json.dumps({"listeners": each}))

    def close(self) -> None:
        self.stream.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for sock in (self.stream, self.datagrams, *self._kept):
            sock.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.stream.accept()
            except OSError:
                return
            self._kept.append(connection)
            self._connection(connection)


@contextmanager
def release(folder: Path, connection: Callable[[socket.socket], None]) -> Iterator[ReleaseOnTrial]:
    made = ReleaseOnTrial(folder, connection)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def _in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give answers a minute, so that a slow machine answers in time."""
    monkeypatch.setattr(asking, "ANSWER_S", 60.0)


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give answers a fifth of a second: a test awaits one that never comes."""
    monkeypatch.setattr(asking, "ANSWER_S", 0.2)


def accepts_and_says_nothing(_connection: socket.socket) -> None:
    pass


def hangs_up(connection: socket.socket) -> None:
    connection.recv(1 << 10)
    connection.close()


def speaks_http(connection: socket.socket) -> None:
    connection.recv(1 << 10)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def refuses(connection: socket.socket) -> None:
    connection.recv(1 << 10)
    connection.sendall(b"\x20\x02\x00\x05")


def upgrades_for_another(connection: socket.socket) -> None:
    connection.recv(1 << 10)
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n\r\n")


@pytest.mark.usefixtures("_soon")
def test_a_release_that_answers_neither_a_connect_nor_a_ping_has_both_against_it(
    tmp_path: Path,
) -> None:
    with release(tmp_path, accepts_and_says_nothing) as trial:
        trial.tell("mqtt", "mqtts", "coap", "coaps")
        found = list(OwnListeners(trial.config, 0.0).complaints(()))
    whys = [
        *("mqtt .*: no CONNACK within", "mqtts .*: no CONNACK within"),
        *("coap .*: no reset within", "coaps .*: no HelloVerifyRequest within"),
    ]
    assert len(found) == len(whys)
    for told, why in zip(found, whys, strict=True):
        assert re.match(why, told)


@pytest.mark.parametrize(
    ("connection", "why"),
    [
        (hangs_up, "it hangs up without a CONNACK"),
        (speaks_http, "in place of a CONNACK"),
    ],
)
def test_a_broker_that_gives_no_connack_is_told_by_what_it_does(
    tmp_path: Path, connection: Callable[[socket.socket], None], why: str
) -> None:
    with release(tmp_path, connection) as trial:
        trial.tell("mqtt")
        (found,) = OwnListeners(trial.config, 0.0).complaints(())
    assert why in found


@pytest.mark.parametrize(
    ("connection", "why"),
    [
        (hangs_up, "it hangs up without a websocket"),
        (speaks_http, "'HTTP/1.1 400 Bad Request' in place of a websocket"),
        (upgrades_for_another, "another Sec-WebSocket-Accept"),
    ],
)
def test_what_gives_no_websocket_is_told_by_what_it_does(
    tmp_path: Path, connection: Callable[[socket.socket], None], why: str
) -> None:
    with release(tmp_path, connection) as trial:
        trial.tell("ws")
        (found,) = OwnListeners(trial.config, 0.0).complaints(())
    assert why in found


@pytest.mark.usefixtures("_soon")
def test_what_begins_no_websocket_in_time_is_told_as_silent(tmp_path: Path) -> None:
    with release(tmp_path, refuses) as trial:
        trial.tell("ws")
        (found,) = OwnListeners(trial.config, 0.0).complaints(())
    assert "no websocket within" in found


def test_a_websocket_is_asked_for_by_who_may_have_one() -> None:
    question = UpgradeQuestion("[::1]:80", "", bytes(16))
    server = ServerProtocol(subprotocols=[Subprotocol("mqtt")], origins=[None])
    server.receive_data(question.data)
    (request,) = server.events_received()
    assert isinstance(request, Request)
    server.send_response(server.accept(request))
    whole = b"".join(server.data_to_send())
    assert question.answered(whole)
    assert not any(question.answered(whole[:length]) for length in range(len(whole)))
    framed = FramedMqttQuestion()
    server.receive_data(framed.data + BYE)
    assert [event.data for event in server.events_received()] == [CONNECT, DISCONNECT]
    server.send_binary(b"\x20\x02\x00\x05")
    connack = b"".join(server.data_to_send())
    assert framed.answered(connack)
    assert not any(framed.answered(connack[:length]) for length in range(len(connack)))
    server.send_text(b"no")
    with pytest.raises(ValueError, match="in place of a frame"):
        framed.answered(b"".join(server.data_to_send()))


@given(st.binary())
def test_what_is_no_websocket_is_no_answer(data: bytes) -> None:
    for question in (UpgradeQuestion("h:1", "/mqtt", bytes(16)), FramedMqttQuestion()):
        if data[:4] != b"\x82\x04\x20\x02":
            try:
                assert not question.answered(data)
            except ValueError as error:
                assert "in place of" in str(error)


def test_one_that_lets_nobody_in_answers(tmp_path: Path) -> None:
    with release(tmp_path, refuses) as trial:
        trial.tell("mqtt")
        assert not OwnListeners(trial.config, 0.0).complaints(["mqtt"])


@pytest.mark.usefixtures("_soon")
def test_one_that_answers_at_the_second_round_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = iter([accepts_and_says_nothing, refuses])
    pauses: list[float] = []

    def better_each_time(connection: socket.socket) -> None:
        next(ways)(connection)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        monkeypatch.setattr(asking, "ANSWER_S", 60.0)  # the answer comes, late or not

    with release(tmp_path, better_each_time) as trial:
        trial.tell("mqtt")
        assert not OwnListeners(trial.config, 60.0, pause).complaints(())
    assert pauses == [asking.AGAIN_S]


def test_one_that_has_told_no_listeners_is_not_well(tmp_path: Path) -> None:
    config = tmp_path / "hedgerow.toml"
    for text in ("", "[gateway]\nstate_dir = 1\n", "]", '[gateway]\nstate_dir = "state"\n'):
        config.write_text(text)
        listeners = OwnListeners(config, 0.0)
        assert not listeners.schemes()
        assert "where it listens is not known" in listeners.complaints(())[0]


class DoesAll(command.SystemdService):
    """A service of which systemd does what it is asked for, and tells nothing."""

    def ends(self) -> ServiceEnds | None:
        return None

    def restart(self) -> None:
        pass

    def start_guard(self) -> None:
        pass


@pytest.mark.usefixtures("_soon")
def test_the_command_does_not_confirm_a_release_that_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1-old", "2-new"):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / "installed").touch()
    folder = ReleaseFolder(tmp_path)
    folder.switch("1-old")
    monkeypatch.setattr(command, "SystemdService", DoesAll)
    with release(tmp_path, accepts_and_says_nothing) as trial:
        trial.tell("mqtt", "coap")
        own = ["--root", str(tmp_path), "--config", str(trial.config)]
        assert command.main([*own, "try", "2-new"]) == 0
        trial.tell("mqtt")
        assert command.main([*own, "confirm", "2-new", "--answers-s", "0"]) == 1
    said = capsys.readouterr().err
    assert "2-new does not answer: it does not listen on coap any more; mqtt 127.0.0.1:" in said
    assert folder.trial() is not None


@pytest.mark.parametrize(
    ("count", "state", "ends"),
    [
        ("0", "active", ServiceEnds(0)),
        ("2", "activating", ServiceEnds(2)),
        # A configuration that is wrong: systemd does not start it again.
        ("0", "failed", ServiceEnds(0, failed_at=73_104_611)),
        ("", "", None),
    ],
)
def test_a_service_that_is_not_started_again_has_failed_at_a_moment(
    count: str, state: str, ends: ServiceEnds | None
) -> None:
    class Told(command.SystemdService):
        def _systemctl(self, *arguments: str) -> str:
            return (
                f"NRestarts={count}\nActiveState={state}\nStateChangeTimestampMonotonic=73104611\n"
            )

    assert Told().ends() == ends


def test_a_play_asks_the_listeners_and_is_told_which_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "ANSWERS_S", 0.0)
    for connection, code, why in ((refuses, 0, ""), (hangs_up, 1, "without a CONNACK")):
        folder = tmp_path / connection.__name__
        folder.mkdir()
        with release(folder, connection) as trial:
            trial.tell("mqtt")
            assert command.main(["--config", str(trial.config), "listeners"]) == code
        assert why in capsys.readouterr().err


def test_a_listener_that_speaks_no_tls_does_not_answer(tmp_path: Path) -> None:
    with release(tmp_path, speaks_http) as trial:
        trial.tell("mqtts")
        (found,) = OwnListeners(trial.config, 0.0).complaints(())
    assert re.match(r"mqtts 127\.0\.0\.1:\d+: .*WRONG_VERSION_NUMBER", found)


def test_listeners_that_are_told_as_something_else_are_not_known(tmp_path: Path) -> None:
    config = tmp_path / "hedgerow.toml"
    config.write_text('[gateway]\nstate_dir = "."\n')
    (tmp_path / "listeners.json").write_text("[1]")
    assert OwnListeners(config, 0.0).complaints(()) == [
        "where it listens is not known: listeners.json: [1]"
    ]


def test_an_answer_in_place_of_a_websocket_is_read_up_to_a_limit() -> None:
    question = UpgradeQuestion("h:1", "", bytes(16))
    assert not question.answered(bytes(16_384))
    with pytest.raises(ValueError, match=r"\.\.\. in place of a websocket$"):
        question.answered(bytes(16_385))


class RunSystemctl:
    """Stands in for `subprocess.run`: systemctl says what it is told to, or fails."""

    def __init__(self, said: str = "", error: Exception | None = None, code: int = 0) -> None:
        self.called: list[str] = []
        self._said = said
        self._error = error
        self._code = code

    def __call__(
        self, command: Sequence[str], *, timeout: float, **_: object
    ) -> subprocess.CompletedProcess[str]:
        assert timeout == 30.0
        self.called.append(" ".join(command))
        if self._error is not None:
            raise self._error
        return subprocess.CompletedProcess(command, self._code, self._said, "no such unit\n")


def test_systemd_is_asked_and_told_by_its_own_program(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "NRestarts=3\nActiveState=failed\nStateChangeTimestampMonotonic=5\n"
    monkeypatch.setattr(subprocess, "run", systemctl := RunSystemctl(said))
    service = command.SystemdService()
    assert service.ends() == ServiceEnds(3, failed_at=5)
    service.restart()
    service.start_guard()
    assert systemctl.called == [
        "/usr/bin/systemctl show --property=NRestarts --property=ActiveState"
        " --property=StateChangeTimestampMonotonic hedgerow.service",
        "/usr/bin/systemctl restart --no-block hedgerow.service",
        "/usr/bin/systemctl start --no-block hedgerow-trial.service",
    ]


@pytest.mark.parametrize(
    ("systemctl", "why"),
    [
        (RunSystemctl(code=4), "no such unit"),
        (
            RunSystemctl(error=subprocess.TimeoutExpired("systemctl", 30.0)),
            "Command 'systemctl' timed out after 30.0 seconds",
        ),
    ],
)
def test_a_systemd_that_does_not_do_it_is_told_and_one_that_says_nothing_is_gone_on_without(
    systemctl: RunSystemctl,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(subprocess, "run", systemctl)
    service = command.SystemdService()
    with pytest.raises(OSError, match=why) as raised:
        service.restart()
    assert str(raised.value) == f"/usr/bin/systemctl restart --no-block hedgerow.service: {why}"
    assert service.ends() is None
    assert capsys.readouterr().err.endswith(f" hedgerow.service: {why}\n")


def test_the_command_goes_back_resumes_watches_and_tells_what_is_on_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1-old", "2-new"):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / "installed").touch()
    folder = ReleaseFolder(tmp_path)
    folder.switch("1-old")
    monkeypatch.setattr(command, "SystemdService", DoesAll)
    own = ["--root", str(tmp_path), "--config", str(tmp_path / "hedgerow.toml")]

    def said(*arguments: str) -> str:
        assert command.main([*own, *arguments]) == 0
        return capsys.readouterr().out

    untried = {"current": "1-old", "trial": None, "last": None}
    assert json.loads(said("status")) == untried
    assert said("return") == "nothing is on trial\n"
    assert said("watch") == said("resume") == ""
    assert json.loads(said("status")) == untried
    said("try", "2-new", "--ring", "2", "--within-s", "60")
    said("resume")
    told = json.loads(said("status"))
    assert (told["current"], told["last"]) == ("2-new", None)
    trial = folder.trial()
    assert trial is not None
    assert told["trial"] == {**asdict(trial), "schemes": []}
    assert (trial.ring, trial.left_s) == (2, 60.0)
    assert said("return", "--why", "it is slow") == "1-old runs again\n"
    last = {"release": "2-new", "before": "1-old", "why": "it is slow", "ring": 2}
    assert json.loads(said("status")) == untried | {"last": last | {"outcome": "returned"}}
    said("try", "2-new")
    assert said("return") == "1-old runs again\n"
    assert (folder.last() or {})["why"] == "it was sent back"


def test_the_command_says_why_it_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--root", str(tmp_path), "status"]) == 1
    assert capsys.readouterr().err == f"releases: {tmp_path}/venv: No such file or directory\n"


def test_the_command_watches_until_the_trial_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1-old", "2-new"):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / "installed").touch()
    folder = ReleaseFolder(tmp_path)
    folder.switch("1-old")
    monkeypatch.setattr(command, "SystemdService", DoesAll)
    own = ["--root", str(tmp_path), "--config", str(tmp_path / "hedgerow.toml")]
    assert command.main([*own, "try", "2-new", "--within-s", "0"]) == 0
    assert folder.current() == "2-new"
    assert command.main([*own, "watch"]) == 0
    assert (folder.current(), folder.trial()) == ("1-old", None)


def test_the_command_takes_no_delta_that_is_longer_than_the_archive_that_it_makes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "releases/1-old").mkdir(parents=True)
    (tmp_path / "releases/1-old/installed").touch()
    (tmp_path / "releases/1-old/wheels.tar").write_bytes(b"base")
    (tmp_path / "delta").write_bytes(bytes(4))
    of = ("rebuild", "1-old", str(tmp_path / "delta"), str(tmp_path / "made"))
    assert command.main(["--root", str(tmp_path), *of, "--size", "3", "--sha256", "0" * 64]) == 1
    assert capsys.readouterr().err == (
        f"releases: {tmp_path}/delta has 4 bytes: at most 3 are taken\n"
    )
    assert not (tmp_path / "made").exists()
