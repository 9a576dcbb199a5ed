"""Requests that the policy does not allow: counted, and one of each kind a second in the log."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from dtls.datagrams import PeerAddress
from gateway.base.printable import printable
from gateway.coap.peers import OscoreAddress, SessionAddress
from gateway.trust.policy.action import path_text
from tree_handler.rate_limit import RateLimit

NO_PROOF: Final = "no_proof"
NO_RIGHT: Final = "no_right"
LINES_PER_S: Final = 1.0
_WHAT_MAX: Final = 200

_log = logging.getLogger(__name__)


class RefusedRequests:
    """Counts of the requests that the policy has refused.

    Attributes:
        counts: how often since the start, by kind.

    """

    def __init__(self) -> None:
        self.counts = {NO_PROOF: 0, NO_RIGHT: 0}
        self._lines = RateLimit(LINES_PER_S, 1)

    def note(self, request: CoapRequest, peer: CoapPeer, refusal: CoapResponse, now: float) -> None:
        """One more.

        Args:
            request: what was asked for.
            peer: by whom.
            refusal: what it is told.
            now: the event loop's time.

        """
        kind = NO_RIGHT if refusal.code == codes.FORBIDDEN else NO_PROOF
        self.counts[kind] += 1
        if not self._lines.allow(kind, now):
            return
        path = path_text(request.values(option_numbers.URI_PATH))
        what = printable(f"{peer.principal or 'a stranger'} at {_host(peer.address)}: {path}")
        why = printable(refusal.payload.decode())
        _log.warning("%s: %s (%s, %d so far)", what[:_WHAT_MAX], why, kind, self.counts[kind])


def _host(address: Hashable) -> str:
    if isinstance(address, OscoreAddress):
        address = address.outer
    if isinstance(address, SessionAddress):
        address = address.address
    return str(address.sockaddr[0]) if isinstance(address, PeerAddress) else "-"
