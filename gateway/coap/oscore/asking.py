"""Asking a device what it has, over the OSCORE context in which it asked (RFC 8613, section 8.1).

A directory asks who registers simply for its links (RFC 9176, section 5.1). The request goes to
where the device's came from; a proxy there does not know the context, and has no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from aiocoap.message import Direction, Message
from aiocoap.numbers.codes import Code

from coap_engine import option_numbers
from coap_engine.blocks import BodyLimits
from coap_engine.body_fetch import BodyFetch
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option, value_of
from coap_engine.shares import Shares
from gateway.coap.messages import add_option, options_of
from gateway.coap.oscore.context import OscoreContext
from gateway.coap.responders import AskPeer

_log = logging.getLogger(__name__)

OnDeviceResponse = Callable[[CoapResponse | None], None]


class DeviceRequest:
    """One request to a device; its answer may come in blocks inside (section 4.1.3.4.1).

    Args:
        context: the device's.
        peer: where its messages come from.
        ask: sends a request there.
        fetch: puts the answer together.
        done: takes the answer; None if there is none, or none that the device has protected.

    """

    def __init__(
        self,
        context: OscoreContext,
        peer: CoapPeer,
        ask: AskPeer,
        fetch: BodyFetch,
        done: OnDeviceResponse,
    ) -> None:
        self._context = context
        self._peer = peer
        self._ask = ask
        self._fetch = fetch
        self._done = done
        self._code = 0
        self._request_id: Any = None

    def send(self, code: int, options: tuple[Option, ...]) -> None:
        """Send it, or the request for its next block.

        Raises:
            Exception: it can't be protected, for want of numbers for example.

        """
        self._code = code
        message = Message(code=Code(code))
        for number, value in options:
            add_option(message, number, value)
        outer, self._request_id = self._context.protect(message)
        protected: tuple[Option, ...] = ((option_numbers.OSCORE, outer.opt.oscore),)
        self._ask(self._peer, CoapRequest(int(outer.code), protected, outer.payload), self._came)

    def _came(self, response: CoapResponse | None) -> None:
        try:
            step = None if response is None else self._fetch.take(self._opened(response))
            if isinstance(step, tuple):
                self.send(self._code, step)
                return
        except Exception as error:  # inside are anybody's bytes if the key is another
            _log.info("%s gave no answer that can be used: %s", self._context, error)
            step = None
        self._fetch.close()
        self._done(step)

    def _opened(self, response: CoapResponse) -> CoapResponse:
        value = value_of(response.options, option_numbers.OSCORE)
        if value is None:
            raise _UnprotectedError(f"{response} is not protected")
        message = Message(code=Code(response.code), payload=response.payload)
        message.opt.oscore = value
        message.direction = Direction.INCOMING
        inner, _ = self._context.unprotect(message, self._request_id)
        return CoapResponse(int(inner.code), options_of(inner), inner.payload)


class _UnprotectedError(Exception):
    """An answer is not the device's own."""


def ask_device(
    context: OscoreContext,
    peer: CoapPeer,
    ask: AskPeer,
    shares: Shares,
    limits: BodyLimits,
) -> AskPeer:
    """Return what asks a device through its context, in place of what asks anybody without.

    Args:
        context: the device's.
        peer: where its messages come from.
        ask: sends a request there.
        shares: bytes of the answer are taken from ``shares.held_bytes``.
        limits: how long the answer may be.

    """

    def ask_inside(asker: CoapPeer, request: CoapRequest, done: OnDeviceResponse) -> None:
        fetch = BodyFetch(asker, request.options, shares, limits)
        asking = DeviceRequest(context, peer, ask, fetch, done)
        try:
            asking.send(request.code, fetch.options)
        except Exception as error:
            _log.warning("%s can't be asked: %s", context, error)
            done(None)

    return ask_inside
