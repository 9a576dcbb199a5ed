"""Topics as a visitor of the page may see them: what is retained, what comes, and publishing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.base.in_turns import in_turns
from gateway.broker.outbound.message import Message
from gateway.mqtt import FilterError, PacketError, check_topic_filter
from gateway.mqtt.topic_rules import is_shared
from gateway.process.page.api_request import ApiRequest, Handlers
from gateway.process.page.topic_tap import KEPT_S, TopicTap, shown
from gateway.trust.policy.targets import is_readable
from gateway.web.api_error import ApiError
from tree_handler.entry import Entry
from tree_handler.rate_limit import RateLimit

if TYPE_CHECKING:
    from gateway.broker.data_plane import DataPlane
    from gateway.trust.policy.policy import Policy
    from gateway.trust.policy.principal import Principal

SHOWN_MAX: Final = 200
"""Retained messages that are shown."""
LOOKED_AT_MAX: Final = 1_000
"""Of those that match."""
PUBLISHES_PER_S: Final = 5.0
PUBLISHES_AT_ONCE: Final = 20
_RETAIN: Final = 4


class TopicApi:
    """Answers what is asked of topics.

    Args:
        core: the broker.
        tap: has messages as they come.
        policy: which topics somebody may use; None for all that clients may use at all.
        asks_plugins: whether plugins decide on topics besides, which know no visitors of the page.

    """

    def __init__(
        self, core: DataPlane, tap: TopicTap, policy: Policy | None, *, asks_plugins: bool
    ) -> None:
        self._core = core
        self._tap = tap
        self._policy = policy
        self._asks_plugins = asks_plugins
        self._publishes = RateLimit(PUBLISHES_PER_S, PUBLISHES_AT_ONCE)
        self._sweeping: asyncio.TimerHandle | None = None

    def follow(self, policy: Policy | None) -> None:
        """Go by another policy."""
        self._policy = policy

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {
            "retained": self.retained,
            "messages": self.messages,
            "publish": self.publish,
        }

    def may_publish(self, visitor: Principal) -> bool:
        """Return whether a visitor may publish to any topic at all; each is asked about again."""
        if self._asks_plugins:
            return False
        return self._policy is None or any(
            self._policy.rights(visitor).may_publish(topic) for topic in ("a", "a/b", "a/b/c")
        )

    async def retained(self, asked: ApiRequest) -> Any:
        """Tell what is retained, as far as the visitor may receive it."""
        topic_filter = self._filter(asked)
        may_receive = self._may_receive(asked.visitor)
        retained = self._core.retention.walk(topic_filter, LOOKED_AT_MAX + 1)
        matched, found = 0, dict[str, Message]()
        async for one in in_turns(retained):
            matched += one is not None
            if one is not None and matched <= LOOKED_AT_MAX and may_receive(one[0]):
                found[one[0]] = one[1]
        told: list[msgspec.Raw] = []
        async for topic in in_turns(sorted(found)[:SHOWN_MAX]):
            message = found[topic]
            row = shown(topic, message.qos | _RETAIN, message.payload)
            told.append(msgspec.Raw(msgspec.json.encode(row)))
        return {
            "messages": told,
            "has_more": matched > LOOKED_AT_MAX or len(found) > SHOWN_MAX,
        }

    async def messages(self, asked: ApiRequest) -> Any:
        """Tell what has come on topics that a filter matches since it was asked before."""
        topic_filter = self._filter(asked)
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        may_receive = self._may_receive(asked.visitor)
        look = self._tap.look(str(asked.visitor), topic_filter, may_receive, came.set, loop.time())
        if look is None:
            why = "too many filters are looked at; each ends a minute after its last request"
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, why)
        self._sweep_later()
        after = asked.query.get("after", look.number)
        if after > look.number:  # of a look that has ended meanwhile
            after = 0
        found = look.after(after)
        if not found and (wait_s := asked.query.get("wait_s", 0)):
            try:
                async with asyncio.timeout(wait_s):
                    await came.wait()
            except TimeoutError:
                pass
            found = look.after(after)
        found = [one for one in found if may_receive(one["topic"])]
        return {"messages": found, "after": look.number, "left_out": look.left_out}

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(KEPT_S, self._sweep)

    def _sweep(self) -> None:
        """End the looks that nobody asks for any more."""
        self._sweeping = None
        self._tap.expire(asyncio.get_running_loop().time())
        if len(self._tap):
            self._sweep_later()

    def stop(self) -> None:
        """Sweep no more."""
        if self._sweeping is not None:
            self._sweeping.cancel()

    async def publish(self, asked: ApiRequest) -> Any:
        """Publish at QoS 1, if the policy lets the visitor and that is not too often."""
        topic, who = asked.body["topic"], str(asked.visitor)
        if self._asks_plugins:
            raise ApiError(HTTPStatus.FORBIDDEN, _PLUGINS)
        if self._policy is not None:
            is_allowed = self._policy.rights(asked.visitor).may_publish(topic)
        else:
            is_allowed = not topic.startswith("$")
        if not is_allowed:
            raise ApiError(HTTPStatus.FORBIDDEN, f"the policy does not let {who} publish there")
        if not self._publishes.allow(who, asyncio.get_running_loop().time()):
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, "too many messages; wait a second")
        payload = asked.body["payload"].encode()
        entry = Entry(topic, payload, qos=1, retain=asked.body.get("retain", False))
        try:
            self._core.commit_queue.publish_own(Message.of(entry, self._core.now()))
        except PacketError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"topic: {error}") from error
        return {}

    def _filter(self, asked: ApiRequest) -> str:
        """Return the filter that is asked for, if the visitor may subscribe to it."""
        topic_filter: str = asked.query["filter"]
        try:
            check_topic_filter(topic_filter)
        except FilterError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"filter: {error}") from error
        if is_shared(topic_filter):
            raise ApiError(HTTPStatus.BAD_REQUEST, "filter: may not be shared")
        if self._asks_plugins:
            raise ApiError(HTTPStatus.FORBIDDEN, _PLUGINS)
        if self._policy is None:
            is_allowed = is_readable(topic_filter)
        else:
            is_allowed = self._policy.rights(asked.visitor).may_subscribe(topic_filter)
        if not is_allowed:
            why = f"the policy does not let {asked.visitor} subscribe to that filter"
            raise ApiError(HTTPStatus.FORBIDDEN, why)
        return topic_filter

    def _may_receive(self, visitor: Principal) -> Callable[[str], bool]:
        """Return what says whether a visitor may receive a topic, by the policy of that time."""

        def may_receive(topic: str) -> bool:
            policy = self._policy
            return (
                is_readable(topic) if policy is None else policy.rights(visitor).may_receive(topic)
            )

        return may_receive


_PLUGINS: Final = "plugins decide on topics here, and know clients of MQTT alone"
