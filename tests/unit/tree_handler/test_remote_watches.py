"""Observed resources of other gateways: one subscription for all, renewed, and its end told."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tree_handler.remote.options import MAX_AGE
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.remote.watches import (
    GRACE_S,
    LEASE_S,
    BeginWatch,
    EndWatch,
    Notify,
    RemoteWatches,
    WatchKey,
)

LOAD = ResourceRequest("GET", ("sensors", "load"), identity="psk:a", roles=("reader",))
KEY = WatchKey("gw-b", LOAD)
SUBSCRIBE = [BeginWatch(1, KEY)]


def value(body: bytes, max_age_s: int = 5) -> ResourceResponse:
    return ResourceResponse(0x45, body, 0, ((MAX_AGE, bytes([max_age_s])),))


def watched(*observers: int) -> RemoteWatches:
    """Observers of one resource, told of b"1" at the time 0."""
    watches = RemoteWatches()
    for observer in observers:
        watches.add(KEY, observer, 1, 0.0)
    watches.told(1, value(b"1"), 0.0, goes_on=True)
    return watches


def test_however_many_observe_there_is_one_subscription_and_each_change_is_told_to_all() -> None:
    watches = RemoteWatches()
    assert watches.add(KEY, 1, 1, 0.0) == SUBSCRIBE
    assert [watches.add(KEY, observer, 1, 0.0) for observer in range(2, 1_001)] == [[]] * 999
    [told] = watches.told(1, value(b"1"), 0.0, goes_on=True)
    assert isinstance(told, Notify)
    assert (len(told.observers), told.is_last) == (1_000, False)
    assert (len(watches), watches.observers) == (1, 1_000)


def test_who_comes_later_is_told_what_is_known_with_what_is_left_of_its_age() -> None:
    watches = watched(1)
    assert watches.add(KEY, 2, 1, 2.5) == [Notify(KEY, (2,), value(b"1", 3), False)]


def test_observers_with_other_rights_or_names_have_a_subscription_of_their_own() -> None:
    watches = watched(1)
    for other in (replace(LOAD, roles=("admin", "reader")), replace(LOAD, identity="psk:b")):
        [action] = watches.add(WatchKey("gw-b", other), hash(other.roles), 1, 0.0)
        assert isinstance(action, BeginWatch)


def test_with_the_last_observer_the_subscription_ends() -> None:
    watches = watched(1, 2)
    assert watches.remove(1) == []
    assert watches.remove(2) == [EndWatch(1)]
    assert watches.remove(2) == []
    assert (len(watches), watches.observers) == (0, 0)
    assert watches.told(1, value(b"2"), 1.0, goes_on=True) == []


def test_a_lease_is_renewed_at_its_half_and_only_news_are_told() -> None:
    watches = watched(1)
    assert watches.next_timer() == LEASE_S / 2
    watches.told(1, value(b"1"), 29.0, goes_on=True)
    assert watches.handle_timer(30.0) == SUBSCRIBE
    assert watches.told(1, value(b"1"), 30.1, goes_on=True) == []
    assert watches.handle_timer(60.1) == SUBSCRIBE
    missed = watches.told(1, value(b"3"), 60.2, goes_on=True)
    assert missed == [Notify(KEY, (1,), value(b"3"), False)]


def test_what_is_no_longer_fresh_is_told_again_when_it_is_renewed() -> None:
    watches = watched(1)
    watches.handle_timer(30.0)
    again = watches.told(1, value(b"1"), 30.1, goes_on=True)
    assert again == [Notify(KEY, (1,), value(b"1"), False)]


def test_renewals_that_fail_are_tried_again_until_the_lease_is_over() -> None:
    watches, now, tries = watched(1), 30.0, 0
    while watches.handle_timer(now) == SUBSCRIBE:
        tries += 1
        found = watches.told(1, None, now, goes_on=False)
        if found:
            break
        now = watches.next_timer()
    assert found == [Notify(KEY, (1,), None, True)]
    assert LEASE_S <= now < LEASE_S + 9
    assert 5 <= tries <= 9
    assert len(watches) == 0


def test_the_pause_behind_a_failed_renewal_doubles_to_8_s_and_begins_anew_after_an_answer() -> None:
    watches = watched(1)

    def pauses(count: int, now: float) -> list[float]:
        found = []
        for _ in range(count):
            assert watches.handle_timer(now) == SUBSCRIBE
            assert watches.told(1, ResourceResponse(0xA3), now, goes_on=False) == []
            found.append(watches.next_timer() - now)
            now = watches.next_timer()
        return found

    assert pauses(5, LEASE_S / 2) == [1.0, 2.0, 4.0, 8.0, 8.0]
    now = watches.next_timer()
    assert watches.handle_timer(now) == SUBSCRIBE
    watches.told(1, value(b"2"), now, goes_on=True)
    assert watches.next_timer() == now + LEASE_S / 2
    assert pauses(2, now + LEASE_S / 2) == [1.0, 2.0]


def test_an_answer_that_does_not_say_how_long_it_is_fresh_is_so_for_60_s() -> None:
    said = ResourceResponse(0x45, b"1")
    watches = RemoteWatches(lease_s=200.0)
    watches.add(KEY, 1, 1, 0.0)
    watches.told(1, said, 0.0, goes_on=True)
    for now, told in ((59.9, []), (60.0, [Notify(KEY, (1,), said, False)])):
        watches.moved({"gw-b": int(now)}.get, now)
        assert watches.told(1, said, now, goes_on=True) == told
    assert watches.add(KEY, 2, 60, 70.0) == [Notify(KEY, (2,), said, False)]


def test_a_gateway_in_another_life_is_asked_at_once_and_goes_on() -> None:
    watches = watched(1)
    assert watches.moved({"gw-b": 1}.get, 1.0) == []
    assert watches.moved({"gw-b": 2}.get, 2.0) == SUBSCRIBE
    after = watches.told(1, value(b"9"), 2.1, goes_on=True)
    assert after == [Notify(KEY, (1,), value(b"9"), False)]


def test_a_gateway_that_is_out_of_reach_for_a_moment_is_asked_when_it_is_back() -> None:
    watches = watched(1)
    assert watches.moved({}.get, 1.0) == []
    assert watches.handle_timer(1.0 + GRACE_S - 0.1) == []
    assert watches.moved({"gw-b": 1}.get, 2.0) == SUBSCRIBE
    watches.told(1, value(b"1"), 2.1, goes_on=True)
    assert watches.handle_timer(1.0 + GRACE_S) == []


def test_observers_of_a_gateway_that_stays_away_are_told() -> None:
    watches = watched(1, 2)
    watches.moved({}.get, 1.0)
    told = watches.handle_timer(1.0 + GRACE_S)
    assert told == [Notify(KEY, (1, 2), None, True), EndWatch(1)]


def test_an_error_ends_it_with_the_reason() -> None:
    watches = watched(1)
    gone = ResourceResponse(0x84, b"removed")
    assert watches.told(1, gone, 1.0, goes_on=False) == [Notify(KEY, (1,), gone, True)]
    assert watches.next_timer() == float("inf")


def test_what_cannot_be_observed_is_answered_once() -> None:
    watches = RemoteWatches()
    watches.add(KEY, 1, 1, 0.0)
    answer = watches.told(1, value(b"1"), 0.0, goes_on=False)
    assert answer == [Notify(KEY, (1,), value(b"1"), True)]


def test_subscriptions_are_bounded() -> None:
    watches = RemoteWatches(max_watches=1)
    watches.add(KEY, 1, 1, 0.0)
    assert watches.has_room(KEY)
    assert not watches.has_room(WatchKey("gw-c", LOAD))


# -- Hop-Limit -------------------------------------------------------------------------------------

TOO_FAR = ResourceResponse(0xA8, b"gw-b")


def test_a_subscription_may_go_as_far_as_any_of_its_observers_says() -> None:
    watches = RemoteWatches()
    assert watches.add(KEY, 1, 1, 0.0, 2) == [BeginWatch(1, KEY, 2)]
    assert watches.add(KEY, 2, 1, 0.0, 3) == []
    assert watches.add(KEY, 3, 1, 0.0) == []
    watches.told(1, value(b"1"), 0.0, goes_on=True)
    assert watches.handle_timer(LEASE_S / 2) == [BeginWatch(1, KEY)]
    watches.told(1, value(b"1"), LEASE_S / 2, goes_on=True)
    watches.remove(3)
    assert watches.handle_timer(LEASE_S) == [BeginWatch(1, KEY, 3)]


def test_for_whom_it_was_too_far_is_told_so_and_the_others_observe() -> None:
    watches = RemoteWatches()
    for observer, hops in ((1, 2), (2, 3), (3, None), (4, 1)):
        watches.add(KEY, observer, 1, 0.0, hops)
    assert watches.told(1, TOO_FAR, 0.1, goes_on=False) == [
        Notify(KEY, (1, 4), TOO_FAR, True),
        BeginWatch(1, KEY),
    ]
    told = watches.told(1, value(b"1"), 0.2, goes_on=True)
    assert told == [Notify(KEY, (2, 3), value(b"1"), False)]


def test_when_it_is_too_far_for_all_the_subscription_ends() -> None:
    watches = RemoteWatches()
    watches.add(KEY, 1, 1, 0.0, 2)
    assert watches.told(1, TOO_FAR, 0.1, goes_on=False) == [Notify(KEY, (1,), TOO_FAR, True)]
    assert (len(watches), watches.observers) == (0, 0)


def test_a_tree_in_which_it_is_further_away_ends_it_for_whom_that_is_too_far() -> None:
    watches = RemoteWatches()
    watches.add(KEY, 1, 1, 0.0, 2)
    watches.add(KEY, 2, 1, 0.0, 4)
    watches.told(1, value(b"1"), 0.0, goes_on=True)
    watches.moved(lambda _: None, 1.0)
    assert watches.moved(lambda _: 1, 2.0) == [BeginWatch(1, KEY, 4)]
    assert watches.told(1, TOO_FAR, 2.1, goes_on=False) == [Notify(KEY, (1, 2), TOO_FAR, True)]


def test_a_refusal_of_the_asking_before_ends_nobody_who_may_be_passed_on_further() -> None:
    watches = RemoteWatches()
    watches.add(KEY, 1, 1, 0.0, 2)
    watches.add(KEY, 2, 1, 0.0, 5)
    assert watches.moved(lambda _: 2, 0.1) == [BeginWatch(1, KEY, 5)]
    assert watches.told(1, TOO_FAR, 0.2, goes_on=False) == [
        Notify(KEY, (1,), TOO_FAR, True),
        BeginWatch(1, KEY, 5),
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from("arntfxmhl"), st.integers(1, 3), st.integers(0, 40)), max_size=60
    )
)
def test_whatever_happens_who_observes_is_told_the_end_or_has_a_subscription(
    steps: list[tuple[str, int, int]],
) -> None:
    watches, now, count = RemoteWatches(), 0.0, 0
    observing: dict[int, WatchKey] = {}
    asked: dict[int, WatchKey] = {}
    epochs: dict[str, int | None] = {"gw-b": 1}
    for step, which, more in steps:
        now += more / 4
        key = WatchKey("gw-b", replace(LOAD, path=(f"p{which}",)))
        number = sorted(asked)[which % len(asked)] if asked else 0
        actions = []
        match step:
            case "a":
                count += 1
                observing[count] = key
                actions = watches.add(key, count, epochs["gw-b"], now)
            case "l":
                count += 1
                observing[count] = key
                actions = watches.add(key, count, epochs["gw-b"], now, more + 1)
            case "h":
                actions = watches.told(number, ResourceResponse(0xA8), now, goes_on=False)
            case "r" if observing:
                gone = sorted(observing)[which % len(observing)]
                del observing[gone]
                actions = watches.remove(gone)
            case "n":
                actions = watches.told(number, value(bytes([more])), now, goes_on=True)
            case "f":
                actions = watches.told(number, None, now, goes_on=False)
            case "x":
                actions = watches.told(number, ResourceResponse(0x84), now, goes_on=False)
            case "t":
                now += 2 * more
                actions = watches.handle_timer(now)
            case "m":
                epochs["gw-b"] = None if more % 3 == 0 else more
                actions = watches.moved(epochs.get, now)
        for action in actions:
            match action:
                case BeginWatch(watch, wanted):
                    asked[watch] = wanted
                case EndWatch(watch):
                    asked.pop(watch, None)
                case Notify(_, observers, _, is_last):
                    assert set(observers) <= observing.keys()
                    for observer in observers if is_last else ():
                        del observing[observer]
        assert watches.observers == len(observing)
        assert set(observing.values()) <= set(asked.values())
        assert len(watches) == len(set(observing.values()))
