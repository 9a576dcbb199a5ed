"""Topics whose retained message a bridge sent, as long as that is remembered."""

from __future__ import annotations

from gateway.broker.hooks import Client
from gateway.broker.limits import Budget, Limits
from gateway.broker.retained.bridged import RetainedByBridges
from gateway.broker.sessions.session import Session


def session(client_id: str, *, is_bridge: bool) -> Session:
    limits = Limits()
    client = Client(client_id, None, "?", 5, None, is_bridge)
    return Session(client, limits, Budget(limits), None)


def test_a_bridge_knows_its_own_and_so_many_of_the_newest_are_remembered() -> None:
    bridge, other = session("bridge", is_bridge=True), session("other", is_bridge=True)
    plain = session("plain", is_bridge=False)
    bridged = RetainedByBridges(2)

    def own(of: Session = bridge) -> list[str]:
        return [topic for topic in "abcd" if bridged.is_own(topic, of)]

    for topic in "ab":
        bridged.retained(topic, bridge)
    assert (own(), own(other)) == (["a", "b"], [])
    bridged.retained("a", bridge)  # it is the newest now
    bridged.retained("c", other)
    assert (own(), own(other)) == (["a"], ["c"])
    bridged.retained("a", plain)
    bridged.retained("c", None)
    assert (own(), own(other), own(plain)) == ([], [], [])
