"""Rules for topic names and topic filters (MQTT 5.0, sections 4.7 and 4.8.2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gateway.mqtt.errors import PacketError, malformed
from gateway.mqtt.primitives import MAX_FIELD_BYTES
from gateway.mqtt.reason_codes import ReasonCode

SHARE_PREFIX: Final = "$share/"
"""The beginning of the filter of a shared subscription [MQTT-4.8.2-1]."""

# Control characters may be refused (section 1.5.4). In topics they are: they forge lines in
# logs and can't be told apart on a screen.
_CONTROL: Final = re.compile("[\x01-\x1f\x7f-\x9f]")
_NOT_IN_NAME: Final = re.compile("[\0-\x1f\x7f-\x9f+#]")

_Refusal = Callable[[str, str | bytes | int, str], PacketError]


class FilterError(PacketError):
    """A topic filter is malformed."""

    def __init__(self, what: str, value: str | bytes | int, statement: str = "") -> None:
        super().__init__(ReasonCode.MALFORMED_PACKET, what, value, statement)


def check_topic_name(topic: bytes | str) -> str:
    """Return the topic name, if it is one.

    Raises:
        PacketError: empty [MQTT-4.7.3-1], not UTF-8, U+0000 [MQTT-4.7.3-2], longer than 65,535
            bytes [MQTT-4.7.3-3], a wildcard [MQTT-4.7.0-1] or another control character.

    """
    text = _text("topic name", topic, malformed)
    if _NOT_IN_NAME.search(text) is not None:
        raise _refused_name(text)
    if not text:
        raise malformed("topic name is empty", statement="MQTT-4.7.3-1")
    return text


def check_topic_filter(topic_filter: bytes | str) -> str:
    """Return the topic filter, if it is one; that of a shared subscription is checked as such.

    Raises:
        FilterError: as for a topic name, but wildcards may stand where sections 4.7.1
            and 4.8.2 allow them.

    """
    text = _text("topic filter", topic_filter, FilterError)
    if not text:
        raise FilterError("topic filter is empty", text, "MQTT-4.7.3-1")
    if "\0" in text:
        raise FilterError("topic filter has a null character", text, "MQTT-4.7.3-2")
    if _CONTROL.search(text) is not None:
        raise FilterError("topic filter has a control character", text)
    levels = text.split("/")
    if text.startswith(SHARE_PREFIX):
        share_name, levels = levels[1], levels[2:]
        if not share_name:
            raise FilterError("share name is empty", text, "MQTT-4.8.2-1")
        if "+" in share_name or "#" in share_name:
            raise FilterError("share name has a wildcard", text, "MQTT-4.8.2-2")
        if not levels or levels == [""]:
            raise FilterError("shared subscription without a filter", text, "MQTT-4.8.2-2")
    _check_wildcards(text, levels)
    return text


def is_shared(topic_filter: str) -> bool:
    """Return whether it is the filter of a shared subscription (section 4.8.2)."""
    return topic_filter.startswith(SHARE_PREFIX)


def _check_wildcards(text: str, levels: list[str]) -> None:
    last = len(levels) - 1
    for i, level in enumerate(levels):
        if "#" in level and (level != "#" or i != last):
            raise FilterError("# is not the last level of its own", text, "MQTT-4.7.1-1")
        if "+" in level and level != "+":
            raise FilterError("+ is not a whole level", text, "MQTT-4.7.1-2")


def _text(what: str, topic: bytes | str, refusal: _Refusal) -> str:
    try:
        encoded, text = (
            (topic.encode(), topic) if isinstance(topic, str) else (topic, topic.decode())
        )
    except UnicodeError:
        raise refusal(f"{what} is not UTF-8", topic, "MQTT-1.5.4-1") from None
    if len(encoded) > MAX_FIELD_BYTES:
        raise refusal(f"{what} too long, bytes", len(encoded), "MQTT-4.7.3-3")
    return text


def _refused_name(text: str) -> PacketError:
    if "+" in text or "#" in text:
        return malformed("topic name has a wildcard", text, "MQTT-4.7.0-1")
    if "\0" in text:
        return malformed("topic name has a null character", text, "MQTT-4.7.3-2")
    return malformed("topic name has a control character", text)
