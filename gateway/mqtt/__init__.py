"""MQTT packets, 3.1.1 and 5.0: a codec without sockets, clocks or state.

`Scanner` cuts a stream into packets, `decode` reads one, `encode` writes one. Numbers in square
brackets are normative statements of MQTT 5.0 (OASIS Standard, 7 March 2019), which hold for 3.1.1
too unless said otherwise. Whatever a peer sends, the only error that comes out is `PacketError`,
whose `reason` is what to answer.
"""

from gateway.mqtt.acknowledgements import Auth, Disconnect, PubAck, PubComp, PubRec, PubRel
from gateway.mqtt.codec import Packet, PingReq, PingResp, decode, encode
from gateway.mqtt.connack import ConnAck, refusal
from gateway.mqtt.connect import (
    BRIDGE_BIT,
    LINK_USER_PREFIX,
    Connect,
    Will,
    asked_packet_bytes,
    asked_version,
)
from gateway.mqtt.direction import check_sent_by_client
from gateway.mqtt.errors import PacketError
from gateway.mqtt.kinds import V5, V311, WILL, PacketType, Version
from gateway.mqtt.primitives import body_at, encode_length
from gateway.mqtt.properties import (
    Properties,
    PropertyId,
    decode_properties,
    encode_properties,
)
from gateway.mqtt.publish import Publish, publish_head, read_publish
from gateway.mqtt.reason_codes import ReasonCode
from gateway.mqtt.scanner import Scanner, packet_end
from gateway.mqtt.subscribe import SubAck, Subscribe, SubscriptionRequest, UnsubAck, Unsubscribe
from gateway.mqtt.topic_rules import (
    FilterError,
    check_topic_filter,
    check_topic_name,
    is_shared,
)

__all__ = [
    "BRIDGE_BIT",
    "LINK_USER_PREFIX",
    "V5",
    "V311",
    "WILL",
    "Auth",
    "ConnAck",
    "Connect",
    "Disconnect",
    "FilterError",
    "Packet",
    "PacketError",
    "PacketType",
    "PingReq",
    "PingResp",
    "Properties",
    "PropertyId",
    "PubAck",
    "PubComp",
    "PubRec",
    "PubRel",
    "Publish",
    "ReasonCode",
    "Scanner",
    "SubAck",
    "Subscribe",
    "SubscriptionRequest",
    "UnsubAck",
    "Unsubscribe",
    "Version",
    "Will",
    "asked_packet_bytes",
    "asked_version",
    "body_at",
    "check_sent_by_client",
    "check_topic_filter",
    "check_topic_name",
    "decode",
    "decode_properties",
    "encode",
    "encode_length",
    "encode_properties",
    "is_shared",
    "packet_end",
    "publish_head",
    "read_publish",
    "refusal",
]
