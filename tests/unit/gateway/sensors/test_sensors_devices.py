"""Devices that speak MQTT or CoAP join as sensors and actuators, without code."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiocoap.numbers.codes import Code
from fleet_gateway import Fleet, FleetGateway, until
from hypothesis import given
from hypothesis import strategies as st
from mqtt_peer import Peer

from coap_engine.blocks import Block
from coap_engine.codec import ACK, NON, CoapMessage
from coap_engine.codec import decode as decode_message
from coap_engine.message import Option
from coap_engine.option_numbers import BLOCK2, OBSERVE
from gateway.coap_client import ClientError, CoapClient, Response
from gateway.mqtt import Publish
from gateway.sensors import senml
from gateway.sensors.catalogue import Workshop
from gateway.sensors.coap_device import CoapDevice, CoapSensor
from gateway.sensors.mqtt_device import MessageError, MessageForm, MqttActuator, pointed
from gateway.sensors.options import SensorConfigError
from gateway.sensors.sampler import CALL_S, Sampler
from gateway.sensors.sensor import SensorError, ValueRefusedError
from record_formats.record import Record, decode
from record_formats.value import Value

DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, " ": 7}


# -- what a message says ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        *[("", DOCUMENT), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1)],
        *[("/m~0n", 8), ("/ ", 7)],
    ],
)
def test_rfc6901_5_a_pointer_finds_its_place(pointer: str, found: object) -> None:
    assert pointed(DOCUMENT, pointer) == found


@pytest.mark.parametrize("pointer", ["/x", "/foo/2", "/foo/-", "/foo/01", "/foo/0/x", "/foo/²"])
def test_a_pointer_to_nothing_is_named(pointer: str) -> None:
    with pytest.raises(MessageError, match="nothing there"):
        pointed(DOCUMENT, pointer)


@pytest.mark.parametrize(
    ("form", "message", "value"),
    [
        (MessageForm(), b" 21.5\n", 21.5),
        (MessageForm(kind="boolean"), b"ON", True),
        (MessageForm(kind="boolean", on="open", off="shut"), b"shut", False),
        (MessageForm(kind="text"), b"ajar", "ajar"),
        (MessageForm(kind="bytes"), b"\x00\xff", b"\x00\xff"),
        (MessageForm("json", pointer="/t"), b'{"t": 21.5}', 21.5),
        (MessageForm("json", pointer="/t"), b'{"t": "21.5"}', 21.5),
        (MessageForm("json", "boolean", "/contact"), b'{"contact": false}', False),
        (MessageForm("json", "boolean", "/state", "ON", "OFF"), b'{"state": "ON"}', True),
        (MessageForm("json", "boolean", "/s", "7", "8"), b'{"s": 7}', True),
        (MessageForm("json", "text"), b'{"a":1}', '{"a": 1}'),
        (MessageForm("senml"), b'[{"n":"a","v":2}]', 2.0),
        (
            MessageForm("senml", "text", "x/b"),
            b'[{"bn":"x/","n":"a","v":2},{"n":"b","vs":"c"}]',
            "c",
        ),
    ],
)
def test_a_message_says_its_value(form: MessageForm, message: bytes, value: Value) -> None:
    found = form.value(message)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("form", "message", "why"),
    [
        (MessageForm(), b"open", "not a number"),
        (MessageForm(), b"\xff", "invalid start byte"),
        (MessageForm(kind="boolean", on="open", off="shut"), b"ON", "neither 'open' nor 'shut'"),
        (MessageForm("json", pointer="/t"), b'{"t": null}', "no number, text"),
        (MessageForm("json", pointer="/t"), b"{", "Expecting"),
        (MessageForm("json", pointer="/t"), b'{"t": NaN}', "no finite number"),
        (MessageForm("json", pointer="/t"), b'{"t": %s}' % (b"9" * 401), "no float holds"),
        (MessageForm("json"), b"-" + b"9" * 401, "no float holds"),
        (MessageForm("json"), b"9" * 5_000, "Exceeds the limit"),
        (MessageForm("json"), b"1e999", "no finite number"),
        (MessageForm(), b"9" * 401, "not a finite number"),
        (MessageForm("senml"), b'[{"v":%s}]' % (b"9" * 401), "out of range"),
        (MessageForm("senml"), b'[{"v":1,"t":%s}]' % (b"9" * 401), "out of range"),
        (MessageForm("json", "text"), b'"\\ud800"', "no Unicode text"),
        (MessageForm("json", "boolean", "/s", "7", "8"), b'{"s": "\\ud800"}', "neither"),
        (MessageForm("json", "bytes"), b'"\\ud800"', "no base64url"),
        (MessageForm("senml", pointer="b"), b'[{"n":"a","v":2}]', "no record 'b'"),
        (MessageForm("senml"), b'[{"n":"a","vs":"x"}]', "not a number"),
        (MessageForm(kind="text"), b"x" * 65_537, "over 65536"),
    ],
)
def test_a_message_that_says_none_is_refused_with_the_reason(
    form: MessageForm, message: bytes, why: str
) -> None:
    with pytest.raises(MessageError, match=why):
        form.value(message)


@given(
    st.binary(max_size=60),
    st.sampled_from(["text", "json", "senml"]),
    st.sampled_from(["number", "text", "boolean", "bytes"]),
)
def test_any_message_is_read_or_refused(message: bytes, payload: str, kind: Any) -> None:
    try:
        MessageForm(payload, kind).value(message)
    except MessageError as error:
        assert str(error)


def lamp_of_the_documentation() -> MqttActuator:
    """Build the lamp of the example in docs/sensors.md."""
    page = (Path(__file__).parents[4] / "docs/sensors.md").read_text()
    tables = tomllib.loads(page.split("```toml")[1].partition("```")[0])["sensors"]
    (lamp,) = Workshop().build([one for one in tables if one["name"] == "lamp"])
    assert isinstance(lamp.sensor, MqttActuator)
    return lamp.sensor


async def test_the_lamp_of_the_documentation_answers_for_as_long_as_a_message_holds() -> None:
    now = [100.0]
    sampler = Sampler(lambda *_: None, clock=lambda: now[0])
    lamp = lamp_of_the_documentation()
    lamp.push = partial(sampler.push, lamp)
    sampler.add(lamp)
    lamp.hear("zigbee2mqtt/lamp", b'{"state": "ON"}')
    for passed_s in (1.0, 1.5, 299.0):
        now[0] = 100.0 + passed_s
        assert (await sampler.current(lamp)).value is True
    now[0] = 400.1
    with pytest.raises(SensorError, match="nothing of late"):
        await sampler.current(lamp)


# -- in a gateway ----------------------------------------------------------------------------------

DEVICES = """
[[sensors]]
type = "mqtt"
name = "door"
topic = "zigbee/door"
pointer = "/contact"
kind = "boolean"
[[sensors]]
type = "mqtt"
name = "lamp"
topic = "zigbee/lamp"
command_topic = "zigbee/lamp/set"
kind = "boolean"
on = "ON"
off = "OFF"
[[sensors]]
type = "mqtt"
name = "loop"
topic = "-/-/gw-a/lamp"
[[sensors]]
type = "switch"
name = "valve"
"""


class Place:
    """A gateway, an MQTT client and a CoAP client of it."""

    def __init__(self, gateway: FleetGateway, peer: Peer) -> None:
        self.gateway = gateway
        self.peer = peer
        self.client = CoapClient()

    def uri(self, sensor: str) -> str:
        return f"coap://127.0.0.1:{self.gateway.process.parts.coap.coap_port}/sensors/{sensor}"

    async def get(self, sensor: str) -> Response:
        return await self.client.request("GET", self.uri(sensor), accept=0)

    def publish(self, topic: str, payload: bytes, qos: int = 1) -> None:
        self.peer.send(Publish(topic, payload, qos, False, False, 7 if qos else None, {}))

    async def told(self, topic: str) -> bytes:
        while True:
            packet = await self.peer.next()
            assert packet is not None
            if isinstance(packet, Publish) and packet.topic == topic:
                return bytes(packet.payload)

    async def add(self, **table: Any) -> None:
        await self.gateway.process.parts.readings.add(table)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    fleet = Fleet(tmp_path)
    gateway = fleet.gateway("gw-a", tls=False)
    gateway.mqtt = DEVICES
    await gateway.start()
    peer = Peer(*await asyncio.open_connection("127.0.0.1", gateway.port), version=4)
    assert await peer.connect("probe") == 0
    made = Place(gateway, peer)
    yield made
    await made.client.close()
    peer.close()
    await fleet.stop()


async def test_what_a_device_publishes_is_a_resource_and_a_record(place: Place) -> None:
    await place.peer.subscribe("-/-/gw-a/#")
    assert (await place.get("door")).code == "5.03"
    for qos in (1, 0):
        is_shut = qos == 1
        place.publish("zigbee/door", json.dumps({"contact": is_shut}).encode(), qos)
        record = decode(await place.told("-/-/gw-a/door"))
        assert (record.value, record.number) == (is_shut, 2 - qos)
        assert (await place.get("door")).payload == (b"true" if is_shut else b"false")
    place.publish("zigbee/door", b"{}")
    bad = decode(await place.told("-/-/gw-a/door"))
    assert (bad.value, bad.quality, bad.number) == (None, "bad", 3)


async def test_an_actuator_tells_its_device_and_is_uncertain_until_it_confirms(
    place: Place,
) -> None:
    await place.peer.subscribe("#")
    put = await place.client.request("PUT", place.uri("lamp"), payload=b"true", content_format=0)
    assert put.code == "2.04"
    heard = {await place.told("zigbee/lamp/set")}
    assert heard == {b"ON"}
    (found,) = senml.decode((await place.client.request("GET", place.uri("lamp"))).payload)
    assert (found.value, found.quality, found.tags) == (True, "uncertain", {"why": "not confirmed"})
    place.publish("zigbee/lamp", b"OFF")
    while (record := decode(await place.told("-/-/gw-a/lamp"))).quality != "good":
        pass
    assert record == Record("lamp", "", False, record.time_s, record.number)


async def test_other_gateways_learn_which_topics_are_wanted_as_sensors_come_and_go(
    place: Place,
) -> None:
    class Told:
        def __init__(self) -> None:
            self.wanted = list[str]()

        def subscribed(self, topic_filter: str) -> None:
            self.wanted.append(topic_filter)

        def unsubscribed(self, topic_filter: str) -> None:
            self.wanted.remove(topic_filter)

    told, readings = Told(), place.gateway.process.parts.readings
    readings.wish(told)
    await place.add(type="mqtt", name="gate", topic="zigbee/gate")
    assert told.wanted == ["zigbee/gate"]
    assert set(readings.command_topics) == {"zigbee/door", "zigbee/lamp", "zigbee/gate"}
    await readings.remove("gate")
    assert told.wanted == []


async def test_an_end_is_not_lost_that_comes_in_the_midst_of_a_time_out(place: Place) -> None:
    readings = place.gateway.process.parts.readings

    async def sampled() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # as `asyncio.timeout` does
            if sampling.uncancel():
                raise
        await asyncio.Event().wait()

    readings._sampling = sampling = asyncio.create_task(sampled())
    await asyncio.sleep(0)
    sampling.cancel()  # the time-out's own, of which the task has not heard yet
    async with asyncio.timeout(30):
        await readings.stop()
    assert readings._sampling.done()


async def test_a_sensor_does_not_hear_those_of_its_gateway(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    assert "-/-/gw-a/lamp" not in place.gateway.process.parts.readings.command_topics
    await place.add(type="mqtt", name="echo", topic="-/-/gw-a/door")
    assert "sensor echo: -/-/gw-a/door is a sensor's of this gateway" in caplog.text


async def test_a_coap_device_is_asked_and_set(place: Place) -> None:
    await place.add(type="coap", name="far", uri=place.uri("valve"), writable=True)
    assert (await place.get("far")).payload == b"0.0"
    put = await place.client.request("PUT", place.uri("far"), payload=b"1", content_format=0)
    assert put.code == "2.04"
    assert [(await place.get(name)).payload for name in ("valve", "far")] == [b"1.0", b"1.0"]
    refused = await place.client.request("PUT", place.uri("far"), payload=b"5", content_format=0)
    assert (refused.code, refused.payload) == ("4.00", b"the device: 5.0 is neither 0 nor 1")


async def test_a_coap_device_is_observed_and_its_end_is_told(place: Place) -> None:
    await place.peer.subscribe("-/-/gw-a/far")
    await place.add(type="coap", name="far", uri=place.uri("valve"), observe=True)
    assert decode(await place.told("-/-/gw-a/far")).value == 0.0
    await place.client.request("PUT", place.uri("valve"), payload=b"1", content_format=0)
    while decode(await place.told("-/-/gw-a/far")).value != 1.0:
        pass
    place.gateway.mqtt = DEVICES.replace('name = "valve"', 'name = "other"')
    place.gateway.write()
    await place.gateway.process.reload()
    while decode(await place.told("-/-/gw-a/far")).quality != "bad":
        pass
    readings = place.gateway.process.parts.readings
    await readings.remove("far")
    await until(lambda: readings.closing == 0)


class Forgetful(asyncio.DatagramProtocol):
    """A device that lets itself be observed, and knows nothing of it any more at once."""

    def __init__(self) -> None:
        self.asked = 0
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if data[1] != int(Code.GET):
            return
        self.asked += 1
        token = data[4 : 4 + (data[0] & 0x0F)]
        # Observe (6), Content-Format (12) of text, and the payload (RFC 7252, section 3).
        said = bytes((0x61, self.asked, 0x60, 0xFF)) + str(self.asked).encode()
        acknowledged = bytes((0x60 | len(token), int(Code.CONTENT))) + data[2:4] + token
        self._transport.sendto(acknowledged + said, addr)


async def test_rfc7641_3_3_1_a_coap_device_that_forgot_its_observers_is_observed_again() -> None:
    loop, heard, told = asyncio.get_running_loop(), list[Any](), asyncio.Event()

    def push(outcome: Any) -> None:
        heard.append(outcome)
        if len(heard) == 3:
            told.set()

    transport, _ = await loop.create_datagram_endpoint(Forgetful, ("127.0.0.1", 0))
    uri = f"coap://127.0.0.1:{transport.get_extra_info('sockname')[1]}/t"
    sensor = CoapSensor("far", CoapDevice(uri, MessageForm(), is_observed=True), interval_s=0.1)
    sensor.push = push
    sensor.begin()
    await told.wait()
    await sensor.close()
    transport.close()
    assert heard == [1.0, 2.0, 3.0]


class Plain(asyncio.DatagramProtocol):
    """A device that answers, and lets nobody observe it."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        token = data[4 : 4 + (data[0] & 0x0F)]
        acknowledged = bytes((0x60 | len(token), int(Code.CONTENT))) + data[2:4] + token
        self._transport.sendto(acknowledged + b"\xc0\xff7", addr)


