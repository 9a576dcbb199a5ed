"""`hedgerow pub` and `sub` tell which file is wrong, and a broker that does not answer in time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.mqtt import ConnAck, Packet, Version, encode
from gateway.tools.commands import broker_address, messages, messaging
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.parser import Parser


class Writer:
    """Takes all that is written, and notes whether it was closed."""

    closed = 0

    def write(self, data: bytes) -> None:
        assert data

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        Writer.closed += 1

    async def wait_closed(self) -> None:
        pass


def run(*words: str) -> int:
    parser = Parser(prog="hedgerow")
    messages.add(parser.add_subparsers())
    options = parser.parse_args(words)
    code: int = options.command(options)
    return code


def has_broker(monkeypatch: pytest.MonkeyPatch, *packets: Packet) -> None:
    """Have one that says this, and nothing more."""

    async def connect(*_: object) -> Any:
        reader = asyncio.StreamReader()
        reader.feed_data(b"".join(encode(one, Version.V5) for one in packets))
        return reader, Writer()

    monkeypatch.setattr(broker_address, "connect", connect)
    monkeypatch.setattr(messaging, "ANSWER_S", 0.0)
    monkeypatch.setattr(Writer, "closed", 0)


def test_a_broker_that_does_not_let_one_in_is_told_with_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_broker(monkeypatch)
    with pytest.raises(FailedError, match=r"^gw:1884: no answer to CONNECT$"):
        run("pub", "-t", "a", "-n", "--host", "gw:1884")


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_a_message_that_is_not_answered_is_told_with_its_topic(
    qos: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_broker(monkeypatch, ConnAck(False))
    with pytest.raises(FailedError, match=r"^'a/b': no answer within 0 s$"):
        run("pub", "-t", "a/b", "-n", "-q", qos, "--host", "gw")
    assert Writer.closed == 1, "the connection is given back"


@pytest.mark.parametrize(
    ("words", "text", "why"),
    [
        (("-n", "--password-file", "{0}"), b"secret", "--password-file: needs --user"),
        (
            ("-n", "-u", "olga", "--password-file", "{0}"),
            "secret".encode("utf-16"),
            "--password-file: {0}: begins with a byte order mark of UTF-16: save it as UTF-8",
        ),
        (
            ("-n", "-u", "olga", "--password-file", "{0}"),
            b"\nsecret\n",
            "--password-file: {0}: no password in its first line",
        ),
        (
            ("-n", "-u", "olga", "--password-file", "{0}-none"),
            b"",
            "--password-file: {0}-none: No such file or directory",
        ),
        (("-f", "{0}-none"), b"", "--file: {0}-none: No such file or directory"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_option(
    words: tuple[str, ...],
    text: bytes,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_broker(monkeypatch, ConnAck(False))
    file = tmp_path / "file"
    file.write_bytes(text)
    given = [word.format(file) for word in words]
    with pytest.raises(WrongUseError) as refused:
        run("pub", "-t", "a", "--host", "gw", *given)
    assert str(refused.value).startswith(why.format(file))


def test_a_password_is_asked_for_at_a_terminal_alone() -> None:
    with pytest.raises(WrongUseError) as refused:
        run("pub", "-t", "a", "-n", "--host", "gw", "-u", "olga")
    assert str(refused.value) == (
        "--user: needs --password-file, where there is no terminal to ask at"
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("sub", "-t", "a", "-C", "0"), "argument -C/--count: 0 is not 1 or more"),
        (("sub", "-t", "a", "--port", "0"), "argument --port: 0 is no port"),
        (("sub", "-t", "a", "--port", "65536"), "argument --port: 65536 is no port"),
        (("sub", "-t", "a", "-q", "3"), "argument -q/--qos: invalid choice: 3"),
        (("sub",), "the following arguments are required: -t/--topic"),
        (("pub", "-t", "a"), "one of the arguments -m/--message -f/--file -l/--lines -n/--null"),
        (("pub", "-t", "a", "-n", "-l"), "not allowed with argument -n/--null"),
    ],
)
def test_a_number_out_of_its_limits_and_words_that_do_not_go_together_are_told(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(*words)
    assert why in capsys.readouterr().err


def test_the_least_and_the_greatest_number_is_taken_and_the_defaults_are_those_of_the_help() -> (
    None
):
    parser = Parser(prog="hedgerow")
    messages.add(parser.add_subparsers())
    given = parser.parse_args(["sub", "-t", "a", "-t", "b", "-C", "1", "--port", "65535", "-q2"])
    assert (given.topic, given.count, given.port, given.qos) == (["a", "b"], 1, 65_535, 2)
    least = parser.parse_args(["pub", "-t", "a", "-n", "--port", "1"])
    assert (least.port, least.qos, least.id, least.retain, least.user) == (1, 1, "", False, None)
    assert parser.parse_args(["pub", "-t", "a", "-n", "-r"]).retain is True
