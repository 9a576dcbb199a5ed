"""What a peer is told that something is not granted to."""

from __future__ import annotations

from coap_engine import option_numbers
from coap_engine.message import CoapResponse
from coap_engine.uint import encode_uint
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShareRefusal:
    """Something is not granted, and what to do about it.

    Attributes:
        code: 4.29 Too Many Requests (RFC 8516) if this host takes too much, 5.03 Service
            Unavailable (RFC 7252, section 5.9.3.4) if all together do.
        retry_s: when to try again, in seconds.

    """

    code: int
    retry_s: int

    def response(self) -> CoapResponse:
        """Return what the peer is told: the code, with Max-Age."""
        return CoapResponse(self.code, ((option_numbers.MAX_AGE, encode_uint(self.retry_s)),))
