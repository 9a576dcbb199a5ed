"""One request to many gateways: the shell around `tree_handler.remote_gather`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapResponse
from coap_engine.uint import encode_uint
from gateway.coap.at_hand import Ask
from gateway.coap.execution import QUERY_SEGMENT
from gateway.coap.multi_status import FORMATS, encode
from gateway.coap.remote_forms import NotForOthersError, diagnostic_of
from gateway.coap.remote_parts import RemoteParts
from gateway.coap.remote_paths import RemoteAsked
from tree_handler.hierarchy import MemberRecord
from tree_handler.member import NONE
from tree_handler.remote_gather import AnswerGathering
from tree_handler.remote_options import NO_OPTIONS
from tree_handler.remote_resource import ResourceRequest, ResourceResponse

GATHER_S: Final = 10.0
"""So long all together are waited for."""

AskOne = Callable[
    [MemberRecord, ResourceRequest, CoapPeer, Callable[[ResourceResponse | None], None]],
    Callable[[], None],
]
"""Asks one gateway for a peer, and hands on its answer in a later turn; what it returns ends it."""


def gather(
    parts: RemoteParts, asked: RemoteAsked, peer: CoapPeer, ask_one: AskOne
) -> GatheredAnswer:
    """Ask many gateways.

    Args:
        parts: what requests are served with.
        asked: what, and whom.
        peer: who asks.
        ask_one: asks each of them.

    Raises:
        NotForOthersError: it is refused, and with what.

    """
    request = asked.request
    if request.writes:
        raise NotForOthersError(codes.METHOD_NOT_ALLOWED, "many gateways can only be read")
    if request.accept is not None and request.accept not in FORMATS:
        raise NotForOthersError(codes.NOT_ACCEPTABLE, f"one of the formats {FORMATS}")
    records = [one for one in asked.records if one.mqtt_port or one.coap_port or one.coaps_port]
    most = parts.limits.targets
    if len(records) > most:
        raise NotForOthersError(
            codes.BAD_REQUEST, f"{len(records)} gateways: at most {most} are asked at once"
        )
    wanted = replace(request, accept=None, options=NO_OPTIONS)
    return GatheredAnswer(parts, records, (wanted, request.accept), peer, ask_one)


class GatheredAnswer:
    """What many gateways answer; see `gateway.coap.at_hand.Later`.

    Args:
        parts: what requests are served with.
        records: of the gateways.
        wanted: what each is asked, and the format of the whole; None for the usual one.
        peer: who asks.
        ask_one: asks each of them.

    """

    def __init__(
        self,
        parts: RemoteParts,
        records: list[MemberRecord],
        wanted: tuple[ResourceRequest, int | None],
        peer: CoapPeer,
        ask_one: AskOne,
    ) -> None:
        self._parts = parts
        self._records = {record.id: record for record in records}
        self._request, accept = wanted
        self._form = FORMATS[0] if accept is None else accept
        self._peer = peer
        self._ask_one = ask_one
        self._core = AnswerGathering(list(self._records), parts.limits)
        self._ends: dict[str, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._done: Callable[[CoapResponse], None] | None = None

    def begin(self, done: Callable[[CoapResponse], None], ask: Ask) -> Callable[[], None]:
        """See `gateway.coap.at_hand.Later`."""
        loop = asyncio.get_running_loop()
        self._done = done
        self._timer = loop.call_later(GATHER_S, self._give_up)
        loop.call_soon(self._go_on)
        return self._end

    def _go_on(self) -> None:
        while self._done is not None and (target := self._core.next()) is not None:
            record = self._records[target]
            if not self._may(record):
                refused = diagnostic_of(codes.FORBIDDEN, "the policy here does not allow it")
                self._core.answered(target, refused)
                continue
            self._ends[target] = self._ask_one(
                record, self._request, self._peer, self._taker(target)
            )
        if self._core.is_over:
            self._finish()

    def _taker(self, target: str) -> Callable[[ResourceResponse | None], None]:
        def told(response: ResourceResponse | None) -> None:
            self._ends.pop(target, None)
            self._core.answered(target, response)
            self._go_on()

        return told

    def _may(self, record: MemberRecord) -> bool:
        """Whether the policy here lets the peer ask this one: the path has named all of them."""
        way = (QUERY_SEGMENT, record.domain or NONE, record.group or NONE, record.id)
        path = (*way, *self._request.path)
        return self._parts.access.lets(self._peer, self._request.method, path)

    def _give_up(self) -> None:
        self._core.give_up()
        self._finish()

    def _finish(self) -> None:
        done = self._done
        self._end()
        if done is not None:
            body = encode(self._core.results(), self._request.path, self._form)
            form = (option_numbers.CONTENT_FORMAT, encode_uint(self._form))
            done(CoapResponse(codes.CONTENT, (form, (option_numbers.MAX_AGE, b"")), body))

    def _end(self) -> None:
        self._done = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ends, self._ends = self._ends, {}
        for end in ends.values():
            end()
