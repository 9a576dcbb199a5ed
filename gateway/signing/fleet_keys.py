"""What a gateway signs with and checks with: its own key, and the ring of the keys of all.

The certificates of others stand in a file of the state folder, so that a start knows whose
messages it may meet before a neighbour is there to tell.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgpack

from gateway import replaced_file
from gateway.signing.own import OwnKey
from gateway.signing.ring import CertificateRing
from gateway.signing.trust import Chain, Trust, UntrustedError
from gateway.tls.context import TlsFiles

FILE_NAME = "certificates"
_MODE = 0o600

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SigningFiles:
    """What the files say of signatures: this gateway's key, and who vouches for those of others."""

    own: OwnKey
    trust: Trust

    @classmethod
    def read(cls, files: TlsFiles) -> SigningFiles:
        """As a link's files have it.

        Raises:
            TlsFileError: one can't be read, or the key is of a kind that does not sign here.

        """
        own = OwnKey.read(files.certificate, files.key)
        return cls(own, Trust.read(files))


class FleetKeys:
    """The signer of one gateway (`tree_handler.proof.Signer`), and the ring that checks others.

    Args:
        files: what the files said at the start.
        folder: where certificates are kept.
        clock: the wall clock, seconds since 1970.

    Attributes:
        ring: the keys of all gateways, this one's included.

    """

    def __init__(
        self, files: SigningFiles, folder: Path, clock: Callable[[], float] = time.time
    ) -> None:
        self._own = files.own
        self._file = folder / FILE_NAME
        self._clock = clock
        self.ring = CertificateRing(files.trust, clock())
        self._saved: frozenset[bytes] = frozenset()
        for chain in self._load():
            self._add(chain)
        self._saved = self._kept()
        self._add(files.own.chain)

    @property
    def chain(self) -> Chain:
        """The certificates with which others check this gateway's signatures."""
        return self._own.chain

    def sign(self, message: bytes) -> bytes:
        """See `tree_handler.proof.Signer`."""
        return self._own.signer.sign(message)

    def renew(self, files: SigningFiles) -> set[str]:
        """The files say something else now: sign with their key, believe their authorities.

        Returns:
            The gateways of which a certificate no longer counts.

        """
        self._own = files.own
        self.follow_time()
        lost = self.ring.follow_trust(files.trust)
        self._add(files.own.chain)
        return lost

    def follow_time(self) -> None:
        """Certificates end: to be called now and then."""
        self.ring.follow_time(self._clock())

    def save(self) -> None:
        """Keep what is new since it was saved last."""
        kept = self._kept()
        if kept == self._saved:
            return
        chains = [list(chain) for _, chain in self.ring]
        try:
            replaced_file.replace(self._file, msgpack.packb(chains), mode=_MODE)
        except OSError as error:
            _log.warning("certificates of other gateways are not kept: %s", error)
        self._saved = kept

    def _kept(self) -> frozenset[bytes]:
        return frozenset(fingerprint for fingerprint, _ in self.ring)

    def _add(self, chain: Chain) -> None:
        try:
            self.ring.add(chain)
        except UntrustedError as error:  # its authority may have gone since it was kept
            _log.warning("a certificate is not believed: %s", error)

    def _load(self) -> list[Chain]:
        try:
            rows = msgpack.unpackb(self._file.read_bytes())
            return [tuple(bytes(one) for one in row) for row in rows]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, msgpack.UnpackException) as error:
            _log.warning("%s: not usable, neighbours will tell: %s", self._file, error)
            return []
