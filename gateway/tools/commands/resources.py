"""`hedgerow get`, `put`, `call` and `observe`: read, set and follow resources by name."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import aclosing
from typing import Any, TypeVar

from gateway import coap_client as client
from gateway.base import exit_codes
from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.coap_client import CoapClient, Response
from gateway.sensors import senml, values
from gateway.tools.commands import asking, many_resources
from gateway.tools.commands.errors import FailedError, WrongUseError, reading_an_answer
from gateway.tools.commands.output import complain, print_json
from gateway.tools.commands.own_gateway import with_own_key
from gateway.tools.commands.resource_arguments import (
    METHODS,
)
from gateway.tools.commands.resource_names import is_uri, needs_fleet, path_of
from gateway.tools.commands.writing import Body, write_once
from record_formats.value import GOOD

_TEXT, _JSON = 0, 50
"""The content formats text/plain and application/json (RFC 7252, section 12.3)."""
_UNAUTHORIZED = "4.01"
_NOT_FOUND = "4.04"
_NOTHING_THERE = "nothing there; `hedgerow discover` shows what there is"
_NOT_OBSERVED = "5.01"
RENEW_S = 60.0
"""So often an observation is begun anew: a server that started again knows nothing of it."""
_PACKS = (senml.CONTENT_FORMAT, senml.CBOR_FORMAT)
_CODES = {
    client.UnreachableError: exit_codes.UNREACHABLE,
    client.NoAnswerError: exit_codes.NO_ANSWER,
    client.HandshakeRefusedError: exit_codes.NO_SESSION,
}

T = TypeVar("T")


def get(options: argparse.Namespace) -> int:
    """Read a resource."""
    pattern = None if is_uri(options.target) else many_resources.pattern_of(options.target)
    if pattern is not None:
        return run(_get_many(options, pattern))

    async def ask() -> tuple[str, Response]:
        async with _client(options) as asker:
            uri = await _uri(asker, options)
            return uri, await asker.request("GET", uri, timeout_s=options.timeout)

    uri, answer = run(ask())
    if options.json:
        print_json(_document(answer))
    elif answer.ok and answer.payload:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(answer, options)))
    return told(uri, answer)


async def _get_many(options: argparse.Namespace, pattern: str) -> int:
    """Show what each gateway answers, as it comes."""
    base, failed = asking.gateway_uri(options), 0
    async with _client(options) as asker:
        places, _ = await _fleet(asker, base, options)
        if not places:  # one request for all: its answer says why
            answer = await asker.request("GET", base + pattern, timeout_s=options.timeout)
            _show(answer, options)
            return told(base + pattern, answer)
        targets = many_resources.targets(pattern, places)
        if not targets:
            raise FailedError(f"{pattern}: no gateway stands there", exit_codes.REFUSED)
        uris = {gateway_id: base + path for gateway_id, path in targets.items()}
        found = many_resources.answers(asker, uris, options.timeout)
        async with aclosing(found):
            async for gateway_id, answer_ in found:
                failed += not _show_one(gateway_id, answer_, options)
    if failed:
        raise FailedError(f"{failed} of {len(uris)} gateways have not answered", exit_codes.REFUSED)
    return 0


def _show_one(
    gateway_id: str, answer: Response | client.ClientError, options: argparse.Namespace
) -> bool:
    """Show what one of many answered, and return whether that is good."""
    if isinstance(answer, client.ClientError):
        complain(f"hedgerow: {gateway_id}: {answer}")
        return False
    if options.json:
        sys.stdout.write(json.dumps({"gateway": gateway_id, **_document(answer)}) + "\n")
    elif answer.ok:
        lines = _lines(answer, options, live=True)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    else:
        complain(f"hedgerow: {gateway_id}: {answer.code} {printable(_text(answer))}".rstrip())
    sys.stdout.flush()
    return answer.ok


def put(options: argparse.Namespace) -> int:
    """Set a resource's value, and say what the answer is."""
    is_record = options.value.lstrip().startswith("[")
    content_format = senml.CONTENT_FORMAT if is_record else _TEXT
    return _asked(options, "PUT", Body(options.value.encode(), content_format))


