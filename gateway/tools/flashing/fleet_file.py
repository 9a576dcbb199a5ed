"""The file that tells of a fleet's cards: TOML or YAML, and the files that it names in turn.

``[all]`` has what all devices have in common, ``[[devices]]`` each of them; what a device says
itself counts. Relative paths start at the file's folder.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dtls.byte_order_mark import text_of, why_marked
from gateway.tools.flashing import device
from gateway.tools.flashing.device import CardDevice
from gateway.tools.flashing.eap import Eap
from gateway.tools.flashing.errors import RefusalError

STANDARD_INPUT = Path("-")
_MOST_BYTES = 4 << 20
_MOST_LINES_BYTES = 1 << 16
T = TypeVar("T")


class _FleetFile(msgspec.Struct, forbid_unknown_fields=True):
    devices: list[dict[str, Any]]
    all: dict[str, Any] = {}


def read(path: Path) -> list[CardDevice]:
    """Read all devices of a file, and check each.

    Args:
        path: the file; ``-`` for YAML or JSON from standard input.

    Raises:
        RefusalError: it can't be read, or a device is wrong; the message names the field.

    """
    text, folder = _text(path)
    try:
        document = _document(path, text)
        fleet = msgspec.convert(document, _FleetFile)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RefusalError(f"--inventory: {path}: {_one_line(error)}") from error
    found = [_device(path, folder, {**fleet.all, **one}) for one in fleet.devices]
    for name, times in Counter(one.id for one in found).items():
        if times > 1:
            raise RefusalError(f"--inventory: {path}: id: {name!r} stands {times} times")
    return found


def _completed(one: CardDevice, folder: Path) -> CardDevice:
    """Return a device with what its files hold; its paths start at a folder.

    Raises:
        RefusalError: a file can't be read, or something of it is wrong.

    """
    keys = list(one.ssh_keys)
    for file in one.ssh_key_files:
        lines = _lines("ssh_key_files", folder / file.expanduser())
        keys += [line for line in lines if line and not line.startswith("#")]
    read = []
    for number, wifi in enumerate(one.wifis):
        field = device.wifi_field(one, number)
        phrase = _secret(f"{field}.passphrase_file", folder, wifi.passphrase, wifi.passphrase_file)
        eap = _eap(f"{field}.eap", folder, wifi.eap)
        read.append(msgspec.structs.replace(wifi, passphrase=phrase, eap=eap))
    modem = one.modem
    if modem is not None:
        modem = msgspec.structs.replace(
            modem,
            password=_secret("modem.password_file", folder, modem.password, modem.password_file),
            pin=_secret("modem.pin_file", folder, modem.pin, modem.pin_file),
        )
    full = msgspec.structs.replace(
        one,
        ssh_keys=tuple(dict.fromkeys(keys)),
        wifi=read[0] if isinstance(one.wifi, device.Wifi) else tuple(read),
        wired=_eap("wired", folder, one.wired),
        modem=modem,
        token=_secret("token_file", folder, one.token, one.token_file),
        files=folder / (one.files or one.id),
        wheels=None if one.wheels is None else folder / one.wheels,
        unit=None if one.unit is None else folder / one.unit,
    )
    for fault in device.faults(full):
        raise RefusalError(f"{fault.where}: {fault.why}")
    return full


def _secret(where: str, folder: Path, given: str, file: Path | None) -> str:
    """Return what was given, or the first line of a file that was given in its place."""
    return given if file is None else _first(where, folder / file.expanduser())


def _eap(where: str, folder: Path, one: Eap | None) -> Eap | None:
    if one is None:
        return None
    return msgspec.structs.replace(
        one,
        ca_certificate=folder / one.ca_certificate.expanduser(),
        certificate=None if one.certificate is None else folder / one.certificate.expanduser(),
        key=None if one.key is None else folder / one.key.expanduser(),
        password=_secret(f"{where}.password_file", folder, one.password, one.password_file),
    )


def _device(path: Path, folder: Path, document: Mapping[str, Any]) -> CardDevice:
    name = document.get("id", "a device without id")
    try:
        one = msgspec.convert(document, CardDevice, dec_hook=_path)
        return _completed(one, folder)
    except (msgspec.ValidationError, ValueError) as error:
        raise RefusalError(f"--inventory: {path}: {name}: {_one_line(error)}") from error
    except RefusalError as error:
        raise RefusalError(f"--inventory: {path}: {name}: {error}") from error


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str) and value and "\0" not in value:
        return Path(value)
    raise ValueError(f"{value!r} is no path")


def _text(path: Path) -> tuple[str, Path]:
    try:
        if path == STANDARD_INPUT:
            return sys.stdin.read(_MOST_BYTES), Path.cwd()
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
        if why := why_marked(data):
            raise RefusalError(f"--inventory: {path}: {why}")
        return data.decode(), path.resolve().parent
    except OSError as error:
        raise RefusalError(f"--inventory: {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise RefusalError(f"--inventory: {path}: not UTF-8: {error.reason}") from error


def _document(path: Path, text: str) -> Any:
    if path.suffix == ".toml":
        return tomllib.loads(text)
    import yaml  # noqa: PLC0415  # where a fleet is told of in YAML

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from error


def _lines(where: str, file: Path) -> list[str]:
    return _read(where, file, lambda text: [line.strip() for line in text.splitlines()])


def _first(where: str, file: Path) -> str:
    return _read(where, file, lambda text: text.partition("\n")[0].rstrip("\r"))


def _read(where: str, file: Path, taken: Callable[[str], T]) -> T:
    try:
        with file.open("rb") as opened:
            return taken(text_of(opened.read(_MOST_LINES_BYTES)))
    except OSError as error:
        raise RefusalError(f"{where}: {file}: {error.strerror or error}") from error
    except ValueError as error:
        raise RefusalError(f"{where}: {file}: {error}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
