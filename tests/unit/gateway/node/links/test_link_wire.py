from __future__ import annotations

import dataclasses
import errno
import hmac
import os
import socket
import ssl

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import mqtt
from gateway.mqtt import Version
from gateway.node.links import wire
from gateway.node.links.handshake import (
    Acceptor,
    Credentials,
    Dialler,
    HandshakeError,
    NoPlaceError,
    SelfDialError,
)
from gateway.node.links.refusal import Refusal, RefusedError, reason
from gateway.node.links.wire import LinkConnect, LinkPacket, Type
from tests.held_objects import held_objects
from tree_handler.errors import ProtocolError

NONCE_D, NONCE_A = b"d" * 16, b"a" * 16
KEY = b"k" * 32
PACKETS = [
    (LinkConnect("gw-a", "tree", NONCE_D).encode(), Type.CONNECT),
    (wire.connack(wire.ReturnCode.ACCEPTED), Type.CONNACK),
    (wire.publish(b"$hedgerow/batch", b"x" * 300), Type.PUBLISH),
    (wire.ping(7, b"bpdu"), Type.PINGREQ),
    (wire.pong(7), Type.PINGRESP),
    (wire.puback(1 << 40), Type.PUBACK),
    (wire.disconnect(), Type.DISCONNECT),
]


def drain(reader: wire.LinkReader) -> list[LinkPacket]:
    found = []
    while (packet := reader.next()) is not None:
        found.append(packet)
    return found


@given(st.lists(st.integers(1, 40), max_size=60))
def test_any_split_of_the_stream_gives_the_same_packets(sizes: list[int]) -> None:
    stream = b"".join(data for data, _ in PACKETS)
    reader, found = wire.LinkReader(), []
    for size in [*sizes, len(stream)]:
        part, stream = stream[:size], stream[size:]
        reader.feed(part)
        found += drain(reader)
    assert [packet.type for packet in found] == [kind for _, kind in PACKETS]
    assert (found[2].topic, found[2].body) == (b"$hedgerow/batch", b"x" * 300)
    assert wire.split_ping(found[3].body) == (7, b"bpdu")


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_protocol_error(data: bytes) -> None:
    reader = wire.LinkReader()
    reader.feed(data)
    try:
        for packet in drain(reader):
            LinkConnect.decode(packet.body)
    except ProtocolError:
        pass


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(NAMES.filter(bool), NAMES, st.binary(min_size=16, max_size=16))
def test_a_connect_reads_back(gateway_id: str, tree: str, nonce: bytes) -> None:
    connect = LinkConnect(gateway_id, tree, nonce)
    reader = wire.LinkReader()
    reader.feed(connect.encode())
    (packet,) = drain(reader)
    assert LinkConnect.decode(packet.body) == connect


def test_a_packet_over_the_limit_is_refused_before_it_is_buffered() -> None:
    reader = wire.LinkReader(limit=100)
    reader.feed(b"\x30\xff\xff\x7f")
    with pytest.raises(ProtocolError, match="packet"):
        reader.next()


def own(name: str, *, tree: str = "t", key: bytes = KEY) -> Credentials:
    return Credentials(name, tree, key)


def test_both_ends_learn_each_others_name_when_both_hold_the_key() -> None:
    dialler = Dialler(own("gw-a"), NONCE_D)
    acceptor = Acceptor(own("gw-b"), NONCE_A, dialler.connect)
    peer_id, proof = dialler.receive(acceptor.answer)
    acceptor.receive(proof)
    assert (peer_id, acceptor.peer_id) == ("gw-b", "gw-a")


def test_a_dialler_without_the_key_is_refused() -> None:
    honest, thief = Dialler(own("gw-a"), NONCE_D), Dialler(own("gw-a", key=b"x" * 32), NONCE_D)
    acceptor = Acceptor(own("gw-b"), NONCE_A, thief.connect)
    with pytest.raises(HandshakeError, match="does not hold"):
        thief.receive(acceptor.answer)
    _, proof_for_another = honest.receive(Acceptor(own("gw-b"), b"z" * 16, honest.connect).answer)
    with pytest.raises(HandshakeError, match="does not hold"):
        acceptor.receive(proof_for_another)


def test_an_acceptor_without_the_key_is_refused() -> None:
    dialler = Dialler(own("gw-a"), NONCE_D)
    impostor = Acceptor(own("gw-b", key=b"x" * 32), NONCE_A, dialler.connect)
    with pytest.raises(HandshakeError, match="does not hold"):
        dialler.receive(impostor.answer)


