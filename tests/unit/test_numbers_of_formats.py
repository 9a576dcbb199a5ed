"""Numbers that stand on a disk or on the wire stay as they are: another release has written them.

Who writes and who reads use one name here, so nothing else notices that a number moves.
"""

from __future__ import annotations

import enum
import importlib
from typing import Any

import pytest

ENUMS: dict[str, dict[str, int]] = {
    "gateway.broker.durability.journal:Event": {
        "OPENED": 0,
        "ENDED": 1,
        "SUBSCRIBED": 2,
        "UNSUBSCRIBED": 3,
        "DELIVERED": 4,
        "SHARED": 5,
        "RETAINED": 6,
        "LEARNT": 7,
        "WILL": 8,
        "WILL_ENDED": 9,
        "AWAY": 10,
        "CLOCK": 11,
        "OWED": 12,
    },
    "gateway.broker.durability.journal:Operation": {
        "SENT": 0,
        "PUBACK": 1,
        "PUBREC": 2,
        "REFUSED": 3,
        "PUBCOMP": 4,
        "RELEASED": 5,
        "INHERITS": 6,
        "LEAVES": 7,
        "TAKEN": 8,
    },
    "gateway.node.links.refusal:Refusal": {
        "NOT_AUTHORIZED": 5,
        "OTHER_TREE": 0x80,
        "OTHER_KEY": 0x81,
        "OTHER_MODE": 0x82,
        "OTHER_CERTIFICATE": 0x83,
        "DUPLICATE": 0x84,
        "OTHER_LIFE": 0x85,
    },
    "gateway.node.signing.certificate_part:CertificateKind": {
        "HAVE": 0,
        "WANT": 1,
        "WANT_OF": 2,
        "CHAINS": 3,
        "FORMER": 4,
    },
    "gateway.node.signing.revocation_part:RevocationKind": {"HAVE": 0, "WANT": 1, "LIST": 2},
    "tree_handler.retained.sync_wire:SyncKind": {"ROOT": 0, "DIGEST": 1, "ASK": 2, "ANSWER": 3},
    "tree_handler.spanning.bpdu:BpduFlags": {"TRANSIT": 1, "SEEKING": 2, "AGREEMENT": 4},
    "tree_handler.spanning.bpdu:Kind": {
        "HELLO": 1,
        "JOIN": 2,
        "ACCEPT": 3,
        "REFUSE": 4,
        "LEAVE": 5,
        "SEQUENCE_REQUEST": 6,
    },
}
NAMED: dict[str, int] = {
    "cloud_ingest.fleet.state:VERSION": 1,
    "cloud_ingest.ledger.number_ledger:VERSION": 2,
    "gateway.broker.durability.tables:FORMAT": 1,
    "gateway.log.trimmed:VERSION": 1,
    "gateway.node.links.handshake:NONCE_BYTES": 16,
    "gateway.node.links.routed_file:VERSION": 2,
    "gateway.node.links.send_times:STAMP_BYTES": 8,
    "gateway.node.links.wire:Additions.CLOCKS": 1,
    "gateway.process.state_folder.state_format:WRITTEN": 1,
    "record_formats.record:VERSION": 2,
    "record_formats.status_record:VERSION": 1,
    "tree_handler.batch:VERSION": 1,
    "tree_handler.discovery:MAC_BYTES": 32,
    "tree_handler.discovery:VERSION": 1,
    "tree_handler.flags:ADDRESS_BYTES": 32,
    "tree_handler.flags:Flags.ADDRESSED": 64,
    "tree_handler.flags:Flags.CONTROL": 2,
    "tree_handler.flags:Flags.LOCAL": 4,
    "tree_handler.flags:Flags.LOGGED": 1,
    "tree_handler.flags:Flags.LOST": 16,
    "tree_handler.flags:Flags.PASSED": 8,
    "tree_handler.flags:Flags.SEALED": 32,
    "tree_handler.overlays.wire:VERSION": 1,
    "tree_handler.remote.options:REQUEST_ID": 65_001,
    "tree_handler.remote.request_ids:NOTE_BYTES": 16,
    "tree_handler.replication.epoch_order:NUMBERED_AS": 1,
    "tree_handler.replication.epochs_over:NUMBERED_AS": 2,
    "tree_handler.retained.message:VERSION": -1,
    "tree_handler.retained.proof:GROUP": 16,
    "tree_handler.retained.proof:HASH_BYTES": 24,
    "tree_handler.retained.versions:BUCKETS": 256,
    "tree_handler.sharing.claims:DURABLE": 2,
    "tree_handler.sharing.claims:ONLINE": 1,
    "tree_handler.spanning.bpdu:VERSION": 1,
}


def found(place: str) -> Any:
    module, _, name = place.partition(":")
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("place", sorted(ENUMS))
def test_a_kind_keeps_its_number_and_a_new_one_is_written_down_here(place: str) -> None:
    kinds: type[enum.IntEnum] = found(place)
    assert {kind.name: kind.value for kind in kinds} == ENUMS[place]


@pytest.mark.parametrize("place", sorted(NAMED))
def test_a_version_a_flag_or_a_length_in_a_format_keeps_its_number(place: str) -> None:
    assert found(place) == NAMED[place]
