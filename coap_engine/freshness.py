"""Echo (RFC 9175, section 2): has a peer sent this within the last minutes, from where it says?

Nothing is remembered of a peer until it has shown an Echo that could only be had at its address.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Hashable
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapResponse
from light_dataclasses import dataclass

ECHO_BYTES: Final = 8
_SECRET_BYTES: Final = 32
_WINDOWS_OF_A_SECRET: Final = 60


@dataclass(frozen=True, slots=True)
class FreshnessRules:
    """The rules for when an Echo option is asked for, and how long one stays good.

    Attributes:
        window_s: an Echo is good for so long at least and twice as long at most.
        proven_s: so long after an Echo an address counts as proven.
        proven_peers: so many addresses at most are remembered as proven.
        amplification: an answer may be so many times the request's length without proof
            (RFC 9175, section 2.4, item 3).
        header_bytes: of Ethernet, IP and UDP, which count with each datagram there. So 136 bytes
            may go in any case.
        writes: whether a request that changes something needs a proven address.

    """

    window_s: float = 60.0
    proven_s: float = 300.0
    proven_peers: int = 4_096
    amplification: int = 3
    header_bytes: int = 62
    writes: bool = True


DEFAULT_RULES = FreshnessRules()


class Freshness:
    """Makes and checks Echo values, and says when one is needed.

    The engine calls `check` with the Echo option of a request, if there is one; then `is_proven`
    is what `CoapRequest.is_fresh` says. Before `RequestReceived`: if `is_needed_to_act`, the answer
    is `challenge`. Before a datagram is sent as response: if `is_needed_to_answer`, the answer is
    `challenge` in its place.

    Args:
        random_bytes: source of secrets, `secrets.token_bytes` or its like.
        rules: see `FreshnessRules`.

    Attributes:
        asked: challenges since the start.
        refused: Echo values since the start that were not good.

    """

    def __init__(
        self, random_bytes: Callable[[int], bytes], rules: FreshnessRules = DEFAULT_RULES
    ) -> None:
        self.asked = 0
        self.refused = 0
        self._random_bytes = random_bytes
        self._rules = rules
        self._secret = self._previous = random_bytes(_SECRET_BYTES)
        self._generation: int | None = None
        # By address, until when; all are proven for as long, so that the first ends first.
        self._proven_until: dict[Hashable, float] = {}

    @property
    def remembered(self) -> int:
        """Return how many addresses are remembered as proven."""
        return len(self._proven_until)

    def echo(self, peer: CoapPeer, now: float) -> bytes:
        """Return the Echo value for a peer, eight bytes."""
        return self._value(peer, self._window(now), now)

    def challenge(self, peer: CoapPeer, now: float) -> CoapResponse:
        """Ask for an Echo: 4.01 Unauthorized with the value (section 2.3).

        It goes as piggybacked or non-confirmable response, never as a separate one that would be
        repeated (section 2.4, item 3).
        """
        self.asked += 1
        return CoapResponse(codes.UNAUTHORIZED, ((option_numbers.ECHO, self.echo(peer, now)),))

    def check(self, peer: CoapPeer, echo: bytes, now: float) -> bool:
        """Return whether a peer shows an Echo of ours, of late; its address is proven by that."""
        window = self._window(now)
        # Both are computed and compared, so that time does not tell which window it is of.
        is_new = hmac.compare_digest(echo, self._value(peer, window, now))
        is_older = hmac.compare_digest(echo, self._value(peer, window - 1, now))
        if not (is_new or is_older):
            self.refused += 1
            return False
        self._proven_until.pop(peer.address, None)
        self._proven_until[peer.address] = now + self._rules.proven_s
        if len(self._proven_until) > self._rules.proven_peers:
            del self._proven_until[next(iter(self._proven_until))]
        return True

    def is_proven(self, peer: CoapPeer, now: float) -> bool:
        """Return whether what is sent to a peer's address arrives there, as far as we know."""
        if peer.is_address_proven:
            return True
        until = self._proven_until.get(peer.address)
        if until is None:
            return False
        if now < until:
            return True
        del self._proven_until[peer.address]
        return False

    def is_needed_to_act(self, peer: CoapPeer, code: int, now: float) -> bool:
        """Return whether a request of this method has to wait until its peer shows an Echo."""
        return (
            self._rules.writes
            and code not in (codes.GET, codes.FETCH)
            and not self.is_proven(peer, now)
        )

    def is_needed_to_answer(
        self, peer: CoapPeer, request_bytes: int, response_bytes: int, now: float
    ) -> bool:
        """Return whether an answer is too long for a peer that has shown no Echo.

        Args:
            peer: who is answered.
            request_bytes: length of the datagram that came.
            response_bytes: length of the datagram that would go; with all its repetitions, if it
                is a confirmable one.
            now: in seconds.

        """
        rules = self._rules
        came_bytes = request_bytes + rules.header_bytes
        goes_bytes = response_bytes + rules.header_bytes
        return goes_bytes > came_bytes * rules.amplification and not self.is_proven(peer, now)

    def _window(self, now: float) -> int:
        return int(now // self._rules.window_s)

    def _value(self, peer: CoapPeer, window: int, now: float) -> bytes:
        """Return the Echo of a peer in one window of time: RFC 9175, appendix A, item 3, without
        state."""
        generation = window // _WINDOWS_OF_A_SECRET
        self._rotate(self._window(now) // _WINDOWS_OF_A_SECRET)
        secret = self._secret if generation == self._generation else self._previous
        # A number of fixed length comes first, so that no two pairs read the same.
        text = window.to_bytes(8, "big", signed=True) + repr(peer.address).encode()
        return hmac.digest(secret, text, "sha256")[:ECHO_BYTES]

    def _rotate(self, generation: int) -> None:
        if generation == self._generation:
            return
        is_next = self._generation is None or generation == self._generation + 1
        self._previous = self._secret if is_next else self._random_bytes(_SECRET_BYTES)
        self._secret = self._random_bytes(_SECRET_BYTES)
        self._generation = generation
