"""Choice of the rule that reads a message: the first whose topic fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from cloud_ingest.mapping.births import Births, MessageStamp
from cloud_ingest.mapping.json_documents import JsonReader
from cloud_ingest.mapping.rules import (
    TOPIC,
    JsonRule,
    MappingRule,
    RawRule,
    SenmlRule,
    TextRule,
)
from cloud_ingest.mapping.simple_forms import RawReader, SenmlReader, TextReader
from cloud_ingest.mapping.topics import TopicFilter
from cloud_ingest.measurements import Measurement

KEPT_TOPICS: Final = 10_000
"""Topics whose rule is remembered; of more, all are looked up anew."""
NOBODY: Final = MessageStamp("", 0, 0)
"""Of a message of which nothing else is known."""


class MessageReader(Protocol):
    """A reader of messages by one rule."""

    def read(
        self, topic: str, payload: bytes, parts: Mapping[str, str], sender: MessageStamp
    ) -> list[Measurement]:
        """Read a message: at least one measurement.

        Args:
            topic: its topic.
            payload: its payload.
            parts: what names stand for in templates.
            sender: whose it is.

        Raises:
            RecordError: it can't be read.

        """
        ...


class Mappings:
    """The rules of a file, ready to read by.

    Args:
        rules: in their order.
        births: what aliases of Sparkplug stand for.

    """

    def __init__(self, rules: Sequence[MappingRule], births: Births | None = None) -> None:
        born = births or Births()
        self._rules = [(TopicFilter(rule.topic), _reader(rule, born)) for rule in rules]
        self._decided: dict[str, tuple[MessageReader, Mapping[str, str]] | None] = {}

    def read(
        self, topic: str, payload: bytes, sender: MessageStamp = NOBODY
    ) -> list[Measurement] | None:
        """Read a message by the first rule that fits; None if none does.

        Raises:
            RecordError: one does, and the message can't be read by it.

        """
        try:
            decided = self._decided[topic]
        except KeyError:
            if len(self._decided) >= KEPT_TOPICS:
                self._decided.clear()
            decided = self._decided[topic] = self._decide(topic)
        if decided is None:
            return None
        reader, parts = decided
        return reader.read(topic, payload, parts, sender)

    def _decide(self, topic: str) -> tuple[MessageReader, Mapping[str, str]] | None:
        for each, reader in self._rules:
            parts = each.match(topic)
            if parts is not None:
                return reader, {**parts, TOPIC: topic}
        return None


def _reader(rule: MappingRule, births: Births) -> MessageReader:
    match rule:
        case JsonRule():
            return JsonReader(rule)
        case TextRule():
            return TextReader(rule)
        case RawRule():
            return RawReader(rule)
        case SenmlRule():
            return SenmlReader(rule)
    from cloud_ingest.mapping.sparkplug import (  # noqa: PLC0415  # other rules need no protobuf
        SparkplugReader,
    )

    return SparkplugReader(rule, births)
