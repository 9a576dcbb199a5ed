"""The mesh benchmark's judgement: a judge that can't find a fault proves nothing."""

from __future__ import annotations

import pytest

from benchmarks.mesh import delays, network
from benchmarks.mesh.count import Count, Stream, payload
from benchmarks.mesh.delays import Case
from benchmarks.mesh.silences import Listening, worst


def arrive(count: Count, stream: Stream, *numbers: int, again: bool = False) -> None:
    for number in numbers:
        count.arrived("s", payload(stream.number, number, 0.0, 64), float(number), again=again)


def published(count: Count, numbers: int) -> Stream:
    stream = count.stream("p", 0, "t", 1)
    stream.sent = numbers
    stream.acknowledged.add(1, numbers)
    return stream


def test_all_in_order_once_is_faultless() -> None:
    count = Count()
    arrive(count, published(count, 5), 1, 2, 3, 4, 5)
    assert count.lost("s") == 0
    assert [count.total(w) for w in ("doubled", "disordered", "overtaken")] == [0, 0, 0]


def test_what_was_acknowledged_and_did_not_come_is_lost() -> None:
    count = Count()
    arrive(count, published(count, 5), 1, 2, 5)
    assert count.lost("s") == 2
    (line,) = count.describe_lost(["s"])
    assert "[(3, 4)]" in line


def test_what_was_not_acknowledged_is_not_lost() -> None:
    count = Count()
    stream = published(count, 3)
    stream.sent = 9
    arrive(count, stream, 1, 2, 3)
    assert count.lost("s") == 0


def test_a_subscriber_that_got_nothing_lost_everything() -> None:
    count = Count()
    published(count, 7)
    assert count.lost("s") == 7


def test_a_second_coming_is_a_double_unless_it_is_a_redelivery_that_says_so() -> None:
    count = Count()
    stream = published(count, 2)
    arrive(count, stream, 1, 2, 2)
    assert count.total("doubled") == 1
    arrive(count, stream, 2, again=True)
    assert (count.total("doubled"), count.total("redelivered")) == (1, 1)
    assert "got 0/2 twice" in count.examples[0]


def test_a_message_behind_a_later_one_is_out_of_order() -> None:
    count = Count()
    arrive(count, published(count, 3), 1, 3, 2)
    assert (count.total("disordered"), count.total("overtaken")) == (1, 0)


def test_a_message_behind_one_of_the_next_boot_epoch_is_told_apart() -> None:
    count = Count()
    stream = published(count, 5)
    stream.connections += [1, 4]
    arrive(count, stream, 1, 2, 4, 3, 5)
    assert (count.total("disordered"), count.total("overtaken")) == (0, 1)


def heard(*times: float) -> Listening:
    listening = Listening(Count())
    listening.streams[0] = listening.count.stream("p", 0, "t", 1)
    listening.names[1] = "s"
    for number, time in enumerate(times, 1):
        body = payload(0, number, 0.0, 64)
        listening.count.arrived("s", body, time, again=False)
    return listening


def test_a_silence_is_from_the_last_arrival_before_an_event_to_the_first_after() -> None:
    silence = worst(heard(9.8, 9.9, 11.4, 11.5).silences(10.0, 11.6))
    assert silence.seconds == pytest.approx(1.5)
    assert silence.began_s == pytest.approx(-0.1)


def test_a_silence_that_has_not_ended_lasts_until_one_stops_to_look() -> None:
    assert worst(heard(9.9, 10.1).silences(10.0, 15.0)).seconds == pytest.approx(4.9)


def test_what_was_silent_before_the_event_does_not_count() -> None:
    assert worst(heard(1.0, 9.9, 10.0, 10.1).silences(9.95, 10.1)).seconds == pytest.approx(0.1)


def test_hosts_that_were_down_do_not_count() -> None:
    assert not heard(1.0).silences(2.0, 3.0, without=[1])


@pytest.mark.parametrize("size", [79, 1_000, 10_000, 100_000])
def test_publishers_fill_no_more_of_an_edge_than_its_share(size: int) -> None:
    case = Case("flood", payload_bytes=size)
    carried = case.publishers * case.rate_hz * size * 8
    assert carried <= delays.EDGE_SHARE * network.RATE_MBIT * 1e6 + 1
    assert case.rate_hz <= 10


def test_locality_says_how_many_publishers_are_with_their_subscribers() -> None:
    for mode in ("flood", delays.CENTRAL):
        assert {case.locality for case in delays.cases(mode)} == {100, 50, 0}
