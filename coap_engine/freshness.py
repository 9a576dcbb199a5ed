"""Echo (RFC 9175, section 2): has a peer sent this within the last minutes, from where it says?

Nothing is remembered of a peer until it has shown an Echo that could only be had at its address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coap_engine.message import CoapPeer, CoapResponse


@dataclass(frozen=True, slots=True)
class FreshnessRules:
    """When an Echo is asked for, and how long one is good.

    Attributes:
        window_s: an Echo is good for so long at least and twice as long at most.
        proven_s: so long after an Echo an address counts as proven.
        proven_peers: so many addresses at most are remembered as proven.
        amplification: an answer may be so many times the request's length without proof
            (RFC 9175, section 2.4, item 3).
        writes: whether a request that changes something needs a proven address.

    """

    window_s: float = 60.0
    proven_s: float = 300.0
    proven_peers: int = 4_096
    amplification: int = 3
    writes: bool = True


DEFAULT_RULES = FreshnessRules()


class Freshness:
    """Makes and checks Echo values, and says when one is needed.

    The engine calls `check` with the Echo option of a request, if there is one; then `is_proven`
    is what `CoapRequest.is_fresh` says. Before `Asked`: if `is_needed_to_act`, the answer is
    `challenge`. Before a datagram is sent as response: if `is_needed_to_answer`, the answer is
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

    @property
    def remembered(self) -> int:
        """How many addresses are remembered as proven."""
        raise NotImplementedError

    def echo(self, peer: CoapPeer, now: float) -> bytes:
        """The Echo value for a peer, eight bytes."""
        raise NotImplementedError

    def challenge(self, peer: CoapPeer, now: float) -> CoapResponse:
        """Ask for an Echo: 4.01 Unauthorized with the value (section 2.3)."""
        raise NotImplementedError

    def check(self, peer: CoapPeer, echo: bytes, now: float) -> bool:
        """Whether a peer shows an Echo of ours, of late; its address is proven by that."""
        raise NotImplementedError

    def is_proven(self, peer: CoapPeer, now: float) -> bool:
        """Whether what is sent to a peer's address arrives there, as far as we know."""
        raise NotImplementedError

    def is_needed_to_act(self, peer: CoapPeer, code: int, now: float) -> bool:
        """Whether a request with this method has to wait until its peer has shown an Echo."""
        raise NotImplementedError

    def is_needed_to_answer(
        self, peer: CoapPeer, request_bytes: int, response_bytes: int, now: float
    ) -> bool:
        """Whether an answer is too long for a peer that has shown no Echo.

        Args:
            peer: who is answered.
            request_bytes: length of the datagram that came.
            response_bytes: length of the datagram that would go.
            now: in seconds.

        """
        raise NotImplementedError
