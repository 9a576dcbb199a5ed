"""The keys and passwords that the gateways of a new fleet share, drawn by chance."""

from __future__ import annotations

import secrets
from dataclasses import field
from pathlib import Path

from gateway.broker.access import password_lines
from gateway.tools.provisioning.new_folder import write
from light_dataclasses import dataclass

MODE = 0o600


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of one user, of a first device and of the tree.

    Attributes:
        user: the MQTT user, and the identity of the CoAP key.
        password: of the user, in clear.
        coap_key: a text, which libcoap's client takes as it is.
        tree_key: in hexadecimal.
        is_chosen: whether the password is one that its user has chosen, and knows.
        device: the user of a first device, which may write its own topics; empty for none.
        device_password: of that user, in clear; it stands in no file.

    """

    user: str
    password: str = field(default_factory=password_lines.drawn, repr=False)
    coap_key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    tree_key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    is_chosen: bool = False
    device: str = ""
    device_password: str = field(default_factory=password_lines.drawn, repr=False)

    @property
    def password_name(self) -> str:
        """The name of the file that has the password in clear."""
        return f"{self.user}.password"

    def write_password(self, folder: Path) -> None:
        """Write the password in clear, unless its user knows it.

        Raises:
            OSError: it can't be written.

        """
        if self.is_chosen:
            return
        write(folder / self.password_name, f"{self.password}\n", MODE)

    def write_hidden(self, folder: Path) -> None:
        """Write what a gateway reads: the hashes of passwords, and the keys.

        Raises:
            OSError: a file can't be written.

        """
        lines = [password_lines.line(self.user, self.password.encode())]
        if self.device:
            lines.append(password_lines.line(self.device, self.device_password.encode()))
        write(folder / "passwords", "".join(f"{line}\n" for line in lines), MODE)
        write(folder / "psk", f"{self.user}:{self.coap_key.encode().hex()}\n", MODE)
        write(folder / "tree.key", f"{self.tree_key}\n", MODE)
