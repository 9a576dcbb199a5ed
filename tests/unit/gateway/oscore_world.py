"""One OSCORE context without a socket: the gateway's side, and the device's."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from aiocoap.message import Direction, Message
from aiocoap.numbers.codes import Code

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, RequestReceived
from coap_engine.shares import Shares
from gateway.coap.oscore.answers import OscoreAnswers
from gateway.coap.oscore.context import OscoreContext
from gateway.coap.oscore.keys import OscoreKeys
from gateway.coap.oscore.numbers import SenderNumbers
from tests.loop_clock import Clock

SECRET = bytes.fromhex("0102030405060708090a0b0c0d0e0f10")
SALT = bytes.fromhex("9e7ca92223786340")
THERMOMETER = OscoreKeys("thermometer", SECRET, b"\x01", b"\x02", SALT)
PEER = CoapPeer("there", b"there")
OSCORE = option_numbers.OSCORE


class NoDisk(SenderNumbers):
    """Numbers from 0 on, that nobody keeps."""

    def __init__(self) -> None:
        """Nothing to read."""

    def first(self, _name: str) -> int:
        return 0

    def use_below(self, _name: str, _number: int) -> None:
        pass


class Resource:
    """Answers everything, and notes who asked for what."""

    def __init__(self, answer: bytes = b"Hello World!") -> None:
        self.asked_for: list[tuple[str | None, CoapRequest]] = []
        self.answer = answer
        self.tell: Callable[[int, CoapResponse, bool], None] | None = None

    def asked(
        self, asked: RequestReceived, _now: float, respond: Any, _ask: Any
    ) -> tuple[CoapResponse, bool]:
        self.asked_for.append((asked.peer.principal, asked.request))
        self.tell = respond
        return CoapResponse(codes.CONTENT, (), self.answer), not asked.request.observe

    def ended(self, exchange: int) -> None:
        pass

    def refusals(self) -> dict[str, int]:
        return {}


class World:
    """A gateway's side of one context, and the device's."""

    def __init__(self, keys: OscoreKeys = THERMOMETER, answer: bytes = b"Hello World!") -> None:
        self.context = OscoreContext(keys, NoDisk(), secrets.token_bytes(8))
        self.resource = Resource(answer)
        self.clock = Clock()
        self.shares = Shares()
        self.answers = OscoreAnswers(
            {keys.known_by: self.context}, self.resource, self.clock, self.shares
        )
        turned = OscoreKeys(
            keys.name,
            keys.master_secret,
            keys.recipient_id,
            keys.sender_id,
            keys.master_salt,
            keys.id_context,
        )
        self.device = OscoreContext(turned, NoDisk(), b"")
        self.device.recipient_replay_window.initialize_empty()
        self.told: list[CoapResponse] = []
        self.told_as: list[tuple[CoapResponse, bool]] = []
        self.exchanges = 0

    def protect(self, code: Code = Code.GET, **options: Any) -> tuple[CoapRequest, Any]:
        payload = options.pop("payload", b"")
        message = Message(code=code, payload=payload, **options)
        outer, request_id = self.device.protect(message)
        request = CoapRequest(
            int(outer.code),
            ((OSCORE, outer.opt.oscore),),
            outer.payload,
            observe=outer.opt.observe == 0,
        )
        return request, request_id

    def send(self, request: CoapRequest) -> CoapResponse:
        answer = self.begin_sending(request)
        assert answer is not None
        return answer[0]

    def begin_sending(self, request: CoapRequest) -> tuple[CoapResponse, bool] | None:
        """Send a request that may be answered later; see `told_as`."""
        self.exchanges += 1
        return self.answers.asked(
            RequestReceived(self.exchanges, PEER, request),
            self.clock.now_s,
            self._told,
            self.ask_device,
        )

    def _told(self, _exchange: int, response: CoapResponse, is_last: bool) -> None:
        self.told.append(response)
        self.told_as.append((response, is_last))

    def ask_device(
        self, _peer: CoapPeer, _request: CoapRequest, done: Callable[[CoapResponse | None], None]
    ) -> None:
        """Ask the device something, which has no answer."""
        done(None)

    def open(self, response: CoapResponse, request_id: Any) -> Any:
        (value,) = [value for number, value in response.options if number == OSCORE]
        message = Message(code=Code(response.code), payload=response.payload)
        message.opt.oscore = value
        message.direction = Direction.INCOMING
        return self.device.unprotect(message, request_id)[0]

    def ask(self, code: Code = Code.GET, **options: Any) -> Any:
        request, request_id = self.protect(code, **options)
        return self.open(self.send(request), request_id)

    def begin(self) -> None:
        """The first request, which is asked for an Echo."""
        echo = self.ask().opt.echo
        assert echo is not None
        assert self.ask(echo=echo).code == Code.CONTENT
        self.resource.asked_for.clear()