def call(options: argparse.Namespace) -> int:
    """Have any other method carried out, and say what the answer is."""
    method, text, content_format = METHODS[options.method], options.body, options.format
    if content_format is None and text:
        content_format = _JSON if text.lstrip()[:1] in ("{", "[") else _TEXT
    return _asked(options, method, Body(text.encode(), content_format))


def _asked(options: argparse.Namespace, method: str, body: Body) -> int:
    _refuse_many(options)
    if method != "FETCH" and not is_uri(options.target):
        with_own_key(options)

    async def ask() -> tuple[str, Response]:
        async with _client(options) as asker:
            uri = await _uri(asker, options)
            if method != "FETCH":
                return uri, await write_once(asker, uri, body, options.timeout, method)
            return uri, await asker.request(
                method,
                uri,
                payload=body.payload,
                content_format=body.content_format,
                timeout_s=options.timeout,
            )

    uri, answer = run(ask())
    if options.json:
        print_json(_document(answer))
    elif answer.ok:
        if answer.location:
            sys.stdout.write(f"created {printable(answer.location)}\n")
        if answer.payload:
            sys.stdout.write(_as_it_came(answer) + "\n")
    if answer.code == _UNAUTHORIZED and method != "FETCH":
        why = f"{uri}: {answer.code} writing needs coaps:// with --psk-file"
        raise FailedError(why, exit_codes.REFUSED)
    return told(uri, answer)


def observe(options: argparse.Namespace) -> int:
    """Show a resource whenever it changes."""
    _refuse_many(options)
    return run(_follow(options))


def _refuse_many(options: argparse.Namespace) -> None:
    """Take one resource alone.

    Raises:
        WrongUseError: many are named.

    """
    if not is_uri(options.target) and many_resources.pattern_of(options.target) is not None:
        raise WrongUseError(f"{options.target}: many gateways can only be read (hedgerow get)")


async def _follow(options: argparse.Namespace) -> int:
    shown = _Shown(options)
    async with _client(options) as asker:
        uri = await _uri(asker, options)
        while True:
            try:
                async with asyncio.timeout(RENEW_S + options.timeout):
                    can_go_on = await _values(asker, uri, shown)
                if not can_go_on:
                    return 0
                await asyncio.sleep(options.every)
            except TimeoutError:
                continue
            except (client.NoAnswerError, client.UnreachableError, FailedError) as error:
                if not shown.count:  # what never worked won't by itself
                    raise
                complain(f"hedgerow: {error}")
                await asyncio.sleep(options.every)


async def _values(asker: CoapClient, uri: str, shown: _Shown) -> bool:
    """Show values until the observation ends, and return whether more are wanted.

    Raises:
        FailedError: the answer is an error.
        ClientError: there is none.

    """
    options = shown.options
    if shown.can_observe:
        async with aclosing(asker.observe(uri, timeout_s=options.timeout)) as answers:
            async for answer in answers:
                if answer.code == _NOT_OBSERVED:
                    shown.can_observe = False
                    break
                told(uri, answer)
                if shown.take(answer):
                    return False
    if not shown.can_observe:
        answer = await asker.request("GET", uri, timeout_s=options.timeout)
        told(uri, answer)
        return not shown.take(answer)
    return True


