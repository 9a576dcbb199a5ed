"""TLS without sockets: whatever bytes come in whatever reads, nothing but data comes out."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.trust.tls.context import Tls, TlsFiles
from gateway.trust.tls.layer import TlsLayer

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    """The server's and the client's."""
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    server = authority.issue("gw", is_server=True)
    return Tls(TlsFiles(server.certificate, server.key)).context, authority.client_context()


class Below(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


class Echo(asyncio.Protocol):
    """Answers every read with what it got."""

    transport: asyncio.Transport
    got = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data
        self.transport.write(data)


class Meeting:
    """A client and a layer, their bytes carried by hand."""

    def __init__(self, contexts: Contexts) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = contexts[1].wrap_bio(
            self.incoming, self.outgoing, server_hostname="localhost"
        )
        self.below, self.echo = Below(), Echo()
        self.errors: list[Exception] = []
        self.layer = TlsLayer(
            self.echo,
            contexts[0],
            accepted=lambda _: True,
            secured=lambda _: True,
            failed=self.errors.append,
        )
        self.layer.connection_made(self.below)

    def shake_hands(self) -> None:
        for _ in range(3):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.carry(self.outgoing.read())

    def carry(self, data: bytes, cuts: list[int] | None = None) -> None:
        """Bytes to the layer in several reads, and what it answers to the client."""
        edges = sorted({0, *(cut % (len(data) + 1) for cut in cuts or ()), len(data)})
        for start, end in itertools.pairwise(edges):
            if not self.below.closed:
                self.layer.data_received(data[start:end])
        self.incoming.write(self.below.written)
        self.below.written = b""


@given(st.lists(st.binary(min_size=1, max_size=40_000), max_size=4), st.lists(st.integers(0)))
@settings(max_examples=30, deadline=None)
def test_any_split_into_reads_gives_the_same_bytes_and_the_clients_end_closes(
    contexts: Contexts, sent: list[bytes], cuts: list[int]
) -> None:
    meeting = Meeting(contexts)
    meeting.shake_hands()
    for data in sent:
        meeting.client.write(data)
    with pytest.raises(ssl.SSLWantReadError):
        meeting.client.unwrap()
    meeting.carry(meeting.outgoing.read(), cuts)
    assert meeting.echo.got == b"".join(sent)
    assert meeting.below.closed
    answered = b""
    while len(answered) < len(meeting.echo.got):
        answered += meeting.client.read(1 << 16)
    assert answered == meeting.echo.got
    assert not meeting.errors


@given(st.lists(st.binary(max_size=300), max_size=5))
@settings(max_examples=100, deadline=None)
def test_no_bytes_in_place_of_a_handshake_raise_anything(
    contexts: Contexts, parts: list[bytes]
) -> None:
    meeting = Meeting(contexts)
    for part in parts:
        meeting.carry(part)
    assert meeting.echo.got == b""
    assert len(meeting.errors) == meeting.below.closed


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=5), st.booleans())
@settings(max_examples=100, deadline=None)
def test_no_bytes_after_a_handshake_raise_anything_or_are_taken_for_data(
    contexts: Contexts, parts: list[bytes], framed: bool
) -> None:
    meeting = Meeting(contexts)
    meeting.shake_hands()
    for part in parts:
        header = b"\x17\x03\x03" + len(part).to_bytes(2, "big")
        meeting.carry(header + part if framed else part)
    assert meeting.echo.got == b""
    assert not framed or meeting.below.closed
    meeting.echo.transport.write(b"late")
    meeting.echo.transport.close()


def test_what_is_written_after_the_end_goes_nowhere(contexts: Contexts) -> None:
    meeting = Meeting(contexts)
    meeting.shake_hands()
    meeting.echo.transport.close()
    meeting.carry(b"")
    assert meeting.client.read(1) == b""  # it was told of the end
    meeting.echo.transport.write(b"late")
    assert meeting.below.written == b""


def test_a_layer_without_a_connection_takes_and_sends_nothing(contexts: Contexts) -> None:
    meeting = Meeting(contexts)
    meeting.shake_hands()
    transport = meeting.echo.transport
    meeting.layer.connection_lost(None)
    before = bytes(meeting.below.written)
    meeting.layer.data_received(b"late")
    meeting.layer.send(b"late")
    meeting.layer.close()
    transport.write(b"late")
    assert bytes(meeting.below.written) == before
    assert meeting.echo.got == b""
