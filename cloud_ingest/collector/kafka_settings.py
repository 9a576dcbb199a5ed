"""The configuration of a collector that reads topics of Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cloud_ingest.collector.kafka_batches import MAX_ORIGIN_BYTES, origin_of
from cloud_ingest.collector.settings import ClientAccess, OriginSection, spool_log
from gateway.base.toml import checks
from gateway.base.toml.toml_file import Fault, hold
from gateway.process.configuration.config import ConfigError, LogSection

KAFKA_PASSWORD = "hedgerow-kafka-password"  # noqa: S105  # a credential's name
MOST_PARTITIONS = 999_999
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class KafkaSection(ClientAccess):
    """The Kafka cluster, the topics that are collected from it, and the account.

    The collector's id names the cluster in origins. A topic of which the spool has nothing is read
    from its ``start``. With ``key_in_topic`` a message stands under its topic and its key. With
    ``ca_file`` the connection is in TLS; ``password_file`` has the password in its first line;
    systemd's credential ``hedgerow-kafka-password`` serves as well.
    """

    servers: list[str]
    topics: list[str]
    start: str = checks.chosen("earliest", "earliest", "latest")
    key_in_topic: bool = False
    consumer_group: str = ""
    sasl: str = checks.chosen("SCRAM-SHA-512", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from checks.marked(self)
        if not self.servers:
            yield Fault("servers", "names no server")
        for number, server in enumerate(self.servers):
            yield from checks.host_and_port(f"servers[{number}]", server)
        if not self.topics:
            yield Fault("topics", "names no topic")
        for number, topic in enumerate(self.topics):
            if _TOPIC.fullmatch(topic) is None or topic in self.topics[:number]:
                yield Fault(f"topics[{number}]", f"{topic!r} is no topic, or stands there twice")
        yield from self.access_faults()


@dataclass(frozen=True, slots=True)
class KafkaCollectorSettings:
    """The whole configuration."""

    collector: OriginSection
    kafka: KafkaSection
    log: LogSection = field(default_factory=spool_log)

    def __post_init__(self) -> None:
        for number, topic in enumerate(self.kafka.topics):
            if len(origin_of(self.collector.id, topic, MOST_PARTITIONS)) > MAX_ORIGIN_BYTES:
                raise ConfigError(f"kafka.topics[{number}]", f"{topic!r} is too long")

    def client(self) -> dict[str, Any]:
        """Return how `confluent_kafka.Consumer` is configured; files are read now.

        Raises:
            ConfigError: the password can't be had.

        """
        own = self.kafka
        found: dict[str, Any] = {
            "bootstrap.servers": ",".join(own.servers),
            "client.id": self.collector.id,
            "group.id": own.consumer_group or self.collector.id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",  # the spool says where to read
            "isolation.level": "read_committed",
            "security.protocol": self._protocol,
        }
        if own.ca_file is not None:
            found["ssl.ca.location"] = str(own.ca_file)
        if own.certificate_file is not None:
            found["ssl.certificate.location"] = str(own.certificate_file)
            found["ssl.key.location"] = str(own.key_file)
        if own.user:
            password = own.password("kafka", KAFKA_PASSWORD)
            found |= {
                "sasl.mechanism": own.sasl,
                "sasl.username": own.user,
                "sasl.password": "" if password is None else password.decode(),
            }
        return found

    @property
    def _protocol(self) -> str:
        layer = "SSL" if self.kafka.ca_file is not None else "PLAINTEXT"
        return f"SASL_{layer}" if self.kafka.user else layer