async def test_a_coap_device_that_answers_but_can_not_be_observed_is_named() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Plain, ("127.0.0.1", 0))
    heard: asyncio.Queue[Any] = asyncio.Queue()
    uri = f"coap://127.0.0.1:{transport.get_extra_info('sockname')[1]}/value"
    sensor = CoapSensor("far", CoapDevice(uri, MessageForm(), is_observed=True), interval_s=60.0)
    sensor.push = heard.put_nowait
    sensor.begin()
    async with asyncio.timeout(30):
        assert await heard.get() == 7.0
        assert str(await heard.get()) == f"{uri}: can't be observed"
    await sensor.close()
    transport.close()


class Endless(asyncio.DatagramProtocol):
    """A device that always has one block more; who observes it is told one value before that."""

    def __init__(self) -> None:
        self.asked = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        asked = decode_message(data)
        if asked.code != Code.GET:
            return
        self.asked += 1
        options = dict(asked.options)
        number = Block.decode(options[BLOCK2]).number if BLOCK2 in options else 0
        block = (BLOCK2, Block(number, True, 6).encode())

        def tell(kind: int, options: tuple[Option, ...], payload: bytes) -> None:
            message_id = asked.message_id if kind == ACK else self.asked
            said = CoapMessage(kind, Code.CONTENT, message_id, asked.token, options, payload)
            self._transport.sendto(said.encode(), addr)

        if OBSERVE in options and number == 0:
            tell(ACK, ((OBSERVE, b"\1"),), b"7")
            tell(NON, ((OBSERVE, b"\2"), block), bytes(1_024))
        else:
            tell(ACK, (block,), bytes(1_024))


