"""CONNECTs that are refused as they are, and what their clients are told."""

from __future__ import annotations

from typing import Any

import pytest
from log_world import LogWorld

from gateway.mqtt import ConnAck, Connect, PropertyId, ReasonCode, Version, Will, encode

VERSIONS = (Version.V311, Version.V5)


async def answered(world: LogWorld, connect: Connect) -> ConnAck | None:
    """The CONNACK that a CONNECT gets; None where it is closed without one."""
    number = world.opened()
    world.send(number, encode(connect, connect.version))
    await world.turn()
    answers = world.written(number)
    assert len(answers) <= 1
    assert world.is_closing(number) == (not answers or answers[0].reason > 0)
    return answers[0] if answers else None


def said(answer: ConnAck | None) -> tuple[int, Any] | None:
    """The reason code and the reason string."""
    if answer is None:
        return None
    return answer.reason, answer.properties.get(PropertyId.REASON_STRING)


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (Version.V311, (ReasonCode.SERVER_UNAVAILABLE, None)),
        (Version.V5, (ReasonCode.USE_ANOTHER_SERVER, "this gateway is draining")),
    ],
)
async def test_a_gateway_that_drains_sends_clients_to_another(
    version: Version, told: tuple[int, str | None]
) -> None:
    world = LogWorld()
    world.core.close_to_clients()
    assert said(await answered(world, Connect(version, "late"))) == told
    assert world.core.refusals.counts == {
        f"connection refused ({ReasonCode(told[0]).name.lower()})": 1
    }
    assert len(world.core.sessions) == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("client_id", "is_taken"),
    [("c" * 1_024, True), ("c" * 1_025, False), ("é" * 512, True), ("é" * 512 + "c", False)],
    ids=["1024 bytes", "1025 bytes", "1024 bytes in 512 characters", "1025 in 513"],
)
async def test_a_client_identifier_has_1024_bytes_at_most(
    version: Version, client_id: str, *, is_taken: bool
) -> None:
    world = LogWorld()
    answer = await answered(world, Connect(version, client_id))
    assert answer is not None
    if is_taken:
        assert answer.reason == 0
        assert world.core.sessions.get(client_id) is not None
        return
    why = "client identifier too long" if version == Version.V5 else None
    assert said(answer) == (ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)


WILLS = {
    "payload": (Will("t", bytes(10)), Will("t", bytes(11))),
    "topic": (Will("é" * 10, b""), Will("é" * 10 + "t", b"")),
    "levels": (Will("a/b/c", b""), Will("a/b/c/", b"")),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("limit", WILLS)
async def test_a_will_is_held_to_the_limits_of_a_message(version: Version, limit: str) -> None:
    world = LogWorld(payload_bytes=10, topic_bytes=20, topic_levels=3)
    within, beyond = WILLS[limit]
    answer = await answered(world, Connect(version, "within", will=within))
    assert answer is not None
    assert answer.reason == 0
    told = said(await answered(world, Connect(version, "beyond", will=beyond)))
    # 3.1.1 has no return code for it: it is closed in silence.
    too_large = ReasonCode.PACKET_TOO_LARGE, "will over a limit"
    assert told == (too_large if version == Version.V5 else None)
    assert world.core.refusals.counts == {"connection refused (packet_too_large)": 1}
    assert [client for client, _ in world.core.sessions.items()] == ["within"]


@pytest.mark.parametrize("short", [0, 1])
async def test_all_wills_together_are_held_to_a_limit(short: int) -> None:
    one = LogWorld()
    await answered(one, Connect(Version.V5, "first", will=Will("t", b"x")))
    one.core.upkeep.sweep(0.0)
    each = one.core.wills.bytes_held
    world = LogWorld(all_wills_bytes=2 * each - short)
    reasons = []
    for client_id in ("first", "second"):
        answer = await answered(world, Connect(Version.V5, client_id, will=Will("t", b"x")))
        assert answer is not None
        reasons.append(said(answer))
        world.core.upkeep.sweep(0.0)
    full = ReasonCode.QUOTA_EXCEEDED, "all wills over the limit"
    assert reasons == [(0, None), full if short else (0, None)]


@pytest.mark.parametrize("topic", ["$SYS/x", "$share/x", "$"])
async def test_a_will_to_a_topic_of_the_brokers_own_is_forbidden(topic: str) -> None:
    world = LogWorld()
    told = said(await answered(world, Connect(Version.V5, "c", will=Will(topic, b"x"))))
    assert told == (ReasonCode.NOT_AUTHORIZED, "will to a forbidden topic")


async def test_an_authentication_method_is_none_that_is_known() -> None:
    world = LogWorld()
    properties = {PropertyId.AUTHENTICATION_METHOD: "SCRAM-SHA-1"}
    told = said(await answered(world, Connect(Version.V5, "c", properties=properties)))
    assert told == (ReasonCode.BAD_AUTHENTICATION_METHOD, "no such method")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("username", "reason"),
    [("anna", ReasonCode.BAD_USER_NAME_OR_PASSWORD), (None, ReasonCode.NOT_AUTHORIZED)],
)
async def test_who_is_not_let_in_is_told_whether_a_name_was_wrong(
    version: Version, username: str | None, reason: int
) -> None:
    world = LogWorld({"authenticate": lambda client, password: False})
    told = said(await answered(world, Connect(version, "c", username=username)))
    assert told == (reason, "not authenticated" if version == Version.V5 else None)


