"""Keys that a gateway signs with and checks with: its own, and the ring of the keys of all.

The certificates of others stand in a file of the state folder, so that a start knows whose
messages it may meet before a neighbour is there to tell; and in another one what gateways state of
the keys that they had before.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgpack

from gateway.base.kept_file import KeptFile
from gateway.node.signing.former_keys import MAX_AHEAD_S, KeyStatement
from gateway.node.signing.own import OwnKey
from gateway.node.signing.own_history import OwnHistory
from gateway.node.signing.ring import CertificateRing, fingerprint_of
from gateway.node.signing.trust import (
    Chain,
    EndedAuthorityError,
    RevokedCertificateError,
    Trust,
    UntrustedError,
)
from gateway.trust.tls.context import TlsFiles
from light_dataclasses import dataclass

FILE_NAME = "certificates"
STATED_NAME = "former_keys"
_WITHOUT = "certificates of other gateways are known when neighbours have handed them over again"
_WITHOUT_STATED = "former keys of gateways count when neighbours have told of them again"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SigningFiles:
    """The content of signing files: this gateway's key, and the authorities for those of others."""

    own: OwnKey
    trust: Trust

    @classmethod
    def read(cls, files: TlsFiles) -> SigningFiles:
        """Read the files of a link.

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

    Raises:
        OSError: a file of the folder can't be read now. To go on without it would believe keys that
            were taken back, and write over it.

    """

    def __init__(
        self, files: SigningFiles, folder: Path, clock: Callable[[], float] = time.time
    ) -> None:
        self._own = files.own
        self._trust = files.trust
        self._file = KeptFile(folder / FILE_NAME, _WITHOUT)
        self._stated_file = KeptFile(folder / STATED_NAME, _WITHOUT_STATED)
        self._history = OwnHistory(folder)
        self._own_id, self._life = "", 0
        self._clock = clock
        self.ring = CertificateRing(files.trust, clock())
        self._refused: list[Chain] = []
        """Of the file, and its own: a clock that is wrong may be why."""
        self._ended: list[Chain] = []
        """The chains whose authority has ended by the clock: kept, for it may be set."""
        self._saved: frozenset[bytes] = frozenset()
        for chain in self._load():
            self._add(chain)
        self._saved = self._kept()
        self._add(files.own.chain)
        self._saved_statements = b""
        self._load_statements()

    @property
    def chain(self) -> Chain:
        """The certificates with which others check this gateway's signatures."""
        return self._own.chain

    @property
    def statement(self) -> KeyStatement | None:
        """Return what this gateway states of its former keys; None for nothing."""
        return self.ring.former.of(self._own_id)

    def sign(self, message: bytes) -> bytes:
        """Sign with this gateway's own key."""
        return self._own.signer.sign(message)

    def begin(self, own_id: str, life: int) -> None:
        """This gateway signs in this life from now on, and states which keys it had before."""
        self._own_id, self._life = own_id, life
        stated = self.ring.former.of(own_id)
        if stated is not None and self._own.signer.is_of(stated.signature):
            self._history.recover(stated.keys, self.ring.chains_of(own_id))
        self._follow_history()

    def renew(self, files: SigningFiles) -> set[str]:
        """Return the files say something else now: sign with their key, believe their authorities.

        Returns:
            The gateways of which a certificate no longer counts.

        """
        self._own = files.own
        self.follow_time()
        before = [chain for _, chain in self.ring]
        lost = self.ring.follow_trust(files.trust)
        self._refused.clear()
        ended, self._ended = self._ended, []
        for chain in (*before, *ended):
            with contextlib.suppress(UntrustedError):  # revoked, or of an authority that has gone
                self._add_unless_ended(chain)
        self._add(files.own.chain)
        self._trust = files.trust
        if self._life:
            self._follow_history()
        return lost

    def follow_time(self) -> None:
        """Certificates end: to be called now and then."""
        self.ring.follow_time(self._clock())

    def clock_was_set(self) -> None:
        """Do anew what was refused or stated by another time, which may be wrong now."""
        self.follow_time()
        refused = [*self._refused, *self._ended]
        self._refused, self._ended = [], []
        for chain in (*refused, self._own.chain):
            self._add(chain)
        if self._life:
            self._follow_history()

    @property
    def wall_s(self) -> float:
        """The wall clock, seconds since 1970."""
        return self._clock()

    def save(self) -> None:
        """Keep what is new since it was saved last."""
        self._save_statements()
        kept = self._kept()
        if kept == self._saved:
            return
        chains = [list(chain) for chain in (*(one for _, one in self.ring), *self._ended)]
        try:
            self._file.write(msgpack.packb(chains))
        except OSError as error:  # it is tried with the next new one, and at the end
            _log.warning("certificates of other gateways are not kept: %s", error)
            return
        self._saved = kept

    def _follow_history(self) -> None:
        """Keep which key is in use, and state which ones were."""
        self._history.use(self._own.chain, self._life, self._clock())
        self._history.drop(self._is_revoked)
        former, ring = self._history.former(self._own.chain), self.ring
        stated = ring.former.of(self._own_id)
        if stated is not None and stated.stated_s > self.wall_s + MAX_AHEAD_S:
            stated = None  # nobody whose clock is right takes it
        if (stated is None and not former) or (
            stated is not None
            and list(stated.keys) == former
            and self._own.signer.is_of(stated.signature)
        ):
            return
        after_s = 0 if stated is None else stated.stated_s + 1
        at_s = max(int(self._clock()), after_s)
        made = KeyStatement.make(self._own_id, at_s, former, self._own.signer)
        self._take(made.data)

    def _is_revoked(self, chain: Chain) -> bool:
        try:
            self._trust.check(chain, self._clock())
        except RevokedCertificateError:
            return True
        except UntrustedError:  # as long as its authority was trusted, it had not revoked it
            return False
        return False

    def _take(self, statement: bytes) -> None:
        try:
            self.ring.take_statement(statement)
        except UntrustedError as error:
            _log.warning("what a gateway states of its former keys is not believed: %s", error)

    def _save_statements(self) -> None:
        former = self.ring.former
        data = msgpack.packb(([stated.data for _, stated in former], former.taken_back))
        if data == self._saved_statements or not (len(former) or former.taken_back):
            return
        try:
            self._stated_file.write(data)
        except OSError as error:
            _log.warning("former keys of gateways are not kept: %s", error)
            return
        self._saved_statements = data

    def _load_statements(self) -> None:
        found = self._stated_file.read(_statements)
        if found is not None:
            self.ring.former.take_back(found.taken_back)
            for one in found.statements:
                self._take(one)
            self._saved_statements = found.data

    def _kept(self) -> frozenset[bytes]:
        ended = (fingerprint_of(chain) for chain in self._ended)
        return frozenset((*(fingerprint for fingerprint, _ in self.ring), *ended))

    def _add(self, chain: Chain) -> None:
        try:
            self._add_unless_ended(chain)
        except UntrustedError as error:  # its authority may have gone since it was kept
            self._refused.append(chain)
            _log.warning("a certificate is not believed: %s", error)

    def _add_unless_ended(self, chain: Chain) -> None:
        """Put a certificate into the ring, or by where its authority has ended by the clock.

        Raises:
            UntrustedError: it is not believed, whatever the clock says.

        """
        try:
            self.ring.add(chain)
        except EndedAuthorityError as error:
            if chain not in self._ended:
                self._ended.append(chain)
                _log.warning("a certificate does not count by this machine's clock: %s", error)

    def _load(self) -> list[Chain]:
        return self._file.read(_chains) or []


@dataclass(frozen=True, slots=True)
class _KeptStatements:
    """The content of the file of statements."""

    data: bytes
    statements: list[bytes]
    taken_back: list[bytes]


def _statements(data: bytes) -> _KeptStatements:
    statements, taken_back = msgpack.unpackb(data)
    return _KeptStatements(
        data, [bytes(one) for one in statements], [bytes(one) for one in taken_back]
    )


def _chains(data: bytes) -> list[Chain]:
    return [tuple(bytes(one) for one in row) for row in msgpack.unpackb(data)]
