"""Goal: `hedgerow sub` and `pub` do what their options say, in the process of a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authority import Authority
from mqtt_peer import Bench

from gateway.tools import cli
from gateway.tools.commands import messaging

pytestmark = pytest.mark.slow


@pytest.fixture
async def broker() -> AsyncIterator[Bench]:
    made = Bench(anonymous=True)
    await made.start()
    yield made
    await made.stop()


async def hedgerow(broker: Bench, *arguments: str) -> int:
    where = ("--host", "127.0.0.1", "--port", str(broker.broker.port))
    return await asyncio.to_thread(cli.main, [*arguments, *where])


async def retained(broker: Bench, *topics: str) -> None:
    writer = await broker.connect("writer")
    for topic in topics:
        assert await writer.publish(topic, b"21.5", retain=True) == 0


async def test_a_person_gets_a_line_and_a_script_an_object_for_each_message(
    broker: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    await retained(broker, "a/b")
    assert await hedgerow(broker, "sub", "-t", "a/#", "-C", "1") == 0
    assert capsys.readouterr().out.endswith("a/b  21.5\n")
    assert await hedgerow(broker, "sub", "-t", "a/#", "-C", "1", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["topic"], told["json"], told["retain"]) == ("a/b", 21.5, True)


async def test_as_many_messages_are_shown_as_were_asked_for(
    broker: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    await retained(broker, "a/1", "a/2", "a/3")
    assert await hedgerow(broker, "sub", "-t", "a/#", "-C", "2") == 0
    assert capsys.readouterr().out.count("\n") == 2


async def test_what_is_retained_is_left_out_where_one_asks_for_that(
    broker: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    await retained(broker, "a/old")
    shown = asyncio.create_task(hedgerow(broker, "sub", "-t", "a/#", "-C", "1", "--no-retained"))
    writer = await broker.connect("other")
    while not shown.done():
        await writer.publish("a/new", b"22")
        await asyncio.sleep(0.01)
    assert await shown == 0
    assert "a/new" in (out := capsys.readouterr().out)
    assert "a/old" not in out


async def test_a_text_a_file_and_an_empty_payload_are_published_as_they_are(
    broker: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"\x00\n")
    for what in (("-m", "text"), ("-f", str(file)), ("-n",)):
        assert await hedgerow(broker, "pub", "-t", "a", *what, "-q", "1") == 0
    assert [(entry.payload, entry.qos) for entry in broker.entries] == [
        (b"text", 1),
        (b"\x00\n", 1),
        (b"", 1),
    ]


async def test_a_message_of_qos_0_that_the_broker_ends_the_connection_for_is_an_error(
    broker: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "payload"
    file.write_bytes(bytes(2 << 20))
    for qos in ("0", "1"):
        assert await hedgerow(broker, "pub", "-t", "a", "-f", str(file), "-q", qos) == 1
        assert "packet too large" in capsys.readouterr().err
    assert await hedgerow(broker, "pub", "-t", "a", "-n", "-q", "0") == 0
    assert [entry.payload for entry in broker.entries] == [b""]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("pub", "-t", "a/#", "-m", "x"), "topic name has a wildcard: 'a/#'"),
        (("pub", "-t", "", "-m", "x"), "--topic: it is empty"),
        (("sub", "-t", "a/#/b"), "# is not the last level of its own: 'a/#/b'"),
        (("pub", "-t", "a", "-f", "/dev/zero"), "--file: /dev/zero: longer than the 63 bytes"),
    ],
)
async def test_what_fits_into_no_packet_is_a_wrong_argument(
    broker: Bench,
    words: tuple[str, ...],
    why: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messaging, "PAYLOAD_BYTES_MAX", 63)
    assert await hedgerow(broker, *words) == 2
    assert capsys.readouterr().err.startswith(f"hedgerow: {why}")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("sub", "-t", "a", "-C", "x"), "argument -C/--count: 'x' is no whole number"),
        (("pub", "-t", "a", "-n", "--port", "1.5"), "argument --port: '1.5' is no whole number"),
        (("pub", "-t", "a", "-n", "-q", "9" * 5000), "argument -q/--qos: '9999"),
        (("bench", "--seconds", "long"), "argument --seconds: 'long' is no number"),
    ],
)
def test_what_is_no_number_is_told_in_words(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert f"hedgerow {words[0]}: {why}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--cafile", "{0}"), "--cafile: {0}: no certificate or crl found"),
        (("--cafile", "{1}", "--cert", "{0}"), "--cert, --key: {0}: no pem that can be read"),
        (("-u", "olga", "--password-file", "{0}"), "--password-file: {0}: no password in its"),
    ],
)
def test_a_file_that_can_not_be_used_is_named_with_its_option(
    tmp_path: Path, words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, authority = tmp_path / "empty", Authority(tmp_path).file
    empty.write_text("\n")
    given = [word.format(empty, authority) for word in words]
    assert cli.main(["pub", "-t", "a", "-n", "--host", "127.0.0.1:1", *given]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"hedgerow: {why.format(empty)}") and "_ssl.c" not in said
