"""Goal: one association keeps its promises to a caller, whatever the other side sends."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.bindings.openssl.binding import Binding
from hypothesis import given
from hypothesis import strategies as st

from dtls.context import ClientContext, Context, ServerContext
from dtls.errors import MessageTooLargeError, OpenSslError, SessionClosedError
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from dtls.openssl_connection import OpenSslConnection
from dtls.openssl_forms import certificate_der
from dtls.session import MTU_BYTES, DtlsSession, SessionState

IDENTITY = "meter-1"
KEY = b"0123456789abcdef"
NOW = 1000.0


def server_session() -> DtlsSession:
    return DtlsSession(ServerContext({IDENTITY.encode(): KEY}.get))


def roundtrip(client: DtlsSession, server: DtlsSession) -> None:
    """Carry datagrams both ways until both are quiet."""
    while True:
        up, down = client.datagrams_to_send(), server.datagrams_to_send()
        if not up and not down:
            return
        for datagram in up:
            server.receive_datagram(datagram, NOW)
        for datagram in down:
            client.receive_datagram(datagram, NOW)


def begun(identity: str = IDENTITY, key: bytes = KEY) -> tuple[DtlsSession, DtlsSession]:
    client, server = DtlsSession(ClientContext(identity, key)), server_session()
    client.start(NOW)
    roundtrip(client, server)
    return client, server


def test_both_sides_are_established_and_the_server_knows_the_identity() -> None:
    client, server = begun()
    assert client.state is server.state is SessionState.ESTABLISHED
    assert server.identity == PeerIdentity(Proof.PSK, IDENTITY)
    assert server.identity.may_write


def test_plaintexts_arrive_one_for_each_that_was_sent() -> None:
    client, server = begun()
    client.send(b"one")
    client.send(b"two")
    server.send(b"three")
    roundtrip(client, server)
    assert server.received() == [b"one", b"two"]
    assert client.received() == [b"three"]
    assert server.received() == []


def test_sessions_of_two_threads_get_nothing_of_each_other() -> None:
    """OpenSSL works without Python's lock: one thread goes on amid another's call."""

    def talk(word: bytes) -> set[bytes]:
        client, server = begun()
        heard = set()
        for _ in range(1_000):
            client.send(word)
            server.send(word)
            roundtrip(client, server)
            heard.update(server.received() + client.received())
        return heard

    words = [bytes((letter,)) * 100 for letter in b"abcd"]
    with ThreadPoolExecutor(len(words)) as threads:
        assert list(threads.map(talk, words)) == [{word} for word in words]


def test_no_datagram_is_larger_than_the_mtu() -> None:
    client = DtlsSession(ClientContext(IDENTITY, KEY))
    server = server_session()
    client.start(NOW)
    sizes = []
    for _ in range(6):
        for datagram in client.datagrams_to_send():
            sizes.append(len(datagram))
            server.receive_datagram(datagram, NOW)
        for datagram in server.datagrams_to_send():
            sizes.append(len(datagram))
            client.receive_datagram(datagram, NOW)
    assert client.state is SessionState.ESTABLISHED
    assert max(sizes) <= MTU_BYTES


@pytest.mark.parametrize(
    "suite", ["PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256", "ECDHE-PSK-CHACHA20-POLY1305"]
)
def test_a_client_with_one_suite_alone_is_served(suite: str) -> None:
    context = ClientContext(IDENTITY, KEY)
    only = f"{suite}:@SECLEVEL=0".encode()
    assert Binding().lib.SSL_CTX_set_cipher_list(context.ssl_context, only) == 1
    client, server = DtlsSession(context), server_session()
    client.start(NOW)
    roundtrip(client, server)
    client.send(b"hello")
    roundtrip(client, server)
    assert server.received() == [b"hello"]


def test_suites_that_openssl_does_not_know_make_no_context() -> None:
    unused = ClientContext(IDENTITY, KEY).ssl_context
    with pytest.raises(OpenSslError, match="no cipher match"):
        Context(unused, ["PSK-OF-NOBODY"], is_server=False)


def test_a_wrong_key_gives_no_session_and_no_identity() -> None:
    client, server = begun(key=b"fedcba9876543210")
    assert client.state is server.state is SessionState.HANDSHAKING
    assert server.identity is ANONYMOUS
    assert not server.identity.may_write


def test_an_unknown_identity_is_refused_and_told_so() -> None:
    client, server = begun(identity="stranger")
    assert client.state is server.state is SessionState.CLOSED
    assert "unknown psk identity" in client.reason
    assert server.reason


def test_an_identity_that_no_wire_can_carry_is_an_error_that_shows_it() -> None:
    with pytest.raises(ValueError, match=r"'x{40}'"):
        ClientContext("x" * 129, KEY)


def test_a_message_over_the_mtu_is_refused_with_both_sizes_and_harms_nothing() -> None:
    client, server = begun()
    with pytest.raises(MessageTooLargeError) as caught:
        client.send(bytes(MTU_BYTES))
    assert caught.value.size_bytes == MTU_BYTES
    client.send(bytes(caught.value.size_bytes_max))
    roundtrip(client, server)
    assert server.received() == [bytes(caught.value.size_bytes_max)]


def test_sending_before_and_after_a_session_is_an_error() -> None:
    with pytest.raises(SessionClosedError):
        DtlsSession(ClientContext(IDENTITY, KEY)).send(b"early")
    client, _ = begun()
    client.close("enough")
    with pytest.raises(SessionClosedError, match="enough"):
        client.send(b"late")


def test_closing_tells_the_peer() -> None:
    client, server = begun()
    client.close("enough")
    roundtrip(client, server)
    assert server.state is SessionState.CLOSED
    assert server.reason == "closed by the peer"


def test_a_repeated_record_is_delivered_once() -> None:
    client, server = begun()
    client.send(b"once")
    (record,) = client.datagrams_to_send()
    server.receive_datagram(record, NOW)
    server.receive_datagram(record, NOW)
    assert server.received() == [b"once"]


@given(noise=st.lists(st.binary(max_size=100), max_size=5), flip=st.integers(13, 40))
def test_noise_and_damaged_records_do_not_harm_a_session(noise: list[bytes], flip: int) -> None:
    client, server = ESTABLISHED
    client.send(b"a reading that is long enough")
    (record,) = client.datagrams_to_send()
    damaged = bytearray(record)
    damaged[flip] ^= 0x40
    # As the endpoint does it: nothing but whole records gets here.
    for data in (bytes(damaged), *(b"\x17\xfe\xfd\0\1" + bytes(7) + _sized(n) for n in noise)):
        server.receive_datagram(data, NOW)
    assert server.received() == []
    server.receive_datagram(record, NOW)
    assert server.received() == [b"a reading that is long enough"]


def _sized(data: bytes) -> bytes:
    return bytes((len(data),)) + data


ESTABLISHED = begun()


def test_a_closed_session_frees_the_crypto_library_at_once() -> None:
    def connections() -> int:
        return sum(isinstance(each, OpenSslConnection) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = connections()
        client, server = begun()
        assert connections() == before + 2
        client.close("enough")
        roundtrip(client, server)
        assert connections() == before
    finally:
        gc.enable()


def test_a_session_without_handshake_under_way_has_no_timer() -> None:
    client, server = begun()
    assert client.next_timer() is server.next_timer() is None


def test_a_key_that_openssl_does_not_take_gives_no_session_and_says_so() -> None:
    """Its longest one has 512 bytes since OpenSSL 3, and had 256 before."""
    key = bytes(range(1, 101)) * 6
    client = DtlsSession(ClientContext(IDENTITY, key))
    server = DtlsSession(ServerContext({IDENTITY.encode(): key}.get))
    client.start(NOW)
    roundtrip(client, server)
    assert client.state is SessionState.CLOSED
    assert "psk identity not found" in client.reason
    assert not server.was_established


def test_a_session_that_was_closed_before_it_began_says_nothing_any_more() -> None:
    client = DtlsSession(ClientContext(IDENTITY, KEY))
    client.close("not wanted")
    client.start(NOW)
    client.receive_datagram(b"\x16\xfe\xfd", NOW)
    client.handle_timer(NOW + 60.0)
    client.close("again")
    assert (client.state, client.reason) == (SessionState.CLOSED, "not wanted")
    assert client.datagrams_to_send() == client.received() == []
    assert client.next_timer() is None


def test_a_connection_before_its_handshake_has_no_session_and_no_certificate() -> None:
    context = ClientContext(IDENTITY, KEY)
    connection = OpenSslConnection(context.ssl_context, MTU_BYTES, is_server=False)
    assert connection.session() == connection.shown() == b""
    assert certificate_der(Binding().ffi.NULL) == b""