def test_a_neighbour_that_forwards_in_another_mode_is_refused_by_name() -> None:
    dialler = Dialler(own("gw-a"), NONCE_D)
    routed = dataclasses.replace(own("gw-b"), mode="routed")
    with pytest.raises(HandshakeError, match=r"tree.mode of gw-b is not flood: 'routed'"):
        dialler.receive(Acceptor(routed, NONCE_A, dialler.connect).answer)


def test_the_mode_is_part_of_what_the_acceptor_proves() -> None:
    dialler = Dialler(own("gw-a"), NONCE_D)
    routed = dataclasses.replace(own("gw-b"), mode="routed")
    answer = Acceptor(routed, NONCE_A, dialler.connect).answer
    peer_id, nonce, _, epoch, mac = msgpack.unpackb(answer)
    with pytest.raises(HandshakeError, match="does not hold"):
        dialler.receive(msgpack.packb([peer_id, nonce, "flood", epoch, mac]))


def test_an_answer_can_not_be_reflected_as_the_proof() -> None:
    acceptor = Acceptor(own("gw-b"), NONCE_A, LinkConnect("gw-a", "t", NONCE_D))
    with pytest.raises(HandshakeError):
        acceptor.receive(acceptor.answer[-32:])


def test_both_ends_learn_that_a_gateway_has_dialled_itself() -> None:
    dialler = Dialler(own("gw-a"), NONCE_D)
    acceptor = Acceptor(own("gw-a"), NONCE_A, dialler.connect)
    with pytest.raises(SelfDialError, match="this gateway itself"):
        dialler.receive(acceptor.answer)
    _, proof = Dialler(own("gw-a"), NONCE_D).receive(
        Acceptor(own("gw-b"), NONCE_A, dialler.connect).answer
    )
    with pytest.raises(HandshakeError, match="this gateway itself"):
        acceptor.receive(proof)


def test_the_port_that_a_dialler_takes_links_at_is_part_of_its_proof() -> None:
    dialler = Dialler(dataclasses.replace(own("gw-a"), port=8883), NONCE_D)
    acceptor = Acceptor(own("gw-b"), NONCE_A, dialler.connect)
    _, proof = dialler.receive(acceptor.answer)
    mac, port, epoch = msgpack.unpackb(proof)
    with pytest.raises(HandshakeError, match="does not hold"):
        acceptor.receive(msgpack.packb([mac, port + 1, epoch]))
    assert acceptor.peer_port == 0
    acceptor.receive(proof)
    assert acceptor.peer_port == 8883


@pytest.mark.parametrize(
    ("connect", "why"),
    [
        (LinkConnect("gw-a", "other", NONCE_D), "another tree"),
        (LinkConnect("gw-a", "t", b"short"), "nonce"),
        (LinkConnect("", "t", NONCE_D), "identifier"),
    ],
)
def test_a_connect_that_does_not_belong_is_refused(connect: LinkConnect, why: str) -> None:
    with pytest.raises(HandshakeError, match=why):
        Acceptor(own("gw-b"), NONCE_A, connect)


@given(st.binary(max_size=100))
def test_no_answer_raises_anything_but_handshake_error(answer: bytes) -> None:
    with pytest.raises(HandshakeError):
        Dialler(own("gw-a"), NONCE_D).receive(answer)


def test_credentials_do_not_show_the_key() -> None:
    assert "k" * 8 not in repr(own("gw-a"))


def test_a_second_gateway_with_the_same_id_is_told_from_oneself_by_its_epoch() -> None:
    first, second = own("gw-a"), dataclasses.replace(own("gw-a"), epoch=2)
    dialler = Dialler(second, NONCE_D)
    with pytest.raises(NoPlaceError, match="another gateway with the id of this one"):
        dialler.receive(Acceptor(first, NONCE_A, dialler.connect).answer)
    acceptor = Acceptor(first, NONCE_A, dialler.connect)
    stranger = Dialler(dataclasses.replace(second, key=b"x" * 32), NONCE_D)
    with pytest.raises(HandshakeError, match="does not hold"):  # nobody else is believed
        stranger.receive(acceptor.answer)


def test_the_boot_epoch_is_part_of_what_both_ends_prove() -> None:
    dialler = Dialler(dataclasses.replace(own("gw-a"), epoch=3), NONCE_D)
    acceptor = Acceptor(dataclasses.replace(own("gw-b"), epoch=4), NONCE_A, dialler.connect)
    peer_id, nonce, mode, epoch, mac = msgpack.unpackb(acceptor.answer)
    with pytest.raises(HandshakeError, match="does not hold"):
        dialler.receive(msgpack.packb([peer_id, nonce, mode, epoch + 1, mac]))
    _, proof = dialler.receive(acceptor.answer)
    mac, port, epoch = msgpack.unpackb(proof)
    with pytest.raises(HandshakeError, match="does not hold"):
        acceptor.receive(msgpack.packb([mac, port, epoch + 1]))
    acceptor.receive(proof)
    assert (dialler.peer_epoch, acceptor.peer_epoch) == (4, 3)


