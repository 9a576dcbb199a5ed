"""Owner of a gateway, and how it gets one: all files are there in the end, or none."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import asdict, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.base import replaced_file
from gateway.base.event_log import audit
from gateway.process.configuration import config
from gateway.process.configuration import place as config_place
from gateway.tools.first_start.owner_wish import FIRST_DEVICE, OwnerWish
from gateway.tools.provisioning import files, new_folder
from gateway.tools.provisioning.files import AUTHORITY, CONFIGURATION, Machine
from gateway.tools.provisioning.secret import Secrets
from gateway.tools.provisioning.texts import SYSTEM_STATE_DIR
from gateway.trust.enrolment.tokens import fingerprint_of
from light_dataclasses import dataclass

SIGNS: Final = (CONFIGURATION, "access.toml", "passwords", "psk", "tree.key", "tls", AUTHORITY)
"""Files and folders that only a gateway with an owner has."""
NO_SIGNS: Final = (audit.FILE_NAME, f"{audit.FILE_NAME}.1", "lost+found")
"""The files that may be in a state folder before anybody owns it."""
CA: Final = "ca.pem"
_PAGE_PORT: Final = config.CONSOLE_PORT


@dataclass(frozen=True, slots=True)
class GatewayHome:
    """The folder of a gateway's files, which may be written yet.

    Attributes:
        folder: of its configuration.

    """

    folder: Path

    @property
    def is_systems(self) -> bool:
        """Return whether systemd's own gateway has the folder."""
        return self.folder == config_place.SYSTEM.parent

    @property
    def trail(self) -> Path:
        """The audit trail, which the gateway goes on with where it is the system's."""
        return (SYSTEM_STATE_DIR if self.is_systems else self.folder) / audit.FILE_NAME

    def sign_of_owner(self) -> Path | None:
        """Return what shows that the gateway has an owner; None if nothing does.

        What an attempt has left that was killed is taken away before: it comes to nothing.

        Raises:
            OSError: a folder can't be read or written.

        """
        if self.folder.is_dir():
            new_folder.take_back(self.folder)
            for name in SIGNS:
                if os.path.lexists(self.folder / name):
                    return self.folder / name
        new_folder.remove_unfinished(self.folder)
        state = SYSTEM_STATE_DIR if self.is_systems else self.folder / "state"
        kept = sorted(state.iterdir()) if state.is_dir() else []
        return next((one for one in kept if one.name not in NO_SIGNS), None)

    def write(self, asked: OwnerWish, machine: Machine) -> DeviceLogin:
        """Write a gateway with an authority of its own, as `hedgerow init` does.

        It has a user for a first device, which may write the topics of its name and no more.

        Args:
            asked: what its owner wants it to be.
            machine: what runs it.

        Returns:
            How that device logs in. No file has its password.

        Raises:
            TakenError: one of its files is there.
            ConfigError: the configuration would not do.
            OSError: one can't be written.

        """
        secrets = Secrets(asked.user, password=asked.password, is_chosen=True, device=FIRST_DEVICE)
        new_folder.refuse_taken(self.folder, files.names_of_one(asked.gateway, secrets))
        new_folder.make(self.folder, partial(self._fill, asked, secrets, machine))
        for each in (self.folder, self.folder.parent):
            replaced_file.sync_folder(each)
        return DeviceLogin(secrets.device, secrets.device_password)

    def _fill(self, asked: OwnerWish, secrets: Secrets, machine: Machine, fresh: Path) -> None:
        files.write_one(fresh, self.folder, asked.gateway, secrets, machine)
        config.load(fresh / CONFIGURATION, config.GatewaySettings)
        new_folder.force_to_disk(fresh)

    def owned(self, device: DeviceLogin | None = None) -> OwnedGateway:
        """Return what its owner is told of the gateway that is there.

        Args:
            device: the log-in of a first device, if it has been made just now.

        Raises:
            ConfigError: its configuration would not do.
            OSError: a file can't be read.
            ValueError: its authority's certificate can't be read.

        """
        settings = config.load(self.folder / CONFIGURATION, config.GatewaySettings)
        pem = (self.folder / "tls" / CA).read_bytes()
        authority = x509.load_pem_x509_certificates(pem)[0]
        return OwnedGateway(
            settings.gateway.id,
            settings.gateway.address or settings.console.host,
            settings.mqtt.tls_port or 0,
            settings.console.port if settings.console.web else 0,
            fingerprint_of(authority).hex(),
            b"".join(
                one.public_bytes(Encoding.PEM) for one in x509.load_pem_x509_certificates(pem)
            ),
            device,
        )


@dataclass(frozen=True, slots=True)
class DeviceLogin:
    """The user and the password of a device.

    Attributes:
        user: its name, which its topics have.
        password: in clear.

    """

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OwnedGateway:
    """The facts of a gateway that phones and devices are told.

    Attributes:
        id: its name.
        address: where it is reached.
        mqtts_port: for MQTT over TLS.
        page_port: of its page; 0 if it has none.
        ca_sha256: the fingerprint of its authority, in hexadecimal.
        ca: the authority, in PEM.
        device: how a first device logs in; None if it has none, or if nobody knows any more.

    """

    id: str
    address: str
    mqtts_port: int
    page_port: int
    ca_sha256: str
    ca: bytes
    device: DeviceLogin | None = None

    @property
    def page(self) -> str:
        """The address of its page; empty if it has none."""
        return f"https://{self._at(self.page_port)}/" if self.page_port else ""

    @property
    def mqtts(self) -> str:
        """Return the host and port of MQTT over TLS."""
        return self._at(self.mqtts_port)

    def invitation(self) -> str:
        """Return what a QR code says: where to have the authority, how to know that it is it, and
        how to log in.

        A telephone opens it as an address; a device takes the authority from there only if its
        fingerprint is the one behind the ``#``, which is not sent to anybody.
        """
        where = self.page or f"https://{self._at(_PAGE_PORT)}/"
        facts = {"sha256": self.ca_sha256, "mqtts": self.mqtts}
        if self.device is not None:
            facts |= {"user": self.device.user, "password": self.device.password}
        told = "&".join(f"{name}={quote(value, safe=':[]')}" for name, value in facts.items())
        return f"{where}{CA}#{told}"

    def as_json(self) -> Mapping[str, Any]:
        """Return what the page shows."""
        return {
            "gateway": self.id,
            "address": self.address,
            "page": self.page,
            "mqtts": self.mqtts,
            "ca_sha256": self.ca_sha256,
            "device": None if self.device is None else asdict(self.device),
            "invitation": self.invitation(),
        }

    def _at(self, port: int) -> str:
        is_v6 = ipaddress.ip_address(self.address).version == 6
        return f"[{self.address}]:{port}" if is_v6 else f"{self.address}:{port}"
