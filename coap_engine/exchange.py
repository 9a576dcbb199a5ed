"""A request that is served, from `RequestReceived` to its answer or its observation's end."""

from __future__ import annotations

from coap_engine.codec import CON, CoapMessage
from coap_engine.finished_bodies import FinishedBody
from coap_engine.message import CoapPeer, CoapResponse
from coap_engine.recent_requests import RecentRequest
from coap_engine.request_options import are_plain


class ServedExchange:
    """One of them.

    Args:
        number: what it is called above the engine.
        peer: who asked.
        message: the request, as it came.
        request_bytes: length of the datagram.
        recent: where the answer is remembered.

    Attributes:
        number, peer, request_bytes, recent: as given.
        message_id: of the message with the request.
        is_confirmable: whether that was a CON.
        token: of the request.
        code: its method.
        options: as they came.
        is_plain: none of them is for the engine.
        body: of the request, whole.
        block1: what the answer says as Block1; None for nothing.
        finished: where it is remembered that the body's last block has come; None for nowhere.
        suppressed: classes of responses that are not wanted, as bits (RFC 7967).
        acknowledge_at: when an empty ACK is due, in seconds.
        answer_by: when it is given up, in seconds.
        is_acknowledged: an empty ACK was sent: the response is separate.
        is_answered: the first response was sent: it is an observation.
        observes: it asked to observe, and may.

    """

    __slots__ = (
        "acknowledge_at",
        "answer_by",
        "block1",
        "body",
        "code",
        "finished",
        "is_acknowledged",
        "is_answered",
        "is_confirmable",
        "is_plain",
        "message_id",
        "number",
        "observes",
        "options",
        "peer",
        "recent",
        "request_bytes",
        "suppressed",
        "token",
    )

    def __init__(
        self,
        number: int,
        peer: CoapPeer,
        message: CoapMessage,
        request_bytes: int,
        recent: RecentRequest,
    ) -> None:
        self.number = number
        self.peer = peer
        self.code = message.code
        self.token = message.token
        self.options = message.options
        self.is_plain = are_plain(message.options)
        self.body = message.payload
        self.recent = recent
        self.message_id = message.message_id
        self.is_confirmable = message.type == CON
        self.block1: bytes | None = None
        self.finished: FinishedBody | None = None
        self.request_bytes = request_bytes
        self.suppressed = 0
        self.acknowledge_at = 0.0
        self.answer_by = 0.0
        self.is_acknowledged = False
        self.is_answered = False
        self.observes = False

    def note_answer(self, response: CoapResponse, now: float) -> None:
        """It is answered for the first time."""
        if self.finished is not None:
            self.finished.answered(response, now)
