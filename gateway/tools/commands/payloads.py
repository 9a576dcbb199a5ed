"""Payloads as `hedgerow sub` shows them: a record, a status, JSON, text, or bytes."""

from __future__ import annotations

import base64
import datetime
import json
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import msgspec

from gateway.base.printable import printable
from record_formats import status_record
from record_formats.record import Record, RecordError, decode
from record_formats.status_record import SUFFIX, StatusError, StatusRecord
from record_formats.value import GOOD, Value

_TOPIC_WIDTH_MAX = 60


def as_json(topic: str, payload: bytes, qos: int, *, retain: bool, received_s: float) -> str:
    """Return one line of JSON."""
    said = _said(topic, payload)
    told: dict[str, Any] = {"topic": topic, "qos": qos, "retain": retain, "received_s": received_s}
    if isinstance(said, Record):
        told["record"] = _record_as_json(said)
    elif isinstance(said, StatusRecord):
        told["status"] = json.loads(msgspec.json.encode(said))
    elif isinstance(said, bytes):
        told["base64"] = base64.b64encode(said).decode()
    elif isinstance(said, str):
        told["text"] = said
    else:
        told["json"] = said[0]
    return json.dumps(told)


class Table:
    """Lines in columns that grow with the longest topic so far."""

    def __init__(self) -> None:
        self._width = 0

    def line(self, topic: str, payload: bytes, *, received_s: float) -> str:
        """Return a message: when it came or was measured, its topic, and what it says."""
        said = _said(topic, payload)
        time_s = said.time_s if isinstance(said, Record) else received_s
        shown = printable(topic)
        self._width = max(self._width, min(len(shown), _TOPIC_WIDTH_MAX))
        return f"{_clock(time_s)}  {shown.ljust(self._width)}  {_text(said)}"


_Said = Record | StatusRecord | tuple[Any] | str | bytes


def _said(topic: str, payload: bytes) -> _Said:
    """Return what it is: JSON in a tuple, for a text is JSON too."""
    if topic.endswith(f"/{SUFFIX}"):
        with suppress(StatusError):
            return status_record.decode(payload)
    try:
        return decode(payload)
    except RecordError:
        pass
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return payload
    try:
        return (json.loads(text, parse_constant=_no_json),)
    except (ValueError, RecursionError):
        return text


def _no_json(constant: str) -> None:
    raise ValueError(constant)


def _text(said: _Said) -> str:
    if isinstance(said, Record):
        unit = f" {said.unit}" if said.unit else ""
        quality = "" if said.quality == GOOD else f", {said.quality}"
        shown = f"{_value_text(said.value)}{unit}  ({said.name} {said.number}{quality})"
    elif isinstance(said, StatusRecord):
        above = f"parent {said.parent}" if said.parent else "no parent"
        links = "1 link" if said.link_count == 1 else f"{said.link_count} links"
        shown = f"up {said.up_s:.0f} s, root {said.root}, {above}, {links}, {said.software}"
    elif isinstance(said, bytes):
        shown = said.hex(" ")
    elif isinstance(said, str):
        shown = said
    else:
        shown = json.dumps(said[0], ensure_ascii=False)
    return printable(shown)


def _record_as_json(said: Record) -> dict[str, Any]:
    told = {name: value for name, value in asdict(said).items() if value != {}}
    if isinstance(said.value, bytes):
        told["value"] = base64.b64encode(said.value).decode()
    if said.more:
        told["more"] = repr(said.more)
    return told


def _value_text(value: Value | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:.10g}"
    if isinstance(value, bytes):
        return value.hex(" ")
    return "-" if value is None else value


def _clock(time_s: float) -> str:
    try:
        local = datetime.datetime.fromtimestamp(time_s, datetime.UTC).astimezone()
    except (ValueError, OverflowError, OSError):  # a device's clock
        return "?".ljust(19)
    return f"{local:%Y-%m-%d %H:%M:%S}"
