"""Admission of links: which gateways may open one, and how often they may try.

Asked when a gateway's CONNECT has come, before anything is answered; told how its hand-shake ends.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from gateway.mqtt import Connect
from gateway.node.links.dial_failures import OTHER_LIFE_PATIENCE_S, RefusedPeers
from gateway.node.links.handshake import NoPlaceError
from gateway.node.links.refusal import Refusal, RefusedError, reason
from gateway.trust.shares.failed_attempts import FailedAttempts
from gateway.trust.tls.peer_certificate import PeerCertificate
from tree_handler.errors import ProtocolError

if TYPE_CHECKING:
    from gateway.node.links.link_tls import LinkTls

MAX_HANDSHAKES: Final = 64
"""Links that have not yet proved who they are; more are refused."""
MAX_HANDSHAKES_PER_ADDRESS: Final = 16

_log = logging.getLogger(__name__)


class LinkAdmission:
    """The door for links.

    Args:
        failures_at_once: hand-shakes of one address that may fail before it has to wait.
        failures_per_s: so many of them are forgiven in a second.
        is_required: whether only a gateway's certificate opens a link.
        tls: what links show and ask for; None where they run without, or none may come.
        counted: told of the kind, for each link that is refused.

    Attributes:
        tls: as given, or as last renewed.

    """

    def __init__(
        self,
        failures_at_once: int = 10,
        failures_per_s: float = 0.1,
        *,
        is_required: bool = False,
        tls: LinkTls | None = None,
        counted: Callable[[str], None] | None = None,
    ) -> None:
        self.tls = tls
        self._counted = counted
        self._counts: Counter[str] = Counter()
        self._strangers = RefusedPeers()
        self._is_required = is_required
        self._now = asyncio.get_running_loop().time
        self._failures = FailedAttempts(failures_at_once, failures_per_s)
        self._greeting: Counter[str] = Counter()

    def renew(self, tls: LinkTls | None) -> list[str]:
        """Go by certificates that were read, perhaps again; the gateways whose links must end."""
        before, self.tls = self.tls, tls
        return [] if tls is None or before is None else tls.follow(before)

    def is_leaf(self, gateway_id: str) -> bool:
        """Return whether a neighbour showed a collector's certificate: it forwards nothing."""
        return self.tls is not None and self.tls.is_leaf(gateway_id)

    def why_no_link(
        self, connect: Connect, certificate: PeerCertificate | None, address: str
    ) -> str:
        """Return why a gateway may not open a link; nothing if it may try.

        Args:
            connect: what it sent.
            certificate: what the TLS handshake has verified of it.
            address: where it comes from, without port.

        """
        if self._is_required:
            if self.tls is None:
                return "a link, and this gateway has no certificate for links"
            why = self._over_limit(address) or self.tls.why_not(certificate, connect.client_id)
            if why:  # the listener counts and says it
                self._note(address, "certificate", why)
            return why
        if self._failures.is_blocked(address, self._now()):
            self._refuse("link over the limit of failures of an address", address)
            return "a link after too many failures"
        return self._over_limit(address)

    def _over_limit(self, address: str) -> str:
        if (
            self._greeting.total() < MAX_HANDSHAKES
            and self._greeting[address] < MAX_HANDSHAKES_PER_ADDRESS
        ):
            return ""
        self._refuse("link over the limit of hand-shakes", address)
        return "a link while too many shake hands"

    @contextmanager
    def shaking_hands(self, address: str) -> Iterator[None]:
        """For the time of a hand-shake; one that fails counts against the address.

        Raises:
            OSError, ProtocolError: as the hand-shake has it.

        """
        self._greeting[address] += 1
        try:
            yield
        except (OSError, ProtocolError) as error:
            self._failed(address, error)
            raise
        finally:
            self._greeting[address] -= 1
            if not self._greeting[address]:
                del self._greeting[address]

    def status(self) -> list[dict[str, Any]]:
        """Return whose links were refused lately, and why; ready for JSON."""
        return self._strangers.status(self._now())

    def _failed(self, address: str, error: OSError | ProtocolError) -> None:
        code = _code(error)
        if code == Refusal.DUPLICATE:
            return  # two that dial each other
        # One that has proved who it is, or only went away, has guessed nothing.
        is_guess = isinstance(error, (TimeoutError, ProtocolError))
        if is_guess and not isinstance(error, (NoPlaceError, RefusedError)):
            self._failures.failed(address, self._now())
        what = error.what if isinstance(error, ProtocolError) else type(error).__name__
        patience_s = 0.0
        if code == Refusal.OTHER_LIFE:
            what, patience_s = "other life", OTHER_LIFE_PATIENCE_S
        self._refuse("link hand-shake failed", address, what, reason(error), patience_s)

    def _refuse(
        self, kind: str, address: str, what: str = "", why: str = "", patience_s: float = 0.0
    ) -> None:
        self._counts[kind] += 1
        if self._counted is not None:
            self._counted(kind)
        if self._note(address, what or kind, why or kind, patience_s):
            who = f"{address}: {why}" if why else address
            _log.warning("%s: %s (%d so far)", who, kind, self._counts[kind])

    def _note(self, address: str, what: str, why: str, patience_s: float = 0.0) -> bool:
        now_s = self._now()
        return self._strangers.refused(address, what, why, now_s, time.time(), patience_s)


def _code(error: OSError | ProtocolError) -> int | None:
    """Return what was told to the other end, or by it, if it is one of `Refusal`."""
    if isinstance(error, NoPlaceError):
        return error.refusal
    return error.code if isinstance(error, RefusedError) else None
