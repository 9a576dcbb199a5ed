"""One MQTT client's protocol on amqtt, with the log in front of every acknowledgement.

amqtt acknowledges as soon as a message is queued for delivery. Here the message is handed to
the node first and the acknowledgement waits until it may leave. Topics that no client may
publish to are left to amqtt, which closes the connection, and are never logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from amqtt.contexts import Action
from amqtt.mqtt.constants import QOS_1, QOS_2
from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler
from amqtt.session import INCOMING, ApplicationMessage, Session

from tree_handler.batch import Entry

Accept = Callable[[Entry], asyncio.Future[None] | None]
"""Takes a message into the log and the tree; the future completes when it may be acknowledged."""
MayPublish = Callable[[Session, str, Action], Awaitable[bool]]

MAX_PAYLOAD_BYTES = 1 << 20
"""A publisher of more is disconnected, before anything is logged."""

_log = logging.getLogger(__name__)


class LoggedProtocolHandler(BrokerProtocolHandler):  # type: ignore[misc]  # amqtt is untyped here
    """amqtt's handler; `accept` and `may_publish` are set by the broker that makes it."""

    accept: Accept
    may_publish: MayPublish

    async def _handle_qos0_message_flow(self, app_message: ApplicationMessage) -> None:
        if app_message.direction == INCOMING:
            await self._accept(app_message)
        await super()._handle_qos0_message_flow(app_message)

    async def _handle_qos1_message_flow(self, app_message: ApplicationMessage) -> None:
        if app_message.direction == INCOMING and not await self._accept(app_message):
            return
        await super()._handle_qos1_message_flow(app_message)

    async def _handle_qos2_message_flow(self, app_message: ApplicationMessage) -> None:
        # A PUBLISH sent again before its PUBREL is the same message (MQTT-4.3.3-2).
        again = self.session is not None and app_message.packet_id in self.session.inflight_in
        if app_message.direction == INCOMING and not again and not await self._accept(app_message):
            return
        await super()._handle_qos2_message_flow(app_message)

    async def _accept(self, message: ApplicationMessage) -> bool:
        """Whether the message may be acknowledged; if the log refuses it the client is dropped."""
        if len(message.data) > MAX_PAYLOAD_BYTES:
            _log.warning("%s: payload of %d bytes", self.session.client_id, len(message.data))
            await self.handle_connection_closed()
            return False
        if not await self._is_for_the_log(message):
            return True
        retain = bool(message.publish_packet.retain_flag)
        entry = Entry(message.topic, bytes(message.data), message.qos or 0, retain)
        acknowledgement = self.accept(entry)
        if acknowledgement is None:
            return True
        try:
            await acknowledgement
        except OSError as error:
            _log.error("not acknowledged to %s: %s", self.session.client_id, error)
            await self.handle_connection_closed()
            return False
        return True

    async def _is_for_the_log(self, message: ApplicationMessage) -> bool:
        """False for what amqtt will refuse or drop by itself."""
        topic = message.topic
        if not topic or topic[0] == "$" or "+" in topic or "#" in topic:
            return False
        if message.qos not in (QOS_1, QOS_2) and message.publish_packet.dup_flag:
            return False  # MQTT-3.3.1-2
        # Not permitted: acknowledged and dropped, as MQTT 3.1.1 allows (MQTT-3.3.5-2).
        return await self.may_publish(self.session, topic, Action.PUBLISH)
