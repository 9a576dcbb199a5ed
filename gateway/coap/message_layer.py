"""aiocoap's message layer, wired by hand to a transport of ours and bounded.

aiocoap remembers each request for 247 s to answer a repeated one alike (RFC 7252, section 4.5),
with a timer and the whole response, and without a limit: at 3,000 requests a second that is
1.6 GB. Here the same memory ends at `REMEMBERED_MAX` requests and has no timers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from aiocoap.messagemanager import MessageManager
from aiocoap.numbers.codes import EMPTY
from aiocoap.numbers.types import CON, NON, RST
from aiocoap.protocol import Context
from aiocoap.tokenmanager import TokenManager

REMEMBERED_MAX = 4_096
"""Requests that can be answered again without being carried out again."""


class RecentMessages(OrderedDict[tuple[Any, int], Any]):
    """Responses by (remote, message id), oldest first, each for a limited time.

    Args:
        size_max: beyond it the oldest is forgotten.

    """

    def __init__(self, size_max: int) -> None:
        super().__init__()
        self._size_max = size_max
        self._expires: OrderedDict[tuple[Any, int], float] = OrderedDict()

    def remember(self, key: tuple[Any, int], now: float, lifetime_s: float) -> None:
        """Note a new request, whose response is not known yet, and forget what is too old."""
        while self._expires:
            oldest, expires = next(iter(self._expires.items()))
            if expires > now and len(self._expires) < self._size_max:
                break
            del self._expires[oldest]
            self.pop(oldest, None)
        self[key] = None
        self._expires[key] = now + lifetime_s

    def is_live(self, key: tuple[Any, int], now: float) -> bool:
        """Whether a request is remembered and not too old."""
        return self._expires.get(key, now) > now


class BoundedMessageManager(MessageManager):  # type: ignore[misc]  # aiocoap is untyped
    """aiocoap's message manager with a limit on what it remembers, and a clean end."""

    def __init__(self, token_manager: Any, size_max: int = REMEMBERED_MAX) -> None:
        super().__init__(token_manager)
        self._recent_messages = RecentMessages(size_max)

    def dispatch_message(self, message: Any) -> None:
        """Take a message from the transport.

        One whose type does not fit its code is silently ignored (RFC 7252, sections 4.2 and
        4.3); aiocoap would remember it, and write a warning that any stranger can repeat.
        """
        if _fits(message.code, message.mtype):
            super().dispatch_message(message)

    def _deduplicate_message(self, message: Any) -> bool:
        key = (message.remote, message.mid)
        now = self.loop.time()
        recent: RecentMessages = self._recent_messages
        if not recent.is_live(key, now):
            recent.pop(key, None)
            recent.remember(key, now, message.transport_tuning.EXCHANGE_LIFETIME)
            return False
        if message.mtype is CON and (response := recent[key]) is not None:
            self._send_initially(response)
        return True

    async def shutdown(self) -> None:
        """Stop as aiocoap does, and cancel the acknowledgements that still wait."""
        for _, timer in self._piggyback_opportunities.values():
            timer.cancel()
        self._piggyback_opportunities.clear()
        await super().shutdown()


def _fits(code: Any, mtype: Any) -> bool:
    """RFC 7252, table 1."""
    if code is EMPTY:
        return mtype is not NON
    if code.is_request():
        return mtype in (CON, NON)
    return bool(code.is_response()) and mtype is not RST


def attach(context: Context, make_transport: Callable[[Any], Any]) -> Any:
    """Put a transport under an aiocoap context, and return it.

    ``make_transport`` takes the message manager, which it feeds with messages.
    """
    tokens = TokenManager(context)
    messages = BoundedMessageManager(tokens)
    transport = make_transport(messages)
    messages.message_interface = transport
    tokens.token_interface = messages
    context.request_interfaces.append(tokens)
    return transport
