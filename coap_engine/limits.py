"""All that bounds an engine, and how it times its messages."""

from __future__ import annotations

from coap_engine.blocks import DEFAULT_LIMITS as _BODIES
from coap_engine.blocks import BodyLimits
from coap_engine.codec import DEFAULT_LIMITS as _CODEC
from coap_engine.codec import CodecLimits
from coap_engine.freshness import DEFAULT_RULES as _FRESHNESS
from coap_engine.freshness import FreshnessRules
from coap_engine.observation import DEFAULT_RULES as _CONFIRM
from coap_engine.observation import ConfirmRules
from coap_engine.recent_requests import DEFAULT_LIMITS as _RECENT
from coap_engine.recent_requests import RecentLimits
from coap_engine.retransmission import DEFAULT_RULES as _TRANSMISSION
from coap_engine.retransmission import TransmissionRules
from coap_engine.shares import DEFAULT_LIMITS as _SHARES
from coap_engine.shares import ShareLimits
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The limits and rules of a CoAP engine.

    Attributes:
        codec: what a datagram may be.
        shares: who may take how much.
        bodies: how long bodies may be.
        recent: what is remembered of requests.
        transmission: how confirmable messages are repeated.
        confirm: when notifications are confirmable.
        freshness: when an Echo is asked for.
        acknowledge_s: a confirmable request that has no answer by then gets an empty ACK.
        answer_s: a request that nobody above has answered by then is told so.
        response_s: how long an answer to a request of our own is waited for: MAX_TRANSMIT_WAIT.

    """

    codec: CodecLimits = _CODEC
    shares: ShareLimits = _SHARES
    bodies: BodyLimits = _BODIES
    recent: RecentLimits = _RECENT
    transmission: TransmissionRules = _TRANSMISSION
    confirm: ConfirmRules = _CONFIRM
    freshness: FreshnessRules = _FRESHNESS
    acknowledge_s: float = 0.1
    answer_s: float = 90.0
    response_s: float = 93.0


DEFAULT_LIMITS = EngineLimits()
