"""Rights of a collector between gateways: who it is, and what it is to be sent.

A collector's certificate has the role ``collector`` and not ``gateway``. It only receives. What its
key proves is stated here and where the proofs are (`tree_handler.proof.KeyRing.only_receives`): no
messages of clients, no retained ones, no requests for resources, no member, no member of a shared
subscription, and no word about others.
"""

from __future__ import annotations

from typing import Final

from gateway.node.signing.topics import ANSWER_LIFE, ASK_LIFE
from tree_handler.batch import Entry
from tree_handler.errors import ProtocolError
from tree_handler.replication.epoch_order import TOPIC as EPOCHS_TOPIC
from tree_handler.routing.interest import TOPIC as INTEREST_TOPIC
from tree_handler.routing.interest import Interest

MAY_SAY: Final = (ASK_LIFE, ANSWER_LIFE, INTEREST_TOPIC, EPOCHS_TOPIC)
"""The topics, by their beginnings, of what it says to all gateways."""


def check(entry: Entry) -> None:
    """Refuse a message between gateways that no collector has to say.

    Args:
        entry: what a collector signed.

    Raises:
        ProtocolError: it is none of `MAY_SAY`, or says of the collector that it publishes, or that
            others are reached over it.

    """
    if not entry.topic.startswith(MAY_SAY):
        raise ProtocolError(
            "record that a collector may not send, which only receives", entry.topic
        )
    if entry.topic.startswith(INTEREST_TOPIC):
        record = Interest.decode(entry.payload)
        if record.transit or record.publishes:
            raise ProtocolError("collector that says that it does more than receive", record)