class _Shown:
    """The values of a resource that have been shown.

    Attributes:
        options: how.
        count: how many values.
        can_observe: the resource may be observed, as far as is known.

    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.count = 0
        self.can_observe = True
        self._last: Response | None = None

    def take(self, answer: Response) -> bool:
        """Show a value if it is another one, and return whether that were all that are wanted."""
        if answer != self._last:
            self._last = answer
            self.count += 1
            _show(answer, self.options)
        wanted: int | None = self.options.count
        return wanted is not None and self.count >= wanted


def _show(answer: Response, options: argparse.Namespace) -> None:
    if options.json:
        sys.stdout.write(json.dumps(_document(answer)) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(answer, options, live=True)))
    sys.stdout.flush()


# -- asking ----------------------------------------------------------------------------------------


def run(work: Coroutine[Any, Any, T]) -> T:
    """Ask.

    Raises:
        WrongUseError: for a URI that is none.
        FailedError: there is no answer; its code says why.

    """
    try:
        return asyncio.run(work)
    except client.BadUriError as error:
        raise WrongUseError(str(error)) from error
    except client.ClientError as error:
        raise FailedError(str(error), _CODES.get(type(error), 1)) from error


def _client(options: argparse.Namespace) -> CoapClient:
    if is_uri(options.target):
        if options.gateway is not None or options.config is not None:
            raise WrongUseError(f"{options.target}: neither --host nor --config goes with a URI")
        return asking.client_for(options, options.target)
    return asking.client_for(options, asking.gateway_uri(options))


async def _uri(asker: CoapClient, options: argparse.Namespace) -> str:
    """Return the URI of what is meant."""
    target: str = options.target
    if is_uri(target):
        return target
    base = asking.gateway_uri(options)
    places, own_id = dict[str, str](), ""
    if needs_fleet(target):
        places, own_id = await _fleet(asker, base, options)
    return base + path_of(target, places, own_id)


async def _fleet(
    asker: CoapClient, base: str, options: argparse.Namespace
) -> tuple[dict[str, str], str]:
    """Return where each gateway stands, and which one is asked; nothing where that is not told."""
    answer = await asker.request("GET", f"{base}/hierarchy", timeout_s=options.timeout)
    if answer.ok:
        with reading_an_answer():
            told = asking.json_in(answer)
            return {one["id"]: one["place"] for one in told["gateways"]}, told["id"]
    if answer.code != _NOT_FOUND:  # an earlier version knows no names of others
        why = f"{base}/hierarchy: {_text(answer)}; who may not read it names no gateways"
        complain(f"hedgerow: {why}")
    return {}, ""


def told(uri: str, answer: Response) -> int:
    """0 if the answer is no error.

    Raises:
        FailedError: it is one.

    """
    if not answer.ok:
        why = _text(answer) or (_NOTHING_THERE if answer.code == _NOT_FOUND else "")
        needs = asking.NEEDS.get(answer.code, "")
        raise FailedError(f"{uri}: {answer.code} {why}".rstrip() + needs, exit_codes.REFUSED)
    return 0


# -- showing ---------------------------------------------------------------------------------------


def _text(answer: Response) -> str:
    return answer.payload.decode(errors="replace")


def _document(answer: Response) -> dict[str, Any]:
    text = _text(answer)
    told = {"code": answer.code, "content_format": answer.content_format, "payload": text}
    return {**told, "location": answer.location} if answer.location else told


def _lines(answer: Response, options: argparse.Namespace, *, live: bool = False) -> Iterator[str]:
    """Give the lines for a person: readings as a table, all else as it came."""
    content_format = answer.content_format
    if content_format in _PACKS and (live or not is_uri(options.target)):
        try:
            yield from readings(answer.payload, content_format)
        except ReadingsError:
            pass
        else:
            return
    yield _as_it_came(answer)


def _as_it_came(answer: Response) -> str:
    """Return a payload as text: to a program as it is, at a terminal without what that obeys."""
    text = _text(answer).rstrip("\n")
    if not sys.stdout.isatty():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


class ReadingsError(ValueError):
    """A payload can't be shown as a table of readings; the message says why."""


def readings(payload: bytes, content_format: int) -> list[str]:
    """Return a SenML pack (RFC 8428, section 4) as lines: name, value, unit, time, and what is
    amiss.

    Args:
        payload: the pack.
        content_format: `senml.CONTENT_FORMAT` or `senml.CBOR_FORMAT`.

    Raises:
        ReadingsError: it is none, holds no value, or a time that no clock shows.

    """
    try:
        records = senml.decode(payload, content_format)
        rows = [_row(record) for record in records]
    except (ValueError, OverflowError, OSError) as error:  # SenML's, or of a device's clock
        raise ReadingsError(str(error)) from error
    if not rows:
        raise ReadingsError("no readings")
    return columns(rows)


def _row(record: senml.SenmlRecord) -> tuple[str, ...]:
    is_absolute = record.time_s >= senml.ABSOLUTE_FROM_S
    time_s = record.time_s if is_absolute else time.time() + record.time_s
    at = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    when = f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
    amiss = "" if record.quality == GOOD else record.quality
    value = values.as_text(values.shown(record.value))  # as a PUT takes it
    return tuple(map(printable, (record.name, value, record.unit, when, amiss)))
