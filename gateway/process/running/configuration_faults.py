"""All that is wrong with a configuration and the files that it names, with lines."""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dtls.byte_order_mark import why_marked, why_utf_16
from gateway.alerting import ways
from gateway.base import remedies
from gateway.base.toml.toml_file import ConfigReading, Fault, byte_fault, read
from gateway.base.toml.toml_lines import KeyLines
from gateway.home_assistant import announcements
from gateway.node.signing.revocations import kept_lists
from gateway.process.access import files as access_files
from gateway.process.access import secure_files
from gateway.process.access.secure_files import hold_over
from gateway.process.configuration.config import ConfigError, GatewaySettings
from gateway.process.running import state
from gateway.sensors.bounded_workshop import BoundedWorkshop
from gateway.sensors.catalogue import Workshop
from gateway.sensors.mqtt_form import JSON
from gateway.sensors.options import SensorConfigError
from light_dataclasses import dataclass

_PLACE = re.compile(r" \(at line (\d+), column \d+\)")
_VALUE = re.compile(r"'([^']+)'")


@dataclass(frozen=True, slots=True, order=True)
class LineFault:
    """One thing that is wrong with a file.

    Attributes:
        line: where, from 1; 0 if it is no line in particular, as with what is missing.
        where: the field; empty if the line is no TOML.
        why: what is wrong, and what is allowed.
        remedy: what to do about it, where it is not the file that is to be changed; else empty.

    """

    line: int
    where: str
    why: str
    remedy: str = ""

    def told(self, path: Path) -> str:
        """Return the fault as one line, in the form that editors know from compilers."""
        place = f"{path}:{self.line}" if self.line else str(path)
        return f"{place}: {self.where}: {self.why}" if self.where else f"{place}: {self.why}"

    def __str__(self) -> str:
        """For people: the field, why, and what to do."""
        said = f"{self.where}: {self.why}" if self.where else self.why
        return f"{said}; {self.remedy}" if self.remedy else said


def faults_of(data: bytes, path: Path) -> list[LineFault]:
    """Find all that is wrong with a configuration and the files that it names.

    Args:
        data: what the file holds.
        path: the file; relative paths in it start at its folder.

    """
    if why := why_utf_16(data):  # no line of it can be read
        return [LineFault(1, "", why)]
    text, found = _text(data)
    document, text, torn = _document(text)
    found += torn
    if document is None:
        return found
    reading = read(document, path, GatewaySettings)
    faults = [*reading.faults]
    if torn:  # what is missing may be in a line that can't be read
        faults = [fault for fault in faults if not fault.why.startswith("missing")]
    known = {fault.where for fault in reading.faults}
    faults += (fault for fault in _in_files(reading) if fault.where not in known)
    lines = KeyLines(text)
    for fault in dict.fromkeys(faults):
        value = _VALUE.match(fault.why)
        line = lines.first(fault.where, value[1] if value else "")
        found.append(LineFault(line, fault.where, fault.why, remedies.remedy(fault.cause)))
    return found


def in_words(data: bytes, path: Path) -> list[str]:
    """Return all that is wrong with a configuration, a line for each.

    Args:
        data: what the file holds.
        path: the file; relative paths in it start at its folder.

    """
    found = sorted(faults_of(data, path), key=lambda fault: (fault.line, fault.where))
    return list(map(str, found))


def _text(data: bytes) -> tuple[str, list[LineFault]]:
    """Decode line by line, with a mark in place of what is not UTF-8."""
    lines, faults = [], []
    if why := why_marked(data):
        faults.append(LineFault(1, "", why))
        data = data.removeprefix(codecs.BOM_UTF8)
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError as error:
            faults.append(LineFault(number, "", byte_fault(line, error)))
            lines.append(line.decode(errors="replace"))
    return "\n".join(lines), faults


