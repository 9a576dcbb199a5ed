"""A PUBLISH of QoS 2 that comes again is known as the same message, also after a restart."""

from __future__ import annotations

import pytest

from gateway.broker.sessions.unreleased import UnreleasedIdentifiers
from gateway.mqtt import PacketError

MAX = 2


def test_in_one_life_an_identifier_stands_for_one_message_until_it_is_released() -> None:
    unreleased = UnreleasedIdentifiers()
    assert unreleased.begin(7, MAX, is_again=False)
    assert not unreleased.begin(7, MAX, is_again=False)
    assert not unreleased.begin(7, MAX, is_again=True)
    assert unreleased.release(7)
    assert unreleased.begin(7, MAX, is_again=False)


def test_what_comes_again_after_a_restart_is_the_message_that_the_log_has() -> None:
    unreleased = UnreleasedIdentifiers()
    unreleased.restore((7,))
    assert not unreleased.begin(7, MAX, is_again=True)
    assert 7 in unreleased


def test_what_does_not_come_again_is_another_message_though_a_restart_found_its_identifier() -> (
    None
):
    """A sync had failed, the client was told so, and the log has its message all the same."""
    unreleased = UnreleasedIdentifiers()
    unreleased.restore((7, 8))
    assert not unreleased.is_known(7, is_again=False)
    assert unreleased.begin(7, MAX, is_again=False)
    assert not unreleased.begin(
        7, MAX, is_again=False
    )  # from here on it is an exchange of this life
    assert not unreleased.begin(8, MAX, is_again=True)
    assert len(unreleased) == MAX
    with pytest.raises(PacketError, match="unreleased messages"):
        unreleased.begin(9, MAX, is_again=False)


def test_an_identifier_that_was_released_is_found_no_more() -> None:
    unreleased = UnreleasedIdentifiers()
    unreleased.restore((7,))
    assert unreleased.release(7)
    assert unreleased.begin(7, MAX, is_again=False)
    assert not unreleased.begin(7, MAX, is_again=False)
