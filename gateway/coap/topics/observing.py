"""Observations over topics (RFC 7641): the shell around `shared_observations`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from gateway.base.due_timer import DueTimer
from gateway.broker.hooks import Client
from gateway.coap.topics.asker import TopicAsker
from gateway.coap.topics.shared_observations import ObservationKey, SharedObservations
from gateway.coap.topics.topics import CoapTopicError, target
from gateway.mqtt import ReasonCode

OnNotification = Callable[[Client, str, CoapResponse], None]
"""Takes a client, the topic that it has subscribed to, and what is to be told of it."""


class TopicObservations:
    """Has resources observed for clients.

    Args:
        asker: asks for clients.
        tell: takes what they are to be told.
        ended: is told of a client's topic that it may no longer observe.

    """

    def __init__(
        self, asker: TopicAsker, tell: OnNotification, ended: Callable[[Client, str], None]
    ) -> None:
        self.core: SharedObservations[Client] = SharedObservations()
        self._asker = asker
        self._tell = tell
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._keys: dict[tuple[Client, str], ObservationKey] = {}
        self._ends: dict[int, Callable[[], None]] = {}
        loop, core = self._loop, self.core
        self._timer = DueTimer(loop, loop.time, core.next_timer, self._handle_timer)

    def __len__(self) -> int:
        """Return how many observations are under way, for all who share one."""
        return len(self._ends)

    def why_not(self, client: Client, topic: str) -> int:
        """Return why a client may not observe what a topic names; 0 if it may."""
        request = self._request(topic)
        if isinstance(request, CoapResponse):
            return ReasonCode.TOPIC_FILTER_INVALID
        refused = self._asker.refusal(request, self._asker.peer(client))
        return ReasonCode.SUCCESS if refused is None else ReasonCode.NOT_AUTHORIZED

    def add(self, client: Client, topic: str) -> None:
        """A client observes; it is told in later turns. If it does already, it is told anew."""
        peer = self._asker.peer(client)
        key = self._keys.setdefault((client, topic), ObservationKey(topic, peer.address))
        last = self.core.last(key)
        number = self.core.add(key, client)
        if number is not None:
            self._begin(number, topic, peer)
        elif last is not None:
            self._asker.soon(partial(self._tell, client, topic), last)

    def remove(self, client: Client, topic: str) -> None:
        """A client observes no more; with the last one an observation ends."""
        key = self._keys.pop((client, topic), None)
        number = None if key is None else self.core.remove(key, client)
        end = None if number is None else self._ends.pop(number, None)
        if end is not None:
            end()

    def revise(self) -> None:
        """The policy is another one: who may no longer observe is told so, once."""
        for (client, topic), key in list(self._keys.items()):
            peer, request = self._asker.peer(client), self._request(topic)
            if isinstance(request, CoapResponse):  # its gateway has gone: that is told by itself
                continue
            refused = self._asker.refusal(request, peer)
            if refused is not None:
                self.remove(client, topic)
                self._tell(client, topic, refused)
                self._ended(client, topic)
            elif peer.address != key.who:
                self.remove(client, topic)
                self.add(client, topic)

    def stop(self) -> None:
        """Observe nothing any more."""
        for client, topic in list(self._keys):
            self.remove(client, topic)
        self._timer.stop()

    def _request(self, topic: str) -> CoapRequest | CoapResponse:
        try:
            return self._asker.request(target(topic), [], b"", observe=True)
        except CoapTopicError as wrong:
            return CoapResponse(codes.BAD_REQUEST, (), str(wrong).encode())

    def _begin(self, number: int, topic: str, peer: CoapPeer) -> None:
        request = self._request(topic)
        if isinstance(request, CoapResponse):
            self._asker.soon(partial(self._told, number, is_last=True), request)
        else:
            told = partial(self._heard, number)
            self._ends[number] = self._asker.ask(request, peer, told)

    def _heard(self, number: int, response: CoapResponse, is_last: bool) -> None:
        self._told(number, response, is_last=is_last)

    def _told(self, number: int, response: CoapResponse, *, is_last: bool) -> None:
        if is_last:
            self._ends.pop(number, None)
        now_s = self._loop.time()
        topic, clients = self.core.told(number, response, now_s, is_last=is_last)
        for client in clients:
            self._tell(client, topic, response)
        if is_last:  # to look at what is due takes the longer the more are observed
            self._timer.set()

    def _handle_timer(self, now_s: float) -> None:
        for number, key, client in self.core.handle_timer(now_s):
            self._begin(number, key.topic, self._asker.peer(client))
