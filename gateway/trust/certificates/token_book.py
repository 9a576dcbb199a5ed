"""The book of an authority's one-time tokens, in a file of its folder.

It keeps of a secret its SHA-256 alone: 128 random bits are not guessed, so no slow hash is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from cryptography import x509

from gateway.base import replaced_file
from gateway.trust.certificates import authority_folder
from light_dataclasses import dataclass

SECRET_BYTES = 16
BOOK = "tokens.json"


class TokenError(ValueError):
    """A token is of no use: ``str(error)`` is one line without its secret."""


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """The grant of a token: the certificate that it is good for.

    Attributes:
        name: the certificate's.
        addresses: where its holder will be reached.
        roles: of its holder.
        days: how long its certificate is valid.
        until_s: when the token ends, in seconds since 1970.
        hashed: SHA-256 of its secret.
        used_by: the fingerprint of the key that it was used for; empty before.
        serial: the number of the certificate that it is good for, in hexadecimal; likewise, and
            where a release that kept none noted the use.
        welcome: what its holder is handed beside the certificate, as it was given; None for none.

    """

    name: str
    addresses: tuple[str, ...]
    roles: tuple[str, ...]
    days: int
    until_s: float
    hashed: str
    used_by: str = ""
    serial: str = ""
    welcome: Mapping[str, Any] | None = field(default=None, repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return what the book keeps."""
        known = {
            "name": self.name,
            "addresses": list(self.addresses),
            "roles": list(self.roles),
            "days": self.days,
            "until_s": self.until_s,
            "hashed": self.hashed,
            "used_by": self.used_by,
            "serial": self.serial,
        }
        return known if self.welcome is None else known | {"welcome": dict(self.welcome)}


class TokenBook:
    """The tokens of an authority, in a file of its folder.

    Args:
        folder: the authority's.

    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, grant: TokenGrant, now_s: float) -> bytes:
        """Note a new token; an older one of the same name is good for nothing any more.

        Args:
            grant: what it is good for; its hash is not looked at.
            now_s: seconds since 1970.

        Returns:
            The secret, which is nowhere else.

        Raises:
            AuthorityError: the book can't be used.
            OSError: it can't be written.

        """
        secret = secrets.token_bytes(SECRET_BYTES)
        with authority_folder.locked(self._folder):
            grants = self._read(now_s)
            grants[grant.name] = replace(grant, hashed=_hash(secret), used_by="", serial="")
            self._write(grants)
        return secret

    def spend(self, name: str, secret: bytes, key: bytes, now_s: float) -> TokenGrant:
        """Use a token for a key; again for the same key only.

        Who did not hear the answer may ask again, and proves then that it has the same key. It is
        given the certificate of the same number then, and never one of another token. A token that
        a release before noted as used has no number: what it gave is for the caller to find.

        Args:
            name: who says to be enrolled.
            secret: the token's.
            key: the fingerprint of the key of who asks, see `key_fingerprint`.
            now_s: seconds since 1970.

        Raises:
            TokenError: there is no such token, or it has been used or has ended.
            AuthorityError: the book can't be used.
            OSError: it can't be written.

        """
        with authority_folder.locked(self._folder):
            grants = self._read(now_s)
            grant = grants.get(name)
            kept = "" if grant is None else grant.hashed
            # Compared in any case, so that the time does not tell whether the name has a token.
            is_right = hmac.compare_digest(kept.ljust(64, "-"), _hash(secret))
            if grant is None or not is_right:
                raise TokenError("no token of that name, or it has ended")
            if grant.used_by and not hmac.compare_digest(grant.used_by, key.hex()):
                raise TokenError("the token has been used")
            if grant.used_by:
                return grant
            serial = f"{x509.random_serial_number():x}"
            used = replace(grant, used_by=key.hex(), serial=serial)
            self._write({**grants, name: used})
        return used

    def take_back(self, name: str, now_s: float) -> bool:
        """Make a name's token good for nothing, and return whether it had one.

        Raises:
            AuthorityError: the book can't be used.
            OSError: it can't be written.

        """
        with authority_folder.locked(self._folder):
            grants = self._read(now_s)
            found = grants.pop(name, None)
            if found is not None:
                self._write(grants)
        return found is not None and not found.used_by

    def stands(self, grant: TokenGrant, now_s: float) -> bool:
        """Return whether a token that was used is in the book still; the folder is locked.

        Raises:
            AuthorityError: the book can't be used.
            OSError: it can't be read.

        """
        return self._read(now_s).get(grant.name) == grant

    def withdraw(self, names: Collection[str], issued: Collection[str], now_s: float) -> list[str]:
        """Make the tokens of names good for nothing; the folder is locked.

        Args:
            names: whose.
            issued: numbers of certificates that there are. A token that was used for one of them
                stays: it gives that one and no other.
            now_s: seconds since 1970.

        Returns:
            Whose tokens would have given a certificate.

        Raises:
            AuthorityError: the book can't be used; no token of it is good then.
            OSError: it can't be read or written.

        """
        grants = self._read(now_s)
        open_ones = [
            name
            for name, grant in grants.items()
            if name in names and (grant.serial not in issued if grant.serial else not grant.used_by)
        ]
        if open_ones:
            self._write({name: one for name, one in grants.items() if name not in open_ones})
        return open_ones

    def _read(self, now_s: float) -> dict[str, TokenGrant]:
        """Return those that have not ended, by name."""
        file = self._folder / BOOK
        if not file.exists():
            return {}
        try:
            found = [_grant(each) for each in json.loads(file.read_bytes())]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise authority_folder.AuthorityError(f"{file}: no book of tokens") from error
        return {one.name: one for one in found if now_s < one.until_s}

    def _write(self, grants: Mapping[str, TokenGrant]) -> None:
        data = json.dumps([one.as_json() for one in grants.values()], indent=1).encode()
        file = self._folder / BOOK
        replaced_file.replace(file, data, is_durable=True, mode=authority_folder.SECRET)


def _grant(each: Mapping[str, Any]) -> TokenGrant:
    return TokenGrant(
        str(each["name"]),
        tuple(map(str, each["addresses"])),
        tuple(map(str, each["roles"])),
        int(each["days"]),
        float(each["until_s"]),
        str(each["hashed"]),
        str(each["used_by"]),
        f"{int(each['serial'], 16):x}" if each.get("serial") else "",  # a release before had none
        dict(each["welcome"]) if "welcome" in each else None,
    )


def _hash(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()