def _document(text: str) -> tuple[Mapping[str, Any] | None, str, list[LineFault]]:
    """Parse, without lines that are wrong by themselves; None where it can't go on behind one."""
    lines, faults = text.split("\n"), list[LineFault]()
    while True:
        text = "\n".join(lines)
        try:
            return tomllib.loads(text), text, faults
        except tomllib.TOMLDecodeError as error:
            place = _PLACE.search(str(error))
            number = int(place[1]) if place else text.rstrip("\n").count("\n") + 1
            why = f"not TOML: {_PLACE.sub('', str(error))}"
        except (ValueError, RecursionError) as error:
            number, why = 0, f"not TOML: {error}"
        faults.append(LineFault(number, "", why))
        if not number or not _is_wrong_alone(lines[number - 1]):
            return None, text, faults
        lines[number - 1] = ""


def _is_wrong_alone(line: str) -> bool:
    try:
        tomllib.loads(line)
    except ValueError:
        return bool(line.strip())
    return False


def _in_files(reading: ConfigReading[GatewaySettings]) -> Iterator[Fault]:
    """Find what a start would: in keys, certificates, passwords and sensors."""
    for attempt in _attempts(reading):
        try:
            attempt()
        except ConfigError as error:
            yield from error.faults
    if (tables := reading.sections["sensors"]) is not None:
        own, file = reading.sections["gateway"], reading.sections["file"]
        folder = (None if own is None else own.sensors_dir) or file.absolute().parent
        build = BoundedWorkshop(Workshop(folder, JSON))
        faults = list(_sensor_faults(tables, build))
        yield from faults
        home = reading.sections["home_assistant"]
        alerts = reading.sections["alerts"]
        if not faults and None not in (own, home, alerts):
            gateway = state.announcing(own, alerts.mqtt)
            yield from announcements.faults(gateway, build(tables), is_on=home.discovery)


def _attempts(reading: ConfigReading[GatewaySettings]) -> Iterator[Callable[[], object]]:
    sections, settings = reading.sections, reading.settings
    keys, own = sections["keys"], sections["gateway"]
    lists = () if own is None else kept_lists(own.state_dir)
    password = None if keys is None else keys.password_file
    if own is not None:
        yield lambda: state.check_state_dir(own)
        yield lambda: state.check_sensors_dir(own)
    if (tree := sections["tree"]) is not None:
        yield tree.key
    if (coap := sections["coap"]) is not None:
        yield lambda: access_files.keystore(coap.psk_file)
        yield lambda: hold_over("coap", secure_files.coap_tls(coap, password, lists))
        if (devices := coap.oscore_file) is not None:
            yield lambda: access_files.oscore_keys_of(devices)
    if (access := sections["access"]) is not None:
        if (passwords := access.password_file) is not None:
            yield lambda: access_files.passwords(passwords)
        yield lambda: access_files.policy(access)
    if (mqtt := sections["mqtt"]) is not None:
        yield lambda: hold_over("mqtt", secure_files.broker_tls(mqtt, password, lists))
    if (console := sections["console"]) is not None:
        yield lambda: hold_over("console", secure_files.console_tls(console, password, lists))
    if own is not None and (alerts := sections["alerts"]) is not None and alerts.enabled:
        for way in alerts.ways:
            yield partial(ways.open_ways, alerts.with_way(way), own.id)
    if settings is not None:
        yield lambda: access_files.read(settings, lists)  # links too


def _sensor_faults(tables: list[dict[str, Any]], build: BoundedWorkshop) -> Iterator[Fault]:
    """Build the sensors without each key that is refused, so that the others are looked at."""
    left = [dict(table) for table in tables]
    refused = set[str]()
    for _ in range(sum(map(len, tables)) + len(tables) + 1):  # one of them goes in each round
        try:
            build(left)
        except SensorConfigError as error:
            table, _, key = error.key.partition(".")
            number = int(table.removeprefix("sensors[").removesuffix("]"))
            if error.key not in refused:
                yield Fault(error.key, error.why)
            if error.key not in refused and key in left[number]:
                del left[number][key]
            else:
                left[number] = {"type": "switch", "name": f"stand-in-{number}"}
            refused.add(error.key)
        else:
            return
