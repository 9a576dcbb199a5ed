"""`hedgerow pub` and `hedgerow sub`: their arguments, and what they do."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.commands.errors import FailedError, WrongUseError

if TYPE_CHECKING:
    from gateway.commands.mqtt_client import MqttClient

    Work = Callable[[asyncio.Runner, MqttClient, argparse.Namespace], None]

ANSWER_S = 10.0
KEEP_ALIVE_S = 30


def add(commands: Any) -> None:
    """Add both commands to the parser.

    Args:
        commands: the parser's commands.

    """
    pub = commands.add_parser(
        "pub",
        help="publish a message over MQTT",
        description="Publish a message, or each line of standard input, and wait until the "
        "gateway has it. A refused message is an error.",
    )
    pub.add_argument("-t", "--topic", required=True, metavar="TOPIC", help="where to publish")
    what = pub.add_mutually_exclusive_group(required=True)
    what.add_argument("-m", "--message", metavar="TEXT", help="the payload")
    what.add_argument("-f", "--file", type=Path, metavar="FILE", help="a file that is the payload")
    what.add_argument(
        "-l", "--lines", action="store_true", help="a message for each line of standard input"
    )
    what.add_argument("-n", "--null", action="store_true", help="an empty payload")
    pub.add_argument("-r", "--retain", action="store_true", help="let the gateway retain it")
    _add_broker(pub)
    pub.set_defaults(command=lambda options: _run(options, _publish, 0))
    sub = commands.add_parser(
        "sub",
        help="show messages as they come over MQTT",
        description="Subscribe, and show each message in a line: telemetry records and JSON are "
        "decoded, other bytes shown in hexadecimal. Ends with Ctrl-C.",
    )
    sub.add_argument(
        "-t",
        "--topic",
        action="append",
        required=True,
        metavar="FILTER",
        help="what to subscribe to; may be given again",
    )
    sub.add_argument("-C", "--count", type=_positive, metavar="N", help="end after N messages")
    sub.add_argument("-R", "--no-retained", action="store_true", help="leave out what is retained")
    sub.add_argument("--json", action="store_true", help="a document of JSON for each message")
    _add_broker(sub)
    sub.set_defaults(command=lambda options: _run(options, _subscribe, KEEP_ALIVE_S))


def _add_broker(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group()
    which.add_argument("--config", type=Path, metavar="FILE", help="this machine's gateway")
    which.add_argument("--host", metavar="HOST", help="default: this machine's gateway")
    command.add_argument(
        "--port", type=_port, metavar="N", help="default: 1883, or 8883 with --cafile"
    )
    command.add_argument("-q", "--qos", type=int, choices=[0, 1, 2], default=1, help="default: 1")
    command.add_argument("-i", "--id", default="", metavar="ID", help="the client identifier")
    command.add_argument("-u", "--user", metavar="NAME", help="asks for the password")
    command.add_argument(
        "--password-file", type=Path, metavar="FILE", help="its first line is the password"
    )
    command.add_argument("--cafile", type=Path, metavar="FILE", help="authorities; goes over TLS")
    command.add_argument("--cert", type=Path, metavar="FILE", help="the client's own certificate")
    command.add_argument("--key", type=Path, metavar="FILE", help="its key")


def _run(options: argparse.Namespace, work: Work, keep_alive_s: int) -> int:
    from gateway.commands import broker_address  # noqa: PLC0415  # for these commands alone
    from gateway.commands.mqtt_client import Login, MqttClient, MqttClientError  # noqa: PLC0415

    where = broker_address.find(options)
    login = Login(options.id, options.user, _password(options))

    async def connected() -> MqttClient:
        client = MqttClient(*await broker_address.connect(where, ANSWER_S))
        try:
            async with asyncio.timeout(ANSWER_S):
                await client.connect(login, keep_alive_s)
        except TimeoutError as error:
            raise FailedError(f"{where.host}:{where.port}: no answer to CONNECT") from error
        return client

    try:
        with asyncio.Runner() as runner:
            client = runner.run(connected())
            try:
                work(runner, client, options)
            finally:
                with suppress(MqttClientError):
                    runner.run(client.close())
    except MqttClientError as error:
        raise FailedError(str(error)) from error
    return 0


def _publish(runner: asyncio.Runner, client: MqttClient, options: argparse.Namespace) -> None:
    # Between two messages the event loop stands still, so that Ctrl-C ends the reading of a line.
    for payload in _payloads(options):
        runner.run(_publish_one(client, options, payload))


async def _publish_one(client: MqttClient, options: argparse.Namespace, payload: bytes) -> None:
    try:
        async with asyncio.timeout(ANSWER_S):
            await client.publish(options.topic, payload, options.qos, retain=options.retain)
    except TimeoutError as error:
        raise FailedError(f"{options.topic!r}: no answer within {ANSWER_S:g} s") from error


def _subscribe(runner: asyncio.Runner, client: MqttClient, options: argparse.Namespace) -> None:
    runner.run(_show(client, options))


def _payloads(options: argparse.Namespace) -> Iterator[bytes]:
    if options.lines:
        for line in sys.stdin.buffer:
            yield line.removesuffix(b"\n").removesuffix(b"\r")
    elif options.file is not None:
        try:
            yield options.file.read_bytes()
        except OSError as error:
            raise WrongUseError(f"--file: {options.file}: {error.strerror}") from error
    else:
        yield (options.message or "").encode()


async def _show(client: MqttClient, options: argparse.Namespace) -> None:
    from gateway.commands import payloads  # noqa: PLC0415  # `hedgerow pub` shows nothing

    table, count = payloads.Table(), 0
    await client.subscribe(options.topic, options.qos)
    async for message in client.messages():
        if options.no_retained and message.retain:
            continue
        received_s, payload = time.time(), bytes(message.payload)
        if options.json:
            line = payloads.as_json(
                message.topic,
                payload,
                message.qos,
                retain=message.retain,
                received_s=received_s,
            )
        else:
            line = table.line(message.topic, payload, received_s=received_s)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        count += 1
        if count == options.count:
            return


def _password(options: argparse.Namespace) -> bytes | None:
    if options.user is None:
        if options.password_file is not None:
            raise WrongUseError("--password-file: needs --user")
        return None
    if options.password_file is not None:
        try:
            data: bytes = options.password_file.read_bytes()
        except OSError as error:
            why = f"--password-file: {options.password_file}: {error.strerror}"
            raise WrongUseError(why) from error
        return data.partition(b"\n")[0].removesuffix(b"\r")
    if not sys.stdin.isatty():
        raise WrongUseError("--user: needs --password-file, where there is no terminal to ask at")
    return getpass.getpass(f"Password of {options.user}: ").encode()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 < number < 65536:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return number
