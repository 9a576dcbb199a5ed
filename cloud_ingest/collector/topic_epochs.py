"""Epochs of topics: a topic that is made anew begins its offsets anew.

A file in the spool's folder holds, by topic, its epoch and the id that Kafka gave it. The epoch is
made of the id, so that without the file it is the same; where a cluster tells no ids it is 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from gateway.base import replaced_file

FILE_NAME: Final = "topics"
WITHOUT_ID: Final = 1
REMEDY: Final = (
    "it is damaged. Where the cluster tells ids of topics (Kafka 2.8 and later), move it away: it "
    "is made again of them"
)
"""The remedy for a file that can't be read."""


class KnownTopic(msgspec.Struct, frozen=True):
    """A topic: its epoch, its id if it is known, and the offset at which each partition of it was
    begun that the spool may have nothing of."""

    epoch: int
    id: str = ""
    begins: dict[int, int] = {}


def read(folder: Path) -> dict[str, KnownTopic]:
    """Return what is known of topics, by name.

    Raises:
        ValueError: the file is not one of ours; what it said can't be guessed.

    """
    path = folder / FILE_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, KnownTopic])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}: {REMEDY}") from error


def write(folder: Path, topics: Mapping[str, KnownTopic]) -> None:
    """Keep it.

    Raises:
        OSError: the file can't be written.

    """
    # What it says can't be guessed: a power cut must not leave it empty.
    data = msgspec.json.encode(dict(topics))
    replaced_file.replace(folder / FILE_NAME, data, is_durable=True)


def known(before: KnownTopic | None, topic_id: str) -> KnownTopic:
    """Return what a topic is now.

    Args:
        before: what was known of one of this name.
        topic_id: as the cluster says; empty where it says none.

    """
    if before is None:
        return KnownTopic(_epoch(topic_id), topic_id)
    if not topic_id or topic_id == before.id:
        return before
    if not before.id:  # the cluster says ids now
        return KnownTopic(before.epoch, topic_id, before.begins)
    return KnownTopic(_epoch(topic_id), topic_id)


def _epoch(topic_id: str) -> int:
    if not topic_id:
        return WITHOUT_ID
    digest = hashlib.blake2b(topic_id.encode(), digest_size=4).digest()
    return max(WITHOUT_ID + 1, int.from_bytes(digest))
