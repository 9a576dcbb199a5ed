"""Goal: what is read before the crypto library reads it, is read right or not at all."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtls.context import ClientContext
from dtls.cookies import COOKIE_BYTES, Cookies
from dtls.errors import DtlsRecordError
from dtls.records import (
    HANDSHAKE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    DtlsRecord,
    hello_verify_request,
    is_client_hello,
    pack_datagrams,
    parse_client_hello,
    split_records,
)
from dtls.session import DtlsSession

records = st.builds(
    lambda kind, epoch, body: struct.pack(">BHHIHH", kind, 0xFEFD, epoch, 0, 7, len(body)) + body,
    st.sampled_from([20, 21, 22, 23]),
    st.integers(0, 3),
    st.binary(max_size=300),
)


def hellos() -> tuple[bytes, bytes]:
    """The first ClientHello of the crypto library, and the one with the cookie."""
    client = DtlsSession(ClientContext("meter-1", b"0123456789abcdef"))
    client.start(0.0)
    (first,) = client.datagrams_to_send()
    hello = parse_client_hello(first, split_records(first)[0])
    client.receive_datagram(hello_verify_request(hello, b"cookie of 16 byt"), 0.0)
    (second,) = client.datagrams_to_send()
    return first, second


@given(parts=st.lists(records, min_size=1, max_size=6), tail=st.binary(max_size=12))
def test_whole_records_are_found_and_a_torn_tail_is_left_out(
    parts: list[bytes], tail: bytes
) -> None:
    datagram = b"".join(parts)
    found = split_records(datagram + tail)
    assert [datagram[r.start : r.end] for r in found] == parts
    assert [(r.content_type, r.epoch) for r in found] == [(p[0], p[4]) for p in parts]


@given(data=st.binary(max_size=200))
def test_any_bytes_can_be_split(data: bytes) -> None:
    for record in split_records(data):
        assert 0 <= record.start < record.end <= len(data)


@given(parts=st.lists(records, max_size=10), mtu=st.integers(320, 1_300))
def test_a_flight_is_cut_between_records_and_fits_the_mtu(parts: list[bytes], mtu: int) -> None:
    datagrams = list(pack_datagrams(b"".join(parts), mtu))
    assert b"".join(datagrams) == b"".join(parts)
    assert all(0 < len(d) <= mtu for d in datagrams)
    assert all(split_records(d)[-1].end == len(d) for d in datagrams)


def test_the_cookie_and_the_unchanged_parameters_of_both_hellos_are_read() -> None:
    first, second = (parse_client_hello(h, split_records(h)[0]) for h in hellos())
    assert (first.cookie, second.cookie) == (b"", b"cookie of 16 byt")
    assert first.random == second.random
    assert first.parameters == second.parameters


def test_a_hello_that_ends_early_is_an_error_that_names_the_field() -> None:
    hello = hellos()[0]
    fields = set()
    body = RECORD_HEADER_BYTES + HANDSHAKE_HEADER_BYTES
    for end in range(body, body + 2 + 32 + 1 + 1 + 2 + 8 + 1):
        with pytest.raises(DtlsRecordError) as caught:
            parse_client_hello(hello[:end], DtlsRecord(22, 0, 0, end))
        fields.add(str(caught.value).rpartition(" ")[2])
    assert fields >= {"client_version", "random", "session_id", "cookie", "cipher_suites"}


def test_other_messages_are_no_client_hello() -> None:
    hello = hellos()[0]
    record = split_records(hello)[0]
    assert is_client_hello(hello, record)
    server_hello = bytearray(hello)
    server_hello[RECORD_HEADER_BYTES] = 2
    second_fragment = bytearray(hello)
    second_fragment[RECORD_HEADER_BYTES + 8] = 1
    assert not is_client_hello(bytes(server_hello), record)
    assert not is_client_hello(bytes(second_fragment), record)
    assert not is_client_hello(hello, DtlsRecord(22, 1, record.start, record.end))


class TestCookies:
    @staticmethod
    def cookies() -> Cookies:
        numbers = iter(range(100))
        return Cookies(lambda size: bytes([next(numbers)]) * size, rotate_s=60.0)

    def test_a_cookie_counts_for_its_address_and_parameters_alone(self) -> None:
        cookies = self.cookies()
        cookie = cookies.make(b"a", b"parameters", 0.0)
        assert len(cookie) == COOKIE_BYTES
        assert cookies.check(cookie, b"a", b"parameters", 1.0)
        assert not cookies.check(cookie, b"b", b"parameters", 1.0)
        assert not cookies.check(cookie, b"a", b"others", 1.0)
        assert not cookies.check(cookie, b"ap", b"arameters", 1.0)
        assert not cookies.check(b"", b"a", b"parameters", 1.0)

    @pytest.mark.parametrize(("later_s", "good"), [(59, True), (61, True), (121, False)])
    def test_a_cookie_outlives_one_change_of_the_secret(self, later_s: float, good: bool) -> None:
        cookies = self.cookies()
        cookie = cookies.make(b"a", b"p", 0.0)
        assert cookies.check(cookie, b"a", b"p", later_s) is good
        assert cookies.check(cookie, b"a", b"p", later_s + 1) is good

    def test_a_cookie_does_not_outlive_a_second_change(self) -> None:
        cookies = self.cookies()
        cookie = cookies.make(b"a", b"p", 0.0)
        assert cookies.check(cookie, b"a", b"p", 61.0)
        assert not cookies.check(cookie, b"a", b"p", 122.0)
