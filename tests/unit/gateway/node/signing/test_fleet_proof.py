"""The signatures of a gateway as a whole: whom it tells what, and what it says without any."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgpack
import pytest
from authority import Authority
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.node.links.node import TreeNode
from gateway.node.links.part import Part
from gateway.node.signing.certificate_part import CertificateKind
from gateway.node.signing.fleet_keys import SigningFiles
from gateway.node.signing.fleet_proof import FleetProof
from gateway.node.signing.own import OwnKey
from gateway.node.signing.quarantine import FOLDER
from gateway.node.signing.revocation_part import RevocationKind
from gateway.node.signing.revoking import Revoking
from gateway.node.signing.topics import ANSWER_LIFE, ASK_LIFE, CERTIFICATES, REVOCATIONS
from gateway.node.signing.trust import Trust
from gateway.trust.credentials.crl import name_of
from tree_handler.batch import Entry, Flags, Header
from tree_handler.proof import Verdict
from tree_handler.replication.actions import Refuse
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.retained.sync_state import RefusedRetained


class BareNode:
    """A node as the parts on its links see it, without a connection."""

    def __init__(self) -> None:
        self.parts: dict[bytes, Part] = {}
        self.sent: list[tuple[int, bytes, Any]] = []
        self.published: list[Entry] = []
        self.links: dict[int, object] = {}
        self.exchange = SimpleNamespace(take=lambda actions: None)
        self.replication = SimpleNamespace(
            repair=SimpleNamespace(ask_anew=lambda now: ()),
        )

    def add_part(self, part: Part) -> None:
        self.parts.update(dict.fromkeys(part.topics, part))

    def send(self, link: int, topic: bytes, payload: bytes) -> None:
        self.sent.append((link, topic, msgpack.unpackb(payload)))

    def publish(self, entry: Entry, *, control: bool) -> None:
        assert control
        self.published.append(entry)

    def link_up(self, link: int, peer_id: str) -> None:
        self.links[link] = None
        for part in self.parts.values():
            part.link_up(link, peer_id, 0.0)
        self.sent.clear()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def node() -> BareNode:
    return BareNode()


def files(authority: Authority, name: str) -> SigningFiles:
    issued = authority.issue(name, is_gateway=True)
    return SigningFiles(OwnKey.read(issued.certificate, issued.key), Trust([authority.x509]))


def ride(proof: FleetProof, node: BareNode, authority: Authority) -> None:
    proof.ride_on(cast(TreeNode, node), "gw-a", 5, Revoking((authority.x509,)))
    node.link_up(1, "gw-b")
    node.link_up(2, "gw-c")


def hands_over(node: BareNode, authority: Authority, number: int, *, link: int = 1) -> None:
    """A neighbour tells of a revocation list of this number, is asked for it, and gives it."""
    crl = x509.load_pem_x509_crl(authority.revoke(number=number))
    name, part = name_of(authority.x509), node.parts[REVOCATIONS]
    for kind, row in (
        (RevocationKind.HAVE, [name, bytes([number]), int(crl.last_update_utc.timestamp())]),
        (RevocationKind.LIST, [name, crl.public_bytes(Encoding.DER)]),
    ):
        part.receive(link, REVOCATIONS, msgpack.packb((int(kind), [row])), 0.0)


async def test_who_asks_is_told_of_each_neighbour_whose_revocation_list_was_new(
    tmp_path: Path, authority: Authority, node: BareNode
) -> None:
    proof, told = FleetProof(None, tmp_path, "hedgerow"), list[str]()
    ride(proof, node, authority)
    proof.tells_of_revocations(told.append)
    assert told == []
    hands_over(node, authority, 1)
    assert told == ["gw-b"]
    hands_over(node, authority, 1, link=2)  # it is not new any more
    assert told == ["gw-b"]
    hands_over(node, authority, 2, link=2)
    assert told == ["gw-b", "gw-c"]


async def test_who_asks_later_is_told_of_the_last_neighbour_whose_list_was_new(
    tmp_path: Path, authority: Authority, node: BareNode
) -> None:
    proof, told = FleetProof(None, tmp_path, "hedgerow"), list[str]()
    ride(proof, node, authority)
    hands_over(node, authority, 1)
    hands_over(node, authority, 2, link=2)
    proof.tells_of_revocations(told.append)
    assert told == ["gw-c"]


def refused_batch(verdict: Verdict, link: int | None, origin: str = "gw-x") -> Refuse:
    return Refuse(b"frame", Header(origin, 1, 1, 1, Flags.LOGGED, 0, 0, 0), link, verdict)


def refused_retained(verdict: Verdict, link: int) -> RefusedRetained:
    told = Retained("a/b", RetainedVersion(1, 0, "gw-y", 1), 1, 1, b"on", {})
    return RefusedRetained(link, told, verdict)


async def test_who_hands_over_what_nobody_known_signed_is_asked_for_the_certificates_of_its_origin(
    tmp_path: Path, authority: Authority, node: BareNode
) -> None:
    proof = FleetProof(files(authority, "gw-a"), tmp_path, "hedgerow")
    ride(proof, node, authority)
    proof.unproven(refused_batch(Verdict.FORGED, 1), "gw-b")
    proof.unproven(refused_batch(Verdict.UNKNOWN, None), "?")
    proof.unproven_retained(refused_retained(Verdict.UNSIGNED, 2), "gw-c")
    assert node.sent == []
    proof.unproven(refused_batch(Verdict.UNKNOWN, 1), "gw-b")
    proof.unproven_retained(refused_retained(Verdict.UNKNOWN, 2), "gw-c")
    want_of = int(CertificateKind.WANT_OF)
    assert node.sent == [
        (1, CERTIFICATES, [want_of, ["gw-x"]]),
        (2, CERTIFICATES, [want_of, ["gw-y"]]),
    ]
    assert len(list((tmp_path / FOLDER).iterdir())) == 5


async def test_without_signatures_nothing_is_signed_and_nobody_is_asked(
    tmp_path: Path, authority: Authority, node: BareNode
) -> None:
    proof = FleetProof(None, tmp_path, "hedgerow")
    assert (proof.keys, proof.seals, proof.remote_seals) == (None, None, None)
    ride(proof, node, authority)
    node.parts[CERTIFICATES].receive(1, CERTIFICATES, b"of a release that signs", 0.0)
    proof.unproven(refused_batch(Verdict.UNKNOWN, 1), "gw-b")
    proof.unproven_retained(refused_retained(Verdict.UNKNOWN, 2), "gw-c")
    assert node.sent == []
    assert proof.is_there("gw-x", 1)
    proof.receive(Entry("t", b""), Header("gw-x", 1, 1, 1, Flags.CONTROL, 0, 0, 0))
    assert "gw-x" not in proof
    assert not proof.only_receives("gw-x")
    assert node.published == []
    proof.renew(None, Revoking())
    proof.close()


async def test_a_life_of_another_gateway_is_asked_and_this_one_answers_for_its_own(
    tmp_path: Path, authority: Authority, node: BareNode
) -> None:
    proof = FleetProof(files(authority, "gw-a"), tmp_path, "hedgerow")
    ride(proof, node, authority)
    assert proof.is_there("gw-x", 7)
    (asked,) = node.published
    assert asked.topic == f"{ASK_LIFE}gw-x"
    ask = Entry(f"{ASK_LIFE}gw-a", msgpack.packb((5, bytes(16))))
    proof.receive(ask, Header("gw-x", 7, 1, 1, Flags.CONTROL, 0, 0, 0))
    assert node.published[1:] == [Entry(f"{ANSWER_LIFE}gw-x", ask.payload)]


async def test_the_gateways_that_have_shown_a_certificate_are_known_and_so_are_collectors(
    tmp_path: Path, authority: Authority, node: BareNode
) -> None:
    proof = FleetProof(files(authority, "gw-a"), tmp_path, "hedgerow")
    assert proof.keys is not None
    collector = authority.issue("store", is_collector=True)
    proof.keys.ring.add((collector.der,))
    assert "store" in proof and proof.only_receives("store")
    assert "gw-a" in proof and not proof.only_receives("gw-a")
    assert "gw-x" not in proof and not proof.only_receives("gw-x")
    assert 7 not in proof


async def test_new_files_are_told_to_neighbours_and_what_is_known_is_kept(
    tmp_path: Path, authority: Authority, node: BareNode
) -> None:
    proof = FleetProof(files(authority, "gw-a"), tmp_path, "hedgerow")
    ride(proof, node, authority)
    proof.renew(None, Revoking((authority.x509,)))
    assert node.sent == []
    renewed = files(authority, "gw-a")
    crl = x509.load_pem_x509_crl(authority.revoke(number=1))
    proof.renew(renewed, Revoking((authority.x509,), (crl,)))
    told = [(link, topic, rows[0]) for link, topic, rows in node.sent]
    have, chains = int(CertificateKind.HAVE), int(CertificateKind.CHAINS)
    of_lists = int(RevocationKind.HAVE)
    assert told == [
        (1, REVOCATIONS, of_lists),
        (2, REVOCATIONS, of_lists),
        (1, CERTIFICATES, chains),
        (1, CERTIFICATES, have),
        (2, CERTIFICATES, chains),
        (2, CERTIFICATES, have),
    ]
    assert proof.keys is not None
    proof.keys.ring.add((authority.issue("gw-x", is_gateway=True).der,))
    proof.close()
    again = FleetProof(renewed, tmp_path, "hedgerow")
    assert "gw-x" in again
    again.revocations.follow(Revoking((authority.x509,)))
    assert again.revocations.editions