@pytest.mark.parametrize("additions", [0, wire.Additions.CLOCKS])
def test_each_end_says_what_it_understands_where_earlier_releases_write_0_and_do_not_look(
    additions: int,
) -> None:
    connect = LinkConnect("gw-a", "t", NONCE_D, additions)
    reader = wire.LinkReader()
    reader.feed(connect.encode())
    (packet,) = drain(reader)
    assert packet.body[8:10] == additions.to_bytes(2, "big")  # the keep alive
    assert LinkConnect.decode(packet.body) == connect
    answer = wire.connack(wire.ReturnCode.ACCEPTED, additions)
    assert answer == bytes((0x20, 2, additions, 0))


@pytest.mark.parametrize("name", ["", "../../x", "gw\nERROR", "GW", "x" * 64, "{{1}}", "-"])
def test_who_calls_itself_what_no_gateway_is_called_is_refused_at_both_ends(name: str) -> None:
    stranger = own(name)
    with pytest.raises(HandshakeError):
        Acceptor(own("gw-a"), NONCE_A, Dialler(stranger, NONCE_D).connect)
    dialler = Dialler(own("gw-a"), NONCE_D)
    with pytest.raises(HandshakeError):
        dialler.receive(Acceptor(stranger, NONCE_A, dialler.connect).answer)


def test_a_packet_is_told_to_people_without_its_body() -> None:
    assert str(LinkPacket(Type.PINGREQ, b"1234")) == "PINGREQ (4 bytes)"
    assert str(LinkPacket(Type.PUBLISH, b"", b"t")) == "PUBLISH (0 bytes)"


def connect_of(**changed: object) -> bytes:
    """The body of a CONNECT that is a link's but for these fields."""
    fields: dict[str, object] = {
        "version": Version.V311,
        "client_id": "gw-a",
        "username": "$hedgerow/t",
        "password": NONCE_D,
        "bridge": True,
    }
    connect = mqtt.Connect(**(fields | changed))  # type: ignore[arg-type]  # by its fields
    return mqtt.encode(connect, connect.version)[2:]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        connect_of()[:-1],
        connect_of(bridge=False),
        connect_of(username="t"),
        connect_of(username=None, password=None),
        connect_of(password=None),
        connect_of(will=mqtt.Will("t", b"")),
    ],
    ids=["nothing", "torn", "a client's", "a bridge's", "no user", "no nonce", "a will"],
)
def test_a_connect_that_is_no_links_is_refused(body: bytes) -> None:
    assert LinkConnect.decode(connect_of()) == LinkConnect("gw-a", "t", NONCE_D)
    with pytest.raises(ProtocolError, match="CONNECT of a link"):
        LinkConnect.decode(body)


def test_bodies_of_echoes_and_acknowledgements_are_so_long() -> None:
    assert wire.split_ping(b"\0\0\1\2") == (258, b"")
    with pytest.raises(ProtocolError, match="PINGREQ body"):
        wire.split_ping(b"\0\0\1")
    assert wire.taken(b"\1" + bytes(7)) == 1 << 56
    for wrong in (bytes(7), bytes(9)):
        with pytest.raises(ProtocolError, match="PUBACK body"):
            wire.taken(wrong)
    assert wire.pong(7, behind_data=True) == b"\xd0\5\0\0\0\7\1"
    assert wire.disconnect() == b"\xe0\0"
    assert wire.disconnect(0x84) == b"\xe0\1\x84"


def test_pieces_take_no_more_memory_than_their_bytes_however_short_they_are() -> None:
    assembly = wire.Assembly()
    before = held_objects(assembly)
    for body in (b"", b"x") * 1_000:
        assert assembly.add(LinkPacket(Type.PUBLISH, body, wire.PIECE_OF_BATCH)) is None
    assert held_objects(assembly) <= before + 1
    assert assembly.add(LinkPacket(Type.PUBLISH, b"c", wire.PIECE_OF_CONTROL)) is None
    last = LinkPacket(Type.PUBLISH, b"\0\1tend", wire.PIECE_OF_BATCH + b"/last")
    assert assembly.add(last) == LinkPacket(Type.PUBLISH, b"x" * 1_000 + b"end", b"t")
    assert assembly.add(last) == LinkPacket(Type.PUBLISH, b"end", b"t")


