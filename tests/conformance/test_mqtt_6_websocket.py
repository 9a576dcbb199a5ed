"""MQTT 3.1.1 and 5.0, section 6: websockets as the transport."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from raw_client import Broker
from raw_packets import V5, V311
from raw_websocket import WebSocketClient

LEVELS = (V311, V5)
Dial = Callable[..., WebSocketClient]


def connected(broker: Broker, client: WebSocketClient, *more: bytes) -> None:
    """CONNECT and what else comes in the same frame; the CONNACK's kind is checked."""
    client.send(b"".join((broker.packets.connect(broker.client_id()), *more)))
    client.expect(b"\x20")


@pytest.mark.statement_3_1_1("MQTT-6.0.0-4")
@pytest.mark.statement_5_0("MQTT-6.0.0-4")
@pytest.mark.parametrize("offered", [("mqtt",), ("amqp", "mqtt")])
def test_the_sub_protocol_mqtt_is_selected(websocket: Dial, offered: tuple[str, ...]) -> None:
    assert websocket(*offered).subprotocol == "mqtt"


@pytest.mark.statement_3_1_1("MQTT-6.0.0-1")
@pytest.mark.statement_5_0("MQTT-6.0.0-1")
def test_packets_come_in_binary_frames(broker: Broker, websocket: Dial) -> None:
    client = websocket("mqtt")
    connected(broker, client)


@pytest.mark.statement_3_1_1("MQTT-6.0.0-1")
@pytest.mark.statement_5_0("MQTT-6.0.0-1")
@pytest.mark.departs("mosquitto-2.0", "takes text frames")
def test_a_text_frame_closes_the_connection(broker: Broker, websocket: Dial) -> None:
    client = websocket("mqtt")
    client.send(broker.packets.connect(broker.client_id()).decode("latin-1"))
    client.expect_end()


@pytest.mark.statement_3_1_1("MQTT-6.0.0-2")
@pytest.mark.statement_5_0("MQTT-6.0.0-2")
def test_a_packet_may_be_spread_over_frames(broker: Broker, websocket: Dial) -> None:
    client = websocket("mqtt")
    packet = broker.packets.connect(broker.client_id())
    client.send(*(packet[i : i + 1] for i in range(len(packet))))
    client.expect(b"\x20")


@pytest.mark.statement_3_1_1("MQTT-6.0.0-2")
@pytest.mark.statement_5_0("MQTT-6.0.0-2")
def test_a_frame_may_hold_packets_and_the_beginning_of_one(broker: Broker, websocket: Dial) -> None:
    topic = broker.topic()
    subscriber = broker.subscriber(topic)
    client = websocket("mqtt")
    first, second = (broker.packets.publish(topic, payload) for payload in (b"1", b"2"))
    connected(broker, client, first, second[:3])
    client.send(second[3:])
    subscriber.expect_publish(topic, b"1")
    subscriber.expect_publish(topic, b"2")
