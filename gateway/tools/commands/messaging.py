"""The commands `hedgerow pub` and `hedgerow sub`: messages over a connection to a broker."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress

from dtls.byte_order_mark import first_line, why_utf_16
from gateway.tools.commands import broker_address
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.mqtt_client import (
    PAYLOAD_BYTES_MAX,
    Login,
    MqttClient,
    MqttClientError,
    UnfitPacketError,
)

Work = Callable[[asyncio.Runner, MqttClient, argparse.Namespace], None]

ANSWER_S = 10.0
KEEP_ALIVE_S = 30


def publish(options: argparse.Namespace) -> int:
    """Publish what the arguments say; see `messages.add`."""
    return _run(options, _publish, 0)


def subscribe(options: argparse.Namespace) -> int:
    """Subscribe, and print what comes; see `messages.add`."""
    return _run(options, _subscribe, KEEP_ALIVE_S)


def _run(options: argparse.Namespace, work: Work, keep_alive_s: int) -> int:
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
    except UnfitPacketError as error:
        raise WrongUseError(str(error)) from error
    except MqttClientError as error:
        raise FailedError(str(error)) from error
    return 0


def _publish(runner: asyncio.Runner, client: MqttClient, options: argparse.Namespace) -> None:
    if not options.topic:
        raise WrongUseError("--topic: it is empty")
    # Between two messages the event loop stands still, so that Ctrl-C ends the reading of a line.
    for payload in _payloads(options):
        sent = client.publish(options.topic, payload, options.qos, retain=options.retain)
        runner.run(_in_time(sent, options))
    if not options.qos:
        runner.run(_in_time(client.settle(), options))


async def _in_time(sent: Coroutine[None, None, None], options: argparse.Namespace) -> None:
    try:
        async with asyncio.timeout(ANSWER_S):
            await sent
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
            with options.file.open("rb") as file:  # it may be one that never ends
                payload = file.read(PAYLOAD_BYTES_MAX + 1)
        except OSError as error:
            raise WrongUseError(f"--file: {options.file}: {error.strerror}") from error
        if len(payload) > PAYLOAD_BYTES_MAX:
            why = f"longer than the {PAYLOAD_BYTES_MAX} bytes that a message of MQTT has room for"
            raise WrongUseError(f"--file: {options.file}: {why}")
        yield payload
    else:
        yield (options.message or "").encode()


async def _show(client: MqttClient, options: argparse.Namespace) -> None:
    from gateway.tools.commands import payloads  # noqa: PLC0415  # `hedgerow pub` shows nothing

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
        if why := why_utf_16(data):
            raise WrongUseError(f"--password-file: {options.password_file}: {why}")
        if not (line := first_line(data)):
            why = "no password in its first line"
            raise WrongUseError(f"--password-file: {options.password_file}: {why}")
        return line
    if not sys.stdin.isatty():
        raise WrongUseError("--user: needs --password-file, where there is no terminal to ask at")
    return getpass.getpass(f"Password of {options.user}: ").encode()