async def test_a_connack_says_what_was_not_granted_as_it_was_asked_for_and_no_more() -> None:
    """Sections 3.2.2.3: an identifier that was made up, an expiry and a keep alive."""
    world = LogWorld(
        session_expiry_s=50,
        keep_alive_s=60,
        receive_maximum=7,
        packet_bytes=5_000,
        topic_aliases=3,
    )
    always = {
        PropertyId.RECEIVE_MAXIMUM: 7,
        PropertyId.MAXIMUM_PACKET_SIZE: 5_000,
        PropertyId.TOPIC_ALIAS_MAXIMUM: 3,
    }
    expiry = PropertyId.SESSION_EXPIRY_INTERVAL
    plain = await answered(world, Connect(Version.V5, "a", True, 60, properties={expiry: 50}))
    assert plain == ConnAck(False, 0, always)
    asks = {expiry: 51, PropertyId.REQUEST_RESPONSE_INFORMATION: 1}
    more = await answered(world, Connect(Version.V5, "", True, 61, properties=asks))
    assert more is not None
    made_up = more.properties[PropertyId.ASSIGNED_CLIENT_IDENTIFIER]
    assert made_up.startswith("auto-")
    assert more.properties == {
        **always,
        PropertyId.ASSIGNED_CLIENT_IDENTIFIER: made_up,
        expiry: 50,
        PropertyId.SERVER_KEEP_ALIVE: 60,
        PropertyId.RESPONSE_INFORMATION: f"response/{made_up}",
    }
    assert await answered(world, Connect(Version.V311, "b", False, 61)) == ConnAck(False, 0, {})


async def test_a_connack_leaves_out_what_a_client_can_do_without_to_fit_its_maximum() -> None:
    """[MQTT-3.1.2-24]: the response information goes first, then the topic aliases."""
    world = LogWorld()
    asks = {PropertyId.REQUEST_RESPONSE_INFORMATION: 1}
    optional = (PropertyId.TOPIC_ALIAS_MAXIMUM, PropertyId.RESPONSE_INFORMATION)

    async def found(room: int) -> ConnAck | None:
        properties = {**asks, PropertyId.MAXIMUM_PACKET_SIZE: room}
        return await answered(world, Connect(Version.V5, "c", properties=properties))

    whole = await answered(world, Connect(Version.V5, "c", properties=asks))
    assert whole is not None
    size = len(encode(whole, Version.V5))
    fits = await found(size)
    assert fits is not None and fits.properties == whole.properties
    less = await found(size - 1)
    assert less is not None
    assert [one in less.properties for one in optional] == [True, False]
    smaller = len(encode(less, Version.V5))
    least = await found(smaller - 1)
    assert least is not None
    assert [one in least.properties for one in optional] == [False, False]
    assert await found(len(encode(least, Version.V5))) == least
    refused = await found(len(encode(least, Version.V5)) - 1)
    assert refused == ConnAck(False, ReasonCode.PACKET_TOO_LARGE, {})


@pytest.mark.parametrize(
    ("version", "is_clean", "asked_s", "kept_s"),
    [
        (Version.V311, True, None, 0),
        (Version.V311, False, None, 50),
        (Version.V5, True, None, 0),
        (Version.V5, False, None, 0),
        (Version.V5, True, 50, 50),
        (Version.V5, False, 51, 50),
    ],
)
async def test_a_session_lasts_as_long_as_its_version_says_and_the_limit_lets(
    version: Version, is_clean: bool, asked_s: int | None, kept_s: int
) -> None:
    """Sections 3.1.2.4 of 3.1.1 and 3.1.2.11.2 of 5.0."""
    world = LogWorld(session_expiry_s=50)
    expiry = int(PropertyId.SESSION_EXPIRY_INTERVAL)
    properties = {} if asked_s is None else {expiry: asked_s}
    await answered(world, Connect(version, "c", is_clean, properties=properties))
    session = world.core.sessions.get("c")
    assert session is not None
    assert session.expiry_s == kept_s