@pytest.mark.parametrize("is_observed", [False, True])
async def test_a_coap_device_whose_answer_does_not_end_is_named(is_observed: bool) -> None:
    loop = asyncio.get_running_loop()
    transport, device = await loop.create_datagram_endpoint(Endless, ("127.0.0.1", 0))
    uri = f"coap://127.0.0.1:{transport.get_extra_info('sockname')[1]}/value"
    form = CoapDevice(uri, MessageForm(), is_observed=is_observed)
    sensor = CoapSensor("far", form, interval_s=60.0)
    heard: asyncio.Queue[Any] = asyncio.Queue()
    sensor.push = heard.put_nowait
    async with asyncio.timeout(30):
        if is_observed:
            sensor.begin()
            assert await heard.get() == 7.0
            failure = await heard.get()
        else:
            with pytest.raises(ClientError) as raised:
                await sensor.read()
            failure = raised.value
    assert str(failure) == f"{uri}: an answer of more than 65536 bytes"
    assert device.asked < 70
    await sensor.close()
    transport.close()


class TimedClient(CoapClient):
    """Notes how long an answer may take."""

    def __init__(self) -> None:
        super().__init__()
        self.limits_s: list[float] = []

    async def request(
        self, method: str, uri: str, *, timeout_s: float = 10.0, **_of_request: Any
    ) -> Response:
        assert uri == "coaps://h/t"
        self.limits_s.append(timeout_s)
        return Response("2.05" if method == "GET" else "2.04", b"1", None)


