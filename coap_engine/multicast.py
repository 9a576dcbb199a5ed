"""Requests to a multicast group (RFC 7252, section 8; sans-I/O).

Stated here and nowhere else:

- Only what is useful is answered: a GET that has 2.05 and a payload. There is no error, no Reset
  and no empty acknowledgement, whatever came (sections 8.1 and 8.2).
- An answer goes at a drawn moment of the leisure, since all servers of the group answer (8.2).
- Nobody has shown that it is where it says: no answer is longer than three times the request (RFC
  9175, section 2.4). The first block of a longer one says where the rest is asked for, by unicast
  (RFC 7959, section 2.8).
- A request that comes twice is answered once.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.blocks import DEFAULT_LIMITS as BODIES
from coap_engine.blocks import Block, with_options
from coap_engine.codec import DEFAULT_LIMITS as CODEC
from coap_engine.codec import NON, CoapMessage, decode
from coap_engine.errors import CoapError
from coap_engine.freshness import DEFAULT_RULES as FRESHNESS
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option, value_of
from coap_engine.rates import ADMITTED, Rates, RateShares
from coap_engine.request_options import read_options
from coap_engine.response_bodies import ResponseBodies
from coap_engine.share import Quota
from coap_engine.shares import ShareLimits, Shares
from light_dataclasses import dataclass

_NO_SUCCESS: Final = 1 << 1
"""The bit of No-Response by which 2.xx is not wanted (RFC 7967, section 2.1)."""
_NOTHING_KEPT: Final = ShareLimits(held_bytes=Quota(0, 0, 0, 0, 1))
_FOR_A_PROXY: Final = (option_numbers.PROXY_URI, option_numbers.PROXY_SCHEME)

RATES: Final = Rates(host=10.0, strangers=50.0)

MulticastAnswer = Callable[[CoapRequest, CoapPeer, float], CoapResponse | None]
"""Answers a request at once; None where there is nothing useful to say."""


@dataclass(frozen=True, slots=True)
class MulticastRules:
    """The limits and delays of answers to multicast requests.

    Attributes:
        leisure_s: DEFAULT_LEISURE (section 8.2).
        rates: requests of a host, and of all, that are looked at.
        waiting: answers that wait for their moment.
        remembered: requests of which it is known that they were answered.
        remembered_s: for so long; NON_LIFETIME (section 4.8.2).

    """

    leisure_s: float = 5.0
    rates: Rates = RATES
    waiting: int = 128
    remembered: int = 1_024
    remembered_s: float = 145.0


DEFAULT_RULES = MulticastRules()


class MulticastRequests:
    """Takes what comes to a group, and has it answered.

    Args:
        answer: answers what is useful.
        random_bytes: draws moments and message ids.
        rules: see there.

    Attributes:
        answered: answers that were sent, since the start.
        ignored: datagrams that have no answer.

    """

    def __init__(
        self,
        answer: MulticastAnswer,
        random_bytes: Callable[[int], bytes],
        rules: MulticastRules = DEFAULT_RULES,
    ) -> None:
        self.answered = 0
        self.ignored = 0
        self._answer = answer
        self._random_bytes = random_bytes
        self._rules = rules
        self._rates = RateShares(rules.rates)
        self._bodies = ResponseBodies(Shares(_NOTHING_KEPT))
        self._message_id = int.from_bytes(random_bytes(2), "big")
        self._number = 0
        self._waiting: list[tuple[float, int, bytes, CoapPeer]] = []
        self._seen: dict[tuple[Hashable, int], None] = {}
        self._seen_at: deque[tuple[float, tuple[Hashable, int]]] = deque()
        self._datagrams: list[tuple[bytes, CoapPeer]] = []

    def receive_datagram(self, datagram: bytes, peer: CoapPeer, now: float) -> None:
        """Take a datagram that came to the group.

        Args:
            datagram: any bytes.
            peer: who sent it, from the local link.
            now: in seconds.

        """
        answer = None
        if self._rates.admit(peer, now) == ADMITTED and len(self._waiting) < self._rules.waiting:
            answer = self._answer_to(datagram, peer, now)
        if answer is None:
            self.ignored += 1
            return
        drawn = int.from_bytes(self._random_bytes(4), "big") / (1 << 32)
        self._number += 1
        due = now + drawn * self._rules.leisure_s
        heapq.heappush(self._waiting, (due, self._number, answer, peer))

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due, in seconds; None if nothing waits."""
        return self._waiting[0][0] if self._waiting else None

    def handle_timer(self, now: float) -> None:
        """Send the answers whose moment has come."""
        while self._waiting and self._waiting[0][0] <= now:
            _, _, datagram, peer = heapq.heappop(self._waiting)
            self._datagrams.append((datagram, peer))
            self.answered += 1

    def datagrams_to_send(self) -> list[tuple[bytes, CoapPeer]]:
        """Return what is to be sent now, once."""
        datagrams, self._datagrams = self._datagrams, []
        return datagrams

    def _answer_to(self, datagram: bytes, peer: CoapPeer, now: float) -> bytes | None:
        try:
            message = decode(datagram, CODEC)
            options = read_options(message.options)
        except CoapError:
            return None
        if message.type != NON or message.code != codes.GET or message.payload:
            return None
        if options.suppressed & _NO_SUCCESS or any(n in _FOR_A_PROXY for n, _ in options.route):
            return None
        if self._is_seen(peer, message.message_id, now):
            return None
        request = CoapRequest(codes.GET, options.passed, route=options.route)
        response = self._answer(request, peer, now)
        if response is None or response.code != codes.CONTENT or not response.payload:
            return None
        return self._fitting(message, len(datagram), peer, response, now)

    def _is_seen(self, peer: CoapPeer, message_id: int, now: float) -> bool:
        """Return whether a request came before, and from now on it has."""
        rules, seen_at = self._rules, self._seen_at
        while seen_at and (
            seen_at[0][0] + rules.remembered_s <= now or len(seen_at) >= rules.remembered
        ):
            self._seen.pop(seen_at.popleft()[1], None)
        key = (peer.address, message_id)
        if key in self._seen:
            return True
        self._seen[key] = None
        seen_at.append((now, key))
        return False

    def _fitting(
        self,
        message: CoapMessage,
        request_bytes: int,
        peer: CoapPeer,
        response: CoapResponse,
        now: float,
    ) -> bytes | None:
        """Return the response as a datagram, of as large a block as is allowed; None if none is."""
        room = (request_bytes + FRESHNESS.header_bytes) * FRESHNESS.amplification
        room -= FRESHNESS.header_bytes
        asked = value_of(message.options, option_numbers.BLOCK2)
        most = BODIES.size_exponent
        plain = tuple([one for one in message.options if one[0] != option_numbers.BLOCK2])
        if asked is None:
            if len(response.payload) <= 16 << most:
                datagram = self._encoded(message, response)
                if len(datagram) <= room:
                    return datagram
        else:
            try:
                block = Block.decode(asked)
            except CoapError:
                return None
            if block.number:  # further blocks are asked for by unicast
                return None
            most = min(most, block.size_exponent)
        for exponent in range(most, -1, -1):
            block2: Option = (option_numbers.BLOCK2, Block(0, False, exponent).encode())
            options = with_options(plain, block2)
            part = self._bodies.cut(peer, codes.GET, options, b"", response, now)
            datagram = self._encoded(message, part)
            if part.code == codes.CONTENT and len(datagram) <= room:
                return datagram
        return None

    def _encoded(self, message: CoapMessage, response: CoapResponse) -> bytes:
        self._message_id = self._message_id + 1 & 0xFFFF
        return CoapMessage(
            NON,
            response.code,
            self._message_id,
            message.token,
            response.options,
            response.payload,
        ).encode()
