"""Kit for a card's boot partition: files for the first boot, and what the gateway is made of.

Nothing in `user-data` is a secret, since cloud-init keeps a copy of it: the token, the keys and the
configuration are files of their own, which the first boot overwrites when the gateway runs.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from gateway.process.configuration import place as config_place
from gateway.tools import provisioning
from gateway.tools.flashing import cloud_config, eap, first_run, preseed
from gateway.tools.flashing.device import SERVICE_USER, CardDevice
from gateway.tools.flashing.errors import RefusalError
from gateway.tools.provisioning.texts import SYSTEM_STATE_DIR
from gateway.tools.provisioning.unit import (
    FIRST_START_FILE,
    FIRST_START_UNIT,
    OF_RELEASES,
    STARTER_FILES,
    ServicePlan,
    first_start_unit,
    unit,
)
from gateway.trust.certificates.authority_folder import CA_KEY
from gateway.trust.certificates.token_book import TokenError
from gateway.trust.enrolment.tokens import EnrolmentToken
from light_dataclasses import dataclass

FOLDER = "hedgerow"
WHEELS = f"{FOLDER}/wheels.tar"
PROGRAM = "/opt/hedgerow/venv/bin/hedgerow"
_OWN_NAMES = ("gateway.pem", "gateway.key.pem")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*-(cp3\d+-(?:aarch64|x86_64))")
_LEFT_OUT = ("state", "authority")
_MOST_FILES = 64
_MOST_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CardKit:
    """The files that go onto the boot partition of one card.

    Attributes:
        device: whose.
        files: their contents, by their paths.
        wheels: the archive that goes to `WHEELS`.
        wheels_sha256: of the archive, in hexadecimal.
        title: what the configuration says of the gateway's place.
        made_s: when, in seconds since 1970.

    """

    device: CardDevice
    files: Mapping[str, bytes] = field(repr=False)
    wheels: Path
    wheels_sha256: str
    title: str
    made_s: int

    def first_boot(self, mechanism: str) -> dict[str, bytes]:
        """Return the files of a mechanism.

        Args:
            mechanism: ``cloud-init``, ``firstrun`` or ``rpi-preseed``.

        """
        if mechanism == "firstrun":
            return {"firstrun.sh": first_run.script(self.device).encode()}
        if mechanism == "rpi-preseed":
            text = preseed.script(self.device)
            return {preseed.SCRIPT: text.encode(), "rpi-preseed.toml": preseed.TOML.encode()}
        return {
            "user-data": cloud_config.user_data(self.device).encode(),
            "meta-data": cloud_config.meta_data(self.device, self._instance).encode(),
            "network-config": cloud_config.network_config(self.device).encode(),
        }

    def command_line(self, mechanism: str, text: str) -> str:
        """Return the kernel's command line for a mechanism; see `cloud_config.command_line`."""
        more = ""
        if mechanism == "firstrun":
            more = first_run.COMMAND_LINE
        elif mechanism == "cloud-init":
            more = f"ds=nocloud;i={self._instance};s=file:///boot/firmware/"
        return cloud_config.command_line(text, self.device, more)

    @property
    def _instance(self) -> str:
        return f"hedgerow-{self.device.id}-{self.made_s}"


def made(device: CardDevice, now_s: int, first_start: bytes | None = None) -> CardKit:
    """Gather what a device is made of.

    Args:
        device: with paths and secrets filled in.
        now_s: seconds since 1970.
        first_start: the file that lets a browser set it up; None for one that has its files.

    Raises:
        RefusalError: something of it is missing, wrong or of another device.

    """
    assert device.files is not None
    if first_start is not None and device.token:
        raise RefusalError(
            f"{device.id}: token: of no use with a first start, whose page takes one"
        )
    configuration = {} if first_start is not None else _configuration(device)
    title = device.place or "/".join(
        part for part in (configuration.get("domain"), configuration.get("group")) if part
    )
    if first_start is None:
        files = {f"{FOLDER}/etc/{name}": data for name, data in _files(device)}
    else:
        files = _first_start(device, first_start)
    files |= _network_files(device, now_s)
    if device.token:
        files[f"{FOLDER}/token"] = _token(device)
    files[f"{FOLDER}/{SERVICE_USER}.service"] = _unit(device)
    script = resources.files(__package__).joinpath("data/first-boot.sh").read_bytes()
    files[f"{FOLDER}/first-boot.sh"] = script
    for name in STARTER_FILES:
        files[f"{FOLDER}/{name}"] = resources.files(provisioning).joinpath(name).read_bytes()
    if device.wheels is None:
        raise RefusalError(f"{device.id}: wheels: not given, and the first boot installs from them")
    sha256 = _sha256(device, device.wheels)
    release, kind = _release(device, device.wheels)
    settings = {"id": device.id, "flashed_at": str(now_s), "release": release, "kind": kind}
    settings["wheels_sha256"] = sha256
    if device.modem is not None:
        settings["modem"] = "yes"
    if first_start is not None:
        settings["first_start"] = "yes"
    lines = "".join(f"{key}={value}\n" for key, value in settings.items())
    files[f"{FOLDER}/settings"] = lines.encode()
    return CardKit(device, files, device.wheels, sha256, title, now_s)


