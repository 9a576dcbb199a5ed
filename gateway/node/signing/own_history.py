"""Keys that this installation has signed with: what it may state of itself (`former_keys`).

It stands in a file of the state folder, and only what stood there is ever stated: a key that
another machine had under this gateway's id, which may have been stolen with it, is none of this
one's. A key whose certificate was revoked is taken out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgpack
from cryptography import x509

from gateway.base.kept_file import KeptFile
from gateway.node.signing.former_keys import MAX_FORMER, FormerKey
from gateway.node.signing.trust import Chain
from gateway.trust.certificates.signature_keys import PublicKey
from light_dataclasses import dataclass

FILE_NAME = "own_keys"
_WITHOUT = "keys that this gateway had before are stated as far as `former_keys` has them"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UsedKey:
    """A key that this gateway signed with.

    Attributes:
        chain: its certificate, and those above it.
        until_s: when it was replaced, in seconds since 1970; 0 for the one in use.
        last_life: the last boot epoch in which it was used.

    """

    chain: Chain
    until_s: int
    last_life: int

    @property
    def key(self) -> PublicKey:
        """The public key of its certificate, the first of the chain."""
        found = x509.load_der_x509_certificate(self.chain[0]).public_key()
        if not isinstance(found, PublicKey):
            raise TypeError("certificate of a key that signs nothing here")
        return found

    @property
    def former(self) -> FormerKey:
        """The key as other gateways are told of it: with its end and its last life."""
        return FormerKey(self.key, self.until_s, self.last_life)


class OwnHistory:
    """The keys of one gateway, the one in use last.

    Args:
        folder: its state.

    Raises:
        OSError: its file can't be read now, and would be written over.

    """

    def __init__(self, folder: Path) -> None:
        self._file = KeptFile(folder / FILE_NAME, _WITHOUT, is_durable=True)
        self._used = self._load()
        self._kept = tuple(self._used)

    @property
    def last_life(self) -> int:
        """The latest start of this gateway of which its keys tell; 0 for none."""
        return max((one.last_life for one in self._used), default=0)

    def former(self, chain: Chain) -> list[FormerKey]:
        """Return what may be stated under the key of a certificate."""
        key = UsedKey(chain, 0, 0).key
        return [one.former for one in self._used if one.key != key]

    def recover(self, stated: Sequence[FormerKey], chains: Sequence[Chain]) -> None:
        """Take up what this installation has stated, where its own file is lost.

        Args:
            stated: under the key that is in use, which no other machine has.
            chains: certificates of this gateway, of which some may be of those keys.

        """
        if self._used:
            return
        for chain in chains:
            key = UsedKey(chain, 0, 0).key
            for former in stated:
                if former.key == key:
                    self._used.append(UsedKey(chain, former.until_s, former.last_life))

    def use(self, chain: Chain, life: int, now_s: float) -> None:
        """This key is in use from now on, in this life of the gateway."""
        key, found = UsedKey(chain, 0, life).key, self._used
        if found and not found[-1].until_s and found[-1].key != key:
            # A clock that is wrong must not end the key before its time.
            until_s = max(int(now_s), _begins_s(chain))
            found[-1] = replace(found[-1], until_s=until_s)
        self._used = [one for one in found if one.key != key][-MAX_FORMER:]
        self._used.append(UsedKey(chain, 0, life))
        self._keep()

    def drop(self, is_revoked: Callable[[Chain], bool]) -> None:
        """Forget keys whose certificates were revoked."""
        self._used = [one for one in self._used if not is_revoked(one.chain)]
        self._keep()

    def _keep(self) -> None:
        if tuple(self._used) == self._kept:
            return
        rows = [(list(one.chain), one.until_s, one.last_life) for one in self._used]
        try:
            self._file.write(msgpack.packb(rows))
        except OSError as error:  # with the next change, or the next start
            _log.warning("the keys of this gateway are not kept: %s", error)
            return
        self._kept = tuple(self._used)

    def _load(self) -> list[UsedKey]:
        return self._file.read(_used_keys) or []


def _used_keys(data: bytes) -> list[UsedKey]:
    rows = msgpack.unpackb(data)
    found = [UsedKey(tuple(chain), int(until_s), int(life)) for chain, until_s, life in rows]
    return [one for one in found if one.former]


def _begins_s(chain: Chain) -> int:
    return int(x509.load_der_x509_certificate(chain[0]).not_valid_before_utc.timestamp())
