"""Direction of packets: `decode` reads what either side may send, so a server asks here.

Whether a packet comes at the right moment (a CONNECT first and only once, an alias that was
introduced, an acknowledgement for a message that was sent) is for the session to judge.
"""

from __future__ import annotations

from typing import Final

from gateway.mqtt.acknowledgements import Auth, Disconnect
from gateway.mqtt.codec import Packet, PingResp
from gateway.mqtt.connack import ConnAck
from gateway.mqtt.errors import protocol_error
from gateway.mqtt.properties import PropertyId
from gateway.mqtt.publish import Publish
from gateway.mqtt.reason_codes import DISCONNECT_BY_CLIENT, ReasonCode
from gateway.mqtt.subscribe import SubAck, UnsubAck

_BY_SERVER_ALONE: Final = (ConnAck, SubAck, UnsubAck, PingResp)


def check_sent_by_client(packet: Packet) -> None:
    """Raise PacketError for a packet, property or reason code that no client may send.

    Raises:
        PacketError: CONNACK, SUBACK, UNSUBACK or PINGRESP (table 2-1); a PUBLISH with a
            subscription identifier [MQTT-3.3.4-6]; a DISCONNECT with a server's reason or
            server reference (section 3.14.2); an AUTH that says success (section 3.15.2.1).

    """
    if isinstance(packet, Publish):
        if packet.properties and PropertyId.SUBSCRIPTION_IDENTIFIER in packet.properties:
            raise protocol_error(
                "PUBLISH with subscription identifier from a client", statement="MQTT-3.3.4-6"
            )
    elif isinstance(packet, Disconnect):
        if packet.reason not in DISCONNECT_BY_CLIENT:
            raise protocol_error(
                "DISCONNECT reason code from a client", packet.reason, "MQTT-3.14.2-1"
            )
        if PropertyId.SERVER_REFERENCE in packet.properties:
            raise protocol_error("DISCONNECT with server reference from a client")
    elif isinstance(packet, Auth):
        if packet.reason == ReasonCode.SUCCESS:
            raise protocol_error("AUTH reason code from a client", packet.reason, "MQTT-3.15.2-1")
    elif isinstance(packet, _BY_SERVER_ALONE):
        raise protocol_error("packet from a client", str(packet))
