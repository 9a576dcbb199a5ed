"""A collector says to all gateways what one that only receives has to say, and nothing else."""

from __future__ import annotations

import pytest

from gateway.node.signing.receivers import MAY_SAY, check
from tree_handler.batch import Entry
from tree_handler.errors import ProtocolError
from tree_handler.routing.interest import TOPIC, Interest


def interest(*, publishes: bool = False, transit: bool = False) -> Entry:
    wanted, none = frozenset(("a/b",)), frozenset[str]()
    record = Interest("store", 1, 1, wanted, wanted if publishes else none, none, transit=transit)
    return Entry(f"{TOPIC}store", record.encode())


def test_what_it_asks_answers_and_wants_is_taken() -> None:
    check(interest())
    for topic in MAY_SAY:
        if topic != TOPIC:
            check(Entry(f"{topic}gw-a", b"anything"))


@pytest.mark.parametrize(("publishes", "transit"), [(True, False), (False, True), (True, True)])
def test_that_it_publishes_or_passes_on_is_not(publishes: bool, transit: bool) -> None:
    with pytest.raises(ProtocolError, match="does more than receive"):
        check(interest(publishes=publishes, transit=transit))


def test_a_record_of_another_kind_is_not() -> None:
    for topic in ("$hedgerow/member/store", "a/b", MAY_SAY[0][1:]):
        with pytest.raises(ProtocolError, match="may not send"):
            check(Entry(topic, b""))
