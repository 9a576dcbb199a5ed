"""One thing that a turn has accepted, from the packet that brought it to the log's answer."""

from __future__ import annotations

from gateway.broker.inbound.publisher import Publisher
from gateway.broker.outbound.message import Message
from gateway.broker.sessions.due_will import DueWill
from gateway.broker.sessions.session import Session


class AcceptedMessage:
    """A message that waits for the log.

    Attributes:
        message: the message; None if it is a QoS 2 message that came again.
        publisher: where it is acknowledged; None for the broker's own (wills), and at QoS 0.
        session: the publisher's; None for the broker's own.
        packet_id: to acknowledge; 0 if nobody waits.
        is_delivered: it is of QoS 0, and has been delivered already.
        will: which will it is; None for no will.

    """

    __slots__ = ("is_delivered", "message", "packet_id", "publisher", "session", "will")

    def __init__(
        self,
        message: Message | None,
        publisher: Publisher | None,
        session: Session | None,
        packet_id: int = 0,
        is_delivered: bool = False,
        will: DueWill | None = None,
    ) -> None:
        self.message = message
        self.publisher = publisher
        self.session = session
        self.packet_id = packet_id
        self.is_delivered = is_delivered
        self.will = will

    @property
    def retains(self) -> str | None:
        """The topic on which it is to be retained when the log has it; None if on none."""
        message = self.message
        if message is None or self.is_delivered or not message.retain:
            return None
        return message.topic

    @property
    def exchange(self) -> tuple[Session, int] | None:
        """The QoS 2 exchange that it is about: session and packet identifier; None for no such."""
        session, message = self.session, self.message
        if session is None or not self.packet_id or (message is not None and message.qos != 2):
            return None
        return session, self.packet_id