def test_messages_in_pieces_may_have_17_mib_together_and_those_that_are_whole_count_no_more() -> (
    None
):
    assembly = wire.Assembly()
    piece = LinkPacket(Type.PUBLISH, bytes(1 << 20), wire.PIECE_OF_BATCH)
    control = LinkPacket(Type.PUBLISH, bytes(1 << 20), wire.PIECE_OF_CONTROL)
    for _ in range(2):
        for _ in range(16):
            assembly.add(piece)
        assembly.add(control)
        with pytest.raises(ProtocolError, match="message in pieces too large, bytes: 17825793"):
            assembly.add(LinkPacket(Type.PUBLISH, b"x", wire.PIECE_OF_CONTROL))
        for topic in (wire.PIECE_OF_CONTROL, wire.PIECE_OF_BATCH):
            assembly.add(LinkPacket(Type.PUBLISH, b"\0\1t", topic + b"/last"))


def proof_of(
    own_id: str, acceptor_id: str, epoch: int, port: int = 0, label: bytes = b"dial"
) -> bytes:
    """The proof of a gateway of this id that holds the key, as the module's text has it."""
    signed = msgpack.packb(
        [label, "t", own_id, acceptor_id, NONCE_D, NONCE_A, "flood", epoch, port]
    )
    return msgpack.packb([hmac.digest(KEY, signed, "sha256"), port, epoch])


def test_who_holds_the_key_and_has_the_id_of_the_acceptor_is_another_gateway_of_that_id() -> None:
    connect = LinkConnect("gw-a", "t", NONCE_D)
    acceptor = Acceptor(dataclasses.replace(own("gw-a"), epoch=1), NONCE_A, connect)
    with pytest.raises(HandshakeError, match="this gateway itself"):
        acceptor.receive(proof_of("gw-a", "gw-a", 1))
    with pytest.raises(NoPlaceError, match="another gateway with the id of this one") as refused:
        acceptor.receive(proof_of("gw-a", "gw-a", 2))
    assert (refused.value.refusal, refused.value.peer_id) == (Refusal.OTHER_LIFE, "gw-a")
    assert refused.value.tell is Refusal.OTHER_LIFE


@pytest.mark.parametrize(
    ("epoch", "port", "is_taken"),
    [
        (0, 0, True),
        (2**32 - 1, 65_535, True),
        (2**32, 0, False),
        (1, 65_536, False),
        (-1, 0, False),
    ],
)
def test_a_proof_tells_a_port_and_a_life_that_there_can_be(
    epoch: int, port: int, is_taken: bool
) -> None:
    acceptor = Acceptor(own("gw-b"), NONCE_A, LinkConnect("gw-a", "t", NONCE_D))
    proof = proof_of("gw-a", "gw-b", epoch, port)
    if is_taken:
        acceptor.receive(proof)
        assert (acceptor.peer_port, acceptor.peer_epoch) == (port, epoch)
        return
    with pytest.raises(HandshakeError, match=r"^proof: "):
        acceptor.receive(proof)


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] x")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "no answer in time"),
        (socket.gaierror(-2, "Name or service not known"), "unknown host name (Name or service"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), os.strerror(errno.ECONNREFUSED)),
        (
            OSError("Multiple exceptions: [Errno 111] a, [Errno 113] b, [Errno 111] c"),
            f"{os.strerror(111)}, {os.strerror(113)}",
        ),
        (OSError("as it is"), "as it is"),
        (OSError(), "OSError"),
        (ValueError(), "ValueError"),
        (
            tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "this gateway's certificate is not accepted there: certificate required",
        ),
        (
            tls_error("TLSV1_ALERT_UNKNOWN_CA"),
            "this gateway's certificate is not accepted there: unknown ca",
        ),
        (tls_error("TLSV1_ALERT_INTERNAL_ERROR"), "TLS was ended there: internal error"),
        (
            tls_error("WRONG_VERSION_NUMBER"),
            "no TLS came about (wrong version number): is it the neighbour's port",
        ),
    ],
)
def test_what_went_wrong_with_a_connection_is_told_in_a_few_words(
    error: Exception, words: str
) -> None:
    assert reason(error).startswith(words)


def test_a_refusal_is_told_by_its_byte_and_an_unknown_one_as_a_number() -> None:
    assert str(RefusedError(0x82)) == "the neighbour has another tree.mode"
    assert str(RefusedError(0x86, "gw-b")) == "refused by the neighbour, code 134: 'gw-b'"
    assert RefusedError(0x86).code == 0x86
    assert sorted(Refusal) == [5, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85]
    assert len({one.text for one in Refusal}) == len(Refusal)