class TimedDevice(CoapDevice):
    """A device whose client answers for it."""

    timed: TimedClient

    @property
    def client(self) -> CoapClient:
        return self.timed


async def test_the_client_of_a_coap_device_notes_its_silence_before_the_call_is_ended() -> None:
    device = TimedDevice("coaps://h/t", MessageForm())
    device.timed = TimedClient()
    await device.get()
    await device.put(1.0)
    assert len(device.timed.limits_s) == 2
    assert max(device.timed.limits_s) < CALL_S


async def test_a_coap_device_that_is_not_there_says_so(place: Place) -> None:
    await place.add(type="coap", name="far", uri=place.uri("nobody"))
    answer = await place.get("far")
    assert (answer.code, b"4.04" in answer.payload) == ("5.03", True)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"type": "mqtt"}, "topic: missing"),
        ({"type": "mqtt", "topic": "a/#"}, "topic: "),
        ({"type": "mqtt", "topic": "$SYS/a"}, "topic: '$SYS/a' is no topic of clients"),
        ({"type": "mqtt", "topic": "a", "command_topic": "a"}, "command_topic: is the device's"),
        ({"type": "mqtt", "topic": "a", "pointer": "x"}, "pointer: 'x' does not begin with '/'"),
        ({"type": "mqtt", "topic": "a", "payload": "text", "pointer": "/x"}, "pointer: text has"),
        ({"type": "mqtt", "topic": "a", "kind": "flag"}, "kind: 'flag' is none of"),
        ({"type": "mqtt", "topic": "a", "on": "x"}, "on: needs another `off`"),
        ({"type": "coap", "uri": "http://a"}, "uri: http://a: scheme 'http'"),
        ({"type": "coap", "uri": "coaps://a"}, "psk_file: missing"),
        ({"type": "coap", "uri": "coap://a", "speed": 1}, "speed: unknown key"),
    ],
)
def test_a_wrong_table_of_a_device_is_named(table: dict[str, Any], named: str) -> None:
    with pytest.raises(SensorConfigError) as raised:
        Workshop().build([{"name": "a", **table}])
    assert str(raised.value).removeprefix("sensors[0].").startswith(named)


