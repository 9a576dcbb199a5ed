"""Messages and datagrams (RFC 7252, section 3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coap_engine.codec import ACK, CON, NON, RST, CoapMessage, CodecLimits, decode, empty_message
from coap_engine.errors import MessageFormatError
from coap_engine.message import Option

options = st.lists(st.tuples(st.integers(0, 65_535), st.binary(max_size=300)), max_size=8).map(
    lambda drawn: tuple(sorted(drawn, key=lambda option: option[0]))
)
messages = st.builds(
    CoapMessage,
    st.sampled_from((CON, NON, ACK, RST)),
    st.integers(1, 255),
    st.integers(0, 65_535),
    st.binary(max_size=8),
    options,
    st.binary(max_size=64),
)


def parts(message: CoapMessage) -> tuple[int, int, int, bytes, tuple[Option, ...], bytes]:
    return (
        *(message.type, message.code, message.message_id, message.token),
        *(message.options, message.payload),
    )


@given(messages)
def test_what_is_encoded_is_read_back(message: CoapMessage) -> None:
    limits = CodecLimits(datagram_bytes=1 << 16)
    assert parts(decode(message.encode(), limits)) == parts(message)


@given(st.binary(max_size=80) | st.binary(max_size=60).map(lambda rest: b"\x44\x01\x7d\x34" + rest))
def test_any_bytes_are_a_message_or_an_error_of_its_own(datagram: bytes) -> None:
    try:
        message = decode(datagram)
    except MessageFormatError:
        return
    assert parts(decode(message.encode())) == parts(message)


@pytest.mark.parametrize(
    ("datagram", "is_reset"),
    [
        (b"", False),
        (b"\x40\x01\x00", False),
        (b"\x80\x01\x00\x07", False),  # version 2: silently ignored (section 3)
        (b"\x49\x01\x00\x07" + bytes(9), True),  # a token of nine bytes
        (b"\x44\x01\x00\x07\x01", True),  # a token that is cut off
        (b"\x40\x00\x00\x07\x01", True),  # an empty message that is not (section 4.1)
        (b"\x40\x01\x00\x07\xff", True),  # a payload marker without payload
        (b"\x40\x01\x00\x07\xf0", True),  # delta 15
        (b"\x40\x01\x00\x07\x0f", True),  # length 15
        (b"\x40\x01\x00\x07\xd0", True),  # an extended delta that is cut off
        (b"\x40\x01\x00\x07\x0d", True),
        (b"\x40\x01\x00\x07\xb3ab", True),  # a value that is cut off
        (b"\x40\x01\x00\x07\xe0\xff\xff", True),  # option 65,804
        (b"\x50\x01\x00\x07\xff", False),  # a NON is never reset
        (b"\x60\x45\x00\x07\xff", False),  # nor an ACK
    ],
)
def test_what_is_malformed_is_reset_if_it_is_confirmable(datagram: bytes, is_reset: bool) -> None:
    with pytest.raises(MessageFormatError) as caught:
        decode(datagram)
    assert caught.value.message_id == (7 if is_reset else None)


def test_options_end_where_there_are_too_many() -> None:
    head = b"\x40\x01\x00\x07"
    limits = CodecLimits(options=3)
    assert len(decode(head + b"\x10" * 3, limits).options) == 3
    with pytest.raises(MessageFormatError, match="more than 3 options"):
        decode(head + b"\x10" * 4, limits)


def test_a_datagram_that_is_too_long_is_not_looked_into() -> None:
    with pytest.raises(MessageFormatError, match="a datagram of 60004 bytes") as caught:
        decode(b"\x40\x01\x00\x07" + bytes(60_000))
    assert caught.value.message_id == 7


def test_rfc_7252_section_3_the_empty_ack_of_figure_3() -> None:
    assert empty_message(ACK, 0x7D34) == bytes.fromhex("60007d34")


def test_rfc_7252_appendix_a_figure_16() -> None:
    request = CoapMessage(CON, 1, 0x7D34, options=((11, b"temperature"),))
    assert request.encode() == bytes.fromhex("40017d34bb") + b"temperature"
    answer = CoapMessage(ACK, 0x45, 0x7D34, payload=b"22.3 C")
    assert answer.encode() == bytes.fromhex("60457d34ff") + b"22.3 C"


def test_a_message_in_a_log_line_shows_neither_token_nor_payload() -> None:
    message = CoapMessage(CON, 0x45, 7, b"token", (), b"secret")
    assert repr(message) == "CON 2.05 7, 6 bytes"
