"""Questions to a cluster about its topics; each call waits for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent import futures
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

ANSWER_S: Final = 10.0
ID_ANSWER_S: Final = 5.0

_log = logging.getLogger(__name__)


def partitions_of(consumer: Consumer, topic: str) -> list[int]:
    """Return the partitions of a topic.

    Raises:
        KafkaException: nobody answers, or there is no such topic.

    """
    found = consumer.list_topics(topic, timeout=ANSWER_S).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    return sorted(found.partitions)


def described(client: Mapping[str, Any], topic: str) -> str:
    """Return the id of a topic; empty if the cluster does not say one (before Kafka 2.8)."""
    own = {key: value for key, value in client.items() if not key.startswith(_OF_CONSUMERS)}
    try:
        admin = AdminClient(own)  # it has to outlive the answer
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=ID_ANSWER_S)
        return str(asked[topic].result(ID_ANSWER_S + 1).topic_id)
    except (KafkaException, futures.TimeoutError) as error:
        _log.info("kafka: no id of topic %s: %s", topic, str(error) or "no answer")
        return ""


_OF_CONSUMERS: Final = ("group.id", "enable.auto", "auto.offset", "isolation")
