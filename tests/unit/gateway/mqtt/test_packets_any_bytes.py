"""Properties of the packet codec: round trip, any bytes, any split of a stream."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.mqtt import (
    WILL,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PacketError,
    PacketType,
    PingReq,
    PingResp,
    Properties,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    UnsubAck,
    Unsubscribe,
    Version,
    Will,
    body_at,
    check_topic_filter,
    decode,
    decode_properties,
    encode,
    encode_properties,
    packet_end,
    read_publish,
)
from gateway.mqtt.reason_codes import REASONS

P, T = PropertyId, PacketType
untimed = settings(deadline=None)
VERSIONS = (4, 5)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
levels = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\0+#/"), max_size=6
)
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.one_of(
    st.lists(levels | st.just("+"), min_size=1, max_size=4).map("/".join).filter(bool),
    topics.map("{}/#".format),
    topics.map("$share/group/{}".format),
).filter(lambda one: not one.startswith("$share/") or one.startswith("$share/group/"))
packet_ids = st.integers(1, 65_535)
qualities = st.integers(0, 2)
blobs = st.binary(max_size=40)
bits, two, four = st.integers(0, 1), st.integers(0, 65_535), st.integers(0, 0xFFFF_FFFF)

PROPERTIES: dict[int, tuple[st.SearchStrategy[Any], set[int]]] = {
    P.PAYLOAD_FORMAT_INDICATOR: (bits, {T.PUBLISH, WILL}),
    P.MESSAGE_EXPIRY_INTERVAL: (four, {T.PUBLISH, WILL}),
    P.CONTENT_TYPE: (texts, {T.PUBLISH, WILL}),
    P.RESPONSE_TOPIC: (topics, {T.PUBLISH, WILL}),
    P.CORRELATION_DATA: (blobs, {T.PUBLISH, WILL}),
    P.SESSION_EXPIRY_INTERVAL: (four, {T.CONNECT, T.CONNACK, T.DISCONNECT}),
    P.ASSIGNED_CLIENT_IDENTIFIER: (texts, {T.CONNACK}),
    P.SERVER_KEEP_ALIVE: (two, {T.CONNACK}),
    P.AUTHENTICATION_METHOD: (texts, {T.CONNECT, T.CONNACK, T.AUTH}),
    P.REQUEST_PROBLEM_INFORMATION: (bits, {T.CONNECT}),
    P.WILL_DELAY_INTERVAL: (four, {WILL}),
    P.REQUEST_RESPONSE_INFORMATION: (bits, {T.CONNECT}),
    P.RESPONSE_INFORMATION: (texts, {T.CONNACK}),
    P.SERVER_REFERENCE: (texts, {T.CONNACK, T.DISCONNECT}),
    P.REASON_STRING: (texts, {*REASONS}),
    P.RECEIVE_MAXIMUM: (st.integers(1, 65_535), {T.CONNECT, T.CONNACK}),
    P.TOPIC_ALIAS_MAXIMUM: (two, {T.CONNECT, T.CONNACK}),
    P.TOPIC_ALIAS: (st.integers(1, 65_535), {T.PUBLISH}),
    P.MAXIMUM_QOS: (bits, {T.CONNACK}),
    P.RETAIN_AVAILABLE: (bits, {T.CONNACK}),
    P.USER_PROPERTY: (
        st.lists(st.tuples(texts, texts), min_size=1, max_size=3),
        {*T, WILL} - {T.PINGREQ, T.PINGRESP},
    ),
    P.MAXIMUM_PACKET_SIZE: (st.integers(1, 0xFFFF_FFFF), {T.CONNECT, T.CONNACK}),
    P.WILDCARD_SUBSCRIPTION_AVAILABLE: (bits, {T.CONNACK}),
    P.SUBSCRIPTION_IDENTIFIER_AVAILABLE: (bits, {T.CONNACK}),
    P.SHARED_SUBSCRIPTION_AVAILABLE: (bits, {T.CONNACK}),
}
DRAWN_APART = {P.SUBSCRIPTION_IDENTIFIER, P.AUTHENTICATION_DATA}
"""Properties that depend on more than where they stand: `properties` draws them."""
ACKNOWLEDGEMENTS: dict[int, type[PubAck | PubRec | PubRel | PubComp]] = {
    T.PUBACK: PubAck,
    T.PUBREC: PubRec,
    T.PUBREL: PubRel,
    T.PUBCOMP: PubComp,
}
identifiers = st.integers(1, 268_435_455)


@st.composite
def properties(draw: st.DrawFn, packet_type: int, version: int = 5) -> Properties:
    if version != 5:
        return {}
    allowed = [one for one, (_, places) in PROPERTIES.items() if packet_type in places]
    drawn: Properties = {
        one: draw(PROPERTIES[one][0]) for one in draw(st.sets(st.sampled_from(allowed)))
    }
    if packet_type == T.PUBLISH and draw(st.booleans()):
        drawn[P.SUBSCRIPTION_IDENTIFIER] = draw(st.lists(identifiers, min_size=1, max_size=3))
    if packet_type == T.SUBSCRIBE and draw(st.booleans()):
        drawn[P.SUBSCRIPTION_IDENTIFIER] = [draw(identifiers)]
    if P.AUTHENTICATION_METHOD in drawn and draw(st.booleans()):
        drawn[P.AUTHENTICATION_DATA] = draw(blobs)
    return drawn


@st.composite
def connects(draw: st.DrawFn, version: int) -> Connect:
    will = None
    if draw(st.booleans()):
        will = Will(
            *(draw(topics), draw(blobs), draw(qualities), draw(st.booleans())),
            draw(properties(WILL, version)),
        )
    username = draw(st.none() | texts)
    password = None if username is None and version == 4 else draw(st.none() | blobs)
    client_id, clean_start = draw(texts), draw(st.booleans())
    return Connect(
        Version(version),
        client_id,
        clean_start or not client_id,
        keep_alive_s=draw(two),
        username=username,
        password=password,
        will=will,
        properties=draw(properties(T.CONNECT, version)),
        bridge=draw(st.booleans()),
    )


@st.composite
def publishes(draw: st.DrawFn, version: int) -> Publish:
    qos = draw(qualities)
    drawn = draw(properties(T.PUBLISH, version))
    return Publish(
        "" if P.TOPIC_ALIAS in drawn and draw(st.booleans()) else draw(topics),
        *(draw(blobs), qos, draw(st.booleans()), qos > 0 and draw(st.booleans())),
        draw(packet_ids) if qos else None,
        drawn,
    )


@st.composite
def requests(draw: st.DrawFn, version: int) -> SubscriptionRequest:
    topic_filter, qos = draw(filters), draw(qualities)
    if version == 4:
        return SubscriptionRequest(topic_filter, qos)
    local = not topic_filter.startswith("$share/") and draw(st.booleans())
    return SubscriptionRequest(topic_filter, qos, local, draw(st.booleans()), draw(qualities))


@st.composite
def packets(draw: st.DrawFn, version: int) -> Packet:
    packet_type = draw(st.sampled_from([one for one in T if version == 5 or one is not T.AUTH]))
    match packet_type:
        case T.CONNECT:
            return draw(connects(version))
        case T.PUBLISH:
            return draw(publishes(version))
        case T.PINGREQ:
            return PingReq()
        case T.PINGRESP:
            return PingResp()
        case T.SUBSCRIBE:
            wanted = draw(st.lists(requests(version), min_size=1, max_size=3))
            return Subscribe(draw(packet_ids), wanted, draw(properties(packet_type, version)))
        case T.UNSUBSCRIBE:
            given_up = draw(st.lists(filters, min_size=1, max_size=3))
            return Unsubscribe(draw(packet_ids), given_up, draw(properties(packet_type, version)))
    drawn = draw(properties(packet_type, version))
    reason = draw(st.sampled_from(sorted(REASONS[packet_type])))
    match packet_type:
        case T.CONNACK:
            if version == 4:
                reason = draw(st.sampled_from([0, 0x84, 0x85, 0x86, 0x87, 0x88]))
            return ConnAck(not reason and draw(st.booleans()), reason, drawn)
        case T.SUBACK:
            reasons = [min(reason, 0x80) if version == 4 else reason]
            return SubAck(draw(packet_ids), reasons, drawn)
        case T.UNSUBACK:
            return UnsubAck(draw(packet_ids), [reason] * (version == 5), drawn)
        case T.DISCONNECT:
            return Disconnect(reason * (version == 5), drawn)
        case T.AUTH:
            return Auth(reason, {P.AUTHENTICATION_METHOD: draw(texts), **drawn})
    return ACKNOWLEDGEMENTS[packet_type](draw(packet_ids), reason * (version == 5), drawn)


versioned = st.sampled_from(VERSIONS).flatmap(
    lambda version: st.tuples(st.just(version), packets(version))
)


def read_all(data: bytes, version: int) -> tuple[list[Packet], bytes]:
    found, at = [], 0
    while (ends := packet_end(data, at, 1 << 20)) is not None:
        found.append(decode(data[at], data[ends[0] : ends[1]], version))
        at = ends[1]
    return found, data[at:]


def test_each_property_that_there_is_gets_drawn() -> None:
    assert set(PROPERTIES) | DRAWN_APART == set(P)


@untimed
@given(versioned)
def test_what_is_written_reads_the_same(case: tuple[int, Packet]) -> None:
    version, packet = case
    assert read_all(encode(packet, version), version) == ([packet], b"")


@untimed
@given(versioned)
def test_a_packet_in_a_log_is_one_line(case: tuple[int, Packet]) -> None:
    assert str(case[1]).isprintable()


@untimed
@given(
    st.sampled_from(VERSIONS).flatmap(
        lambda version: st.tuples(st.just(version), publishes(version))
    ),
    *(blobs, blobs),
)
def test_a_publish_is_read_where_it_stands(
    case: tuple[int, Publish], before: bytes, behind: bytes
) -> None:
    version, sent = case
    packet = encode(sent, version)
    body, end = len(before) + body_at(packet), len(before) + len(packet)
    topic, packet_id, at, found = read_publish(
        before + packet + behind, packet[0], body, end, version
    )
    assert (topic.decode(), packet_id, found) == (
        *(sent.topic, sent.packet_id or 0, sent.properties or None),
    )
    assert packet[at - len(before) :] == sent.payload


@untimed
@given(st.integers(0, 255), st.binary(max_size=60), st.sampled_from(VERSIONS))
def test_any_bytes_are_a_packet_or_refused(first: int, body: bytes, version: int) -> None:
    _read_and_write_again(first, body, version)


@untimed
@given(versioned, st.data())
def test_a_damaged_packet_is_a_packet_or_refused(
    case: tuple[int, Packet], data: st.DataObject
) -> None:
    version, packet = case
    written = encode(packet, version)
    ends = packet_end(written, 0, 1 << 20)
    assert ends is not None
    body = bytearray(written[ends[0] :])
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, max(len(body) - 1, 0)), st.integers(0, 255)), max_size=3)
    ):
        body[at : at + 1] = bytes((byte,))
    cut = data.draw(st.integers(0, len(body)))
    _read_and_write_again(written[0], bytes(body), version)
    _read_and_write_again(written[0], bytes(body[:cut]), version)


def _read_and_write_again(first: int, body: bytes, version: int) -> None:
    """Whatever is taken can be passed on, and then reads the same."""
    try:
        packet = decode(first, body, version)
    except PacketError:
        return
    written_in = packet.version if isinstance(packet, Connect) else version
    assert read_all(encode(packet, written_in), version) == ([packet], b"")


@untimed
@given(st.binary(max_size=12), st.integers(0, 12), st.integers(0, 1 << 28))
def test_any_bytes_are_framed_or_refused(data: bytes, at: int, limit: int) -> None:
    try:
        ends = packet_end(data, at, limit)
    except PacketError:
        return
    if ends is not None:
        assert at + 2 <= ends[0] <= ends[1] <= len(data)
        assert ends[1] - at <= limit


@untimed
@given(
    st.sampled_from(VERSIONS).flatmap(
        lambda version: st.tuples(st.just(version), st.lists(packets(version), max_size=5))
    ),
    st.lists(st.integers(1, 80), min_size=1),
)
def test_any_split_of_a_stream_gives_the_same_packets(
    case: tuple[int, list[Packet]], sizes: list[int]
) -> None:
    version, sent = case
    stream = b"".join(encode(packet, version) for packet in sent)
    found: list[Packet] = []
    rest, at, i = b"", 0, 0
    while at < len(stream):
        size = sizes[i % len(sizes)]
        more, rest = read_all(rest + stream[at : at + size], version)
        found += more
        at, i = at + size, i + 1
    assert (found, rest) == (sent, b"")


@untimed
@given(st.binary(max_size=40), st.sampled_from([*T, WILL]))
def test_any_bytes_are_properties_or_refused(data: bytes, packet_type: int) -> None:
    try:
        found, at = decode_properties(data, 0, len(data), packet_type)
    except PacketError:
        return
    assert decode_properties(data[:at], 0, at, packet_type) == (found, at)
    again = encode_properties(found, packet_type)
    assert decode_properties(again, 0, len(again), packet_type) == (found, len(again))


@untimed
@given(st.lists(st.sampled_from(["a", "+", "#", "", "a+", "$share"]), max_size=5).map("/".join))
def test_a_filter_is_taken_just_where_section_4_7_allows_it(text: str) -> None:
    levels = text.split("/")
    allowed = bool(text)
    if text.startswith("$share/"):
        name, levels = levels[1], levels[2:]
        allowed = name not in ("", "+", "#", "a+") and bool("/".join(levels) or len(levels) > 1)
    allowed &= "a+" not in levels and "#" not in levels[:-1]
    try:
        assert check_topic_filter(text) == text
    except PacketError:
        assert not allowed
    else:
        assert allowed
