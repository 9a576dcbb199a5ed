"""Filters of the relay: where each gateway's way ends there, and what each key may do.

What a Pi or an inventory says of a key is read as one key of a form that sshd(8) knows, and written
anew: a second line in it would be a key without limits.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PORT = 17_884
"""Of all ways: each has a loopback address of its own."""
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
"""Of a gateway, and of an operator."""
KEY_TYPE = re.compile(
    r"ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com"
)
KEY_CHARACTERS = 4_096
"""Of a key's base64: RSA with 16,384 bits has 2,800."""
EVERY = "*"
"""Among an operator's gateways: all of them."""


class FilterModule:
    """Called by Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that playbooks use."""
        return {
            "hedgerow_relay_address": address,
            "hedgerow_relay_key": public_key,
            "hedgerow_relay_keys": authorized_keys,
            "hedgerow_relay_known": known_hosts,
            "hedgerow_relay_lacks": lacks,
            "hedgerow_relay_listed": listed,
            "hedgerow_relay_ways": ways,
        }


def address(gateway: str) -> str:
    """Return the address of a gateway on the relay, `HOST:PORT`, which its name alone gives.

    Each has an address of its own in 127.0.0.0/8, so nobody has to remember who has which port.
    127.0.0.0/16 is left to others.

    Args:
        gateway: its id.

    Raises:
        ValueError: it is no id.

    """
    digest = hashlib.sha256(b"hedgerow relay " + named(gateway).encode()).digest()
    return f"127.{1 + digest[0] % 254}.{digest[1]}.{1 + digest[2] % 254}:{PORT}"


def ways(gateways: Iterable[str]) -> dict[str, str]:
    """Return the addresses of gateways by their ids.

    Raises:
        ValueError: two of them have one address.

    """
    found = {gateway: address(gateway) for gateway in sorted(gateways)}
    by_address: dict[str, str] = {}
    for gateway, where in found.items():
        other = by_address.setdefault(where, gateway)
        if other != gateway:
            raise ValueError(f"{other} and {gateway} have one address on the relay: rename one")
    return found


def listed(gateways: Iterable[str], folder: str) -> dict[str, str]:
    """Return the keys of those gateways that have one in the controller's folder.

    Args:
        gateways: their ids.
        folder: the relay's, on this machine.

    """
    files = {one: Path(folder, "gateways", f"{named(one)}.pub") for one in gateways}
    return {one: file.read_text() for one, file in files.items() if file.exists()}


def lacks(new: str, before: str) -> bool:
    """Return whether somebody of a list of keys may less by a new one: a line has gone."""
    return not set(before.splitlines()) <= set(new.splitlines())


def authorized_keys(
    keys: Mapping[str, str], operators: Sequence[Mapping[str, Any]], reach: str
) -> str:
    """Return the lines of the relay's authorized_keys (sshd(8)).

    A gateway's key opens its own way and does nothing else; an operator's runs `reach`.

    Args:
        keys: by gateway, as its file `.pub` has it.
        operators: each with `name`, `keys` and `gateways`.
        reach: the command that joins an operator with a gateway, and its first argument.

    Raises:
        ValueError: a name or key is not well formed, or a key would be two's.

    """
    owners: dict[str, str] = {}
    lines = []

    def add(options: str, text: str, owner: str) -> None:
        key = public_key(text, owner)
        if owners.setdefault(key, owner) != owner:
            raise ValueError(f"{owners[key]} and {owner} have the same key: give one another")
        lines.append(f"restrict,{options} {key} {owner}")

    for gateway, where in ways(keys).items():
        add(f'port-forwarding,permitlisten="{where}",command="/bin/false"', keys[gateway], gateway)
    for operator in operators:
        name = named(operator["name"])
        reached = [one if one == EVERY else named(one) for one in operator["gateways"]]
        command = " ".join([reach, name, *(f"'{one}'" for one in reached)])
        for text in operator["keys"]:
            add(f'command="{command}"', text, f"operator:{name}")
    return "".join(f"{line}\n" for line in lines)


def known_hosts(text: str, host: str) -> str:
    """Return the lines of a known_hosts file (sshd(8)) for the host keys that a machine shows.

    Args:
        text: its `.pub` files, one behind the other.
        host: as ssh names it: `gw-north`, or `[relay.example.org]:2222`.

    Raises:
        ValueError: there is no key, or one is not well formed.

    """
    keys = sorted({public_key(line, host) for line in text.splitlines() if line.strip()})
    if not keys:
        raise ValueError(f"{host} has no SSH host key")
    return "".join(f"{host} {key}\n" for key in keys)


def public_key(text: str, owner: str) -> str:
    """Type and base64 of one public key, without its comment.

    Raises:
        ValueError: it is not one key; the message names `owner`.

    """
    words = text.split()
    if len(text.strip().splitlines()) == 1 and len(words) >= 2 and KEY_TYPE.fullmatch(words[0]):
        name = words[0].encode()
        try:
            blob = base64.b64decode(words[1], validate=True)
        except binascii.Error:
            blob = b""
        if len(words[1]) <= KEY_CHARACTERS and blob.startswith(len(name).to_bytes(4, "big") + name):
            return f"{words[0]} {words[1]}"
    raise ValueError(f"{owner}: {text.strip()[:40]!r} is no SSH public key of one line")


def named(name: object) -> str:
    """Return a name that is well formed.

    Raises:
        ValueError: it is not.

    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name: 1 to 63 lower-case letters, digits and hyphens, no hyphen first"
        )
    return name