def _configuration(device: CardDevice) -> Mapping[str, Any]:
    assert device.files is not None
    file = device.files / config_place.SYSTEM.name
    try:
        found = tomllib.loads(_read(device, file).decode()).get("gateway", {})
    except ValueError as error:
        raise RefusalError(f"{device.id}: files: {file}: not TOML: {error}") from error
    named = found.get("id") if isinstance(found, dict) else None
    if named != device.id:
        raise RefusalError(f"{device.id}: files: {file}: gateway.id is {named!r} there")
    return dict(found)


def _files(device: CardDevice) -> Iterator[tuple[str, bytes]]:
    assert device.files is not None
    taken = 0
    for path in sorted(device.files.rglob("*")):
        name = PurePosixPath(path.relative_to(device.files))
        is_left_out = name.parts[0] in _LEFT_OUT or name.suffix in (".password", ".service")
        if is_left_out or not path.is_file():
            continue
        taken += 1
        if name.name == CA_KEY:
            raise RefusalError(f"{device.id}: files: {path}: an authority's key goes onto no card")
        if not all(_NAME.fullmatch(part) for part in name.parts):
            raise RefusalError(f"{device.id}: files: {path}: not letters, digits, '.', '_', '-'")
        if taken > _MOST_FILES:
            raise RefusalError(f"{device.id}: files: {device.files}: more than {_MOST_FILES}")
        if device.token and name.name in _OWN_NAMES:
            continue  # it makes a key of its own
        yield str(name), _read(device, path)


def _network_files(device: CardDevice, now_s: int) -> dict[str, bytes]:
    """Read the certificates and keys of its networks, and check them."""
    now = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
    found: dict[str, bytes] = {}
    for network, (where, one) in device.eaps().items():
        contents = {name: _read(device, path) for name, path in one.files().items()}
        for fault in eap.file_faults(one, where, contents, now):
            raise RefusalError(f"{device.id}: {fault.where}: {fault.why}")
        for name, data in contents.items():
            found[f"{FOLDER}/network/{PurePosixPath(eap.place(network, name)).name}"] = data
    return found


def _token(device: CardDevice) -> bytes:
    try:
        token = EnrolmentToken.parse(device.token)
    except TokenError as error:
        raise RefusalError(f"{device.id}: token: {error}") from error
    if token.name != device.id:
        raise RefusalError(f"{device.id}: token: it is for {token.name!r}")
    return f"{token.as_text()}\n".encode()


def _first_start(device: CardDevice, card: bytes) -> dict[str, bytes]:
    """Return the files of a first start: a page, which the card's file opens."""
    text = first_start_unit(_planned(device))
    return {FIRST_START_FILE.name: card, f"{FOLDER}/{FIRST_START_UNIT}": text.encode()}


def _planned(device: CardDevice) -> ServicePlan:
    folder = config_place.SYSTEM.parent
    return ServicePlan(device.id, (PROGRAM,), SERVICE_USER, folder, SYSTEM_STATE_DIR, OF_RELEASES)


def _unit(device: CardDevice) -> bytes:
    if device.unit is not None:
        return _read(device, device.unit)
    folder = config_place.SYSTEM.parent
    text = unit(_planned(device))
    if device.token:
        # It renews its certificate itself, where the configuration has it follow the service.
        text = text.replace("\n[Install]\n", f"ReadWritePaths={folder}/tls\n\n[Install]\n")
    return text.encode()


def _release(device: CardDevice, wheels: Path) -> tuple[str, str]:
    """Return the release that an archive holds, and for which Python and processor."""
    found = _RELEASE.fullmatch(wheels.name.removesuffix(".tar"))
    if found is None or wheels.suffix != ".tar":
        raise RefusalError(
            f"{device.id}: wheels: {wheels.name!r} is not named VERSION-cp313-aarch64.tar"
        )
    return found[0], found[1]


def _sha256(device: CardDevice, wheels: Path) -> str:
    try:
        with wheels.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RefusalError(f"{device.id}: wheels: {error.strerror}: {wheels}") from error


def _read(device: CardDevice, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_FILE_BYTES + 1)
    except OSError as error:
        raise RefusalError(f"{device.id}: {error.strerror}: {path}") from error
    if len(data) > _MOST_FILE_BYTES:
        raise RefusalError(f"{device.id}: {path}: larger than {_MOST_FILE_BYTES} bytes")
    return data