KEYS = "garden:" + "ab" * 16 + "\nroof:" + "cd" * 16 + "\n"


@pytest.mark.parametrize(
    ("keys", "more", "named"),
    [
        (None, {}, "psk_file: {}: No such file or directory"),
        ("no key", {}, "psk_file: {}:1: no colon"),
        ("# none yet\n", {}, "psk_identity: missing"),
        (KEYS, {"psk_identity": "shed"}, "psk_identity: 'shed' is not in {}"),
    ],
)
def test_a_key_of_a_coap_device_that_is_not_there_is_named(
    tmp_path: Path, keys: str | None, more: dict[str, Any], named: str
) -> None:
    file = tmp_path / "keys"
    table = {"type": "coap", "name": "a", "uri": "coaps://a", "psk_file": str(file), **more}
    if keys is not None:
        file.write_text(keys)
        file.chmod(0o600)
    with pytest.raises(SensorConfigError) as raised:
        Workshop().build([table])
    assert str(raised.value).removeprefix("sensors[0].").startswith(named.format(file))


def test_a_coap_device_is_known_by_the_first_key_of_its_file_or_by_that_of_its_table(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys"
    file.write_text(KEYS)
    file.chmod(0o600)
    table = {"type": "coap", "name": "a", "uri": "coaps://a", "psk_file": str(file)}
    for more in ({}, {"psk_identity": "roof"}):
        (built,) = Workshop().build([{**table, **more}])
        assert isinstance(built.sensor, CoapSensor)


class AnsweringClient(CoapClient):
    """Gives one answer, and notes what it was asked."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[tuple[str, Any, Any]] = []

    async def request(self, method: str, uri: str, **of_request: Any) -> Response:
        assert uri == "coap://h/t"
        self.asked.append((method, of_request.get("payload"), of_request.get("content_format")))
        return self.answer


class AnsweringDevice(CoapDevice):
    """A device whose client has one answer."""

    answers: AnsweringClient

    @property
    def client(self) -> CoapClient:
        return self.answers


async def test_what_a_coap_device_answers_to_a_value_is_told_whole() -> None:
    device = AnsweringDevice("coap://h/t", MessageForm())

    def answer(code: str, payload: bytes = b"") -> None:
        device.answers = AnsweringClient(Response(code, payload, None))

    answer("2.04")
    await device.put(1.5)
    await device.put(b"\x00\xff")
    assert device.answers.asked == [("PUT", b"1.5", 0), ("PUT", b"\x00\xff", 42)]
    answer("4.00", b"x" * 81)
    with pytest.raises(ValueRefusedError, match=rf"^the device: {'x' * 80}$"):
        await device.put(1.0)
    for code, payload, why in (
        ("4.05", b"", "4.05"),
        ("5.03", b"wait\xff", "5.03 wait\ufffd"),
        ("4.01", b"no", "4.01 no"),
    ):
        answer(code, payload)
        with pytest.raises(ClientError, match=f"^{re.escape(why)}$"):
            await device.put(1.0)
        with pytest.raises(ClientError, match=f"^{re.escape(why)}$"):
            await device.get()


@pytest.mark.parametrize(
    ("pointer", "payload", "found"),
    [
        *[("", b'[{"n":"a","v":1},{"n":"b","v":2}]', 1.0)],
        *[("b", b'[{"n":"a","v":1},{"n":"b","v":2}]', 2.0)],
        *[("c", b'[{"n":"a","v":1}]', "no record 'c'"), ("", b'[{"s":1}]', "no record ''")],
        ("", b'[{"vs":"x"}]', "'x' is not a number"),
    ],
)
async def test_of_a_pack_the_record_is_taken_that_the_pointer_names(
    pointer: str, payload: bytes, found: float | str
) -> None:
    device = AnsweringDevice("coap://h/t", MessageForm("text", "number", pointer))
    device.answers = AnsweringClient(Response("2.05", payload, senml.CONTENT_FORMAT))
    if isinstance(found, float):
        assert await device.get() == found
        return
    with pytest.raises(ValueError, match=found):
        await device.get()
