"""Topic aliases that a client of MQTT 5.0 sets (section 3.3.2.3.4)."""

from __future__ import annotations

from gateway.mqtt import PacketError, ReasonCode


class IncomingAliases:
    """The topic aliases of a client; they live as long as the connection [MQTT-3.3.2-7]."""

    __slots__ = ("_limit", "_topics")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._topics: dict[int, bytes] = {}

    def topic(self, alias: int, topic: bytes) -> bytes:
        """Return the topic that a PUBLISH with this alias is for; a non-empty one sets the alias.

        Raises:
            PacketError: an alias over the limit or one that was never set.

        """
        if not 0 < alias <= self._limit:
            raise PacketError(ReasonCode.TOPIC_ALIAS_INVALID, "topic alias", alias, "MQTT-3.3.2-9")
        if topic:
            self._topics[alias] = topic
            return topic
        try:
            return self._topics[alias]
        except KeyError:
            raise PacketError(
                ReasonCode.PROTOCOL_ERROR, "topic alias that was never set", alias
            ) from None
