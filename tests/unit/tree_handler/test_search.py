"""Asking everybody within reach, over any graph, while links come and go."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.held_objects import held_objects
from tree_handler import batch
from tree_handler.batch import MAX_NUMBER, Epoch
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import search
from tree_handler.replication.actions import (
    Look,
    ReplicationAction,
    SendRepair,
    SendSeek,
    SendSought,
)
from tree_handler.replication.ranges_wire import MAX_RANGES
from tree_handler.replication.repair import Denial, SearchResult, Seek
from tree_handler.replication.search import MAX_KEPT_RANGES, Searches

STREAM = ("origin", 1)


class Graph:
    """Gateways that know nothing but searches; link n of a gateway leads to gateway n."""

    def __init__(self, size: int, edges: set[tuple[int, int]], held: dict[int, set[int]]) -> None:
        self.held = {at: held.get(at, set()) for at in range(size)}
        names = ["seeker", *(f"gw-{at}" for at in range(1, size - 1)), "origin"]
        self.cores = [Searches(name, 1, self.kept(at), 10.0) for at, name in enumerate(names)]
        self.wires: dict[tuple[int, int], deque[object]] = {}
        self.came: set[int] = set()
        for a, b in sorted(edges):
            self.link(a, b)

    def kept(self, at: int) -> Callable[[Epoch], Intervals]:
        return lambda _: Intervals((number, number) for number in self.held[at])

    def reach(self) -> set[int]:
        seen, front = {0}, [0]
        while front:
            at = front.pop()
            front += [b for a, b in self.wires if a == at and b not in seen]
            seen |= set(front)
        return seen

    def do(self, at: int, actions: list[ReplicationAction]) -> None:
        for action in actions:
            match action:
                case SendSeek(link, seek):
                    self.say(at, link, Seek.decode(seek.encode()))
                case SendSought(link, sought):
                    self.say(at, link, SearchResult.decode(sought.encode()))
                case SendRepair(link, frame):
                    self.say(at, link, frame)
                case Look(link, number, wanted):
                    found: dict[Epoch, Intervals] = {}
                    for first, last in wanted[STREAM]:
                        for one in range(first, last + 1):
                            found.setdefault(STREAM, Intervals()).add(one, one)
                            self.say(at, link, batch.passed(STREAM, one, one)[0])
                    self.do(at, self.cores[at].looked(number, found))

    def say(self, at: int, link: int, message: object) -> None:
        if (at, link) in self.wires:
            self.wires[at, link].append(message)

    def link(self, a: int, b: int) -> None:
        for one, other in ((a, b), (b, a)):
            self.wires[one, other] = deque()
            self.do(one, [*self.cores[one].link_up(other, 0.0)])

    def cut(self, a: int, b: int) -> None:
        for one, other in ((a, b), (b, a)):
            del self.wires[one, other]
            self.do(one, self.cores[one].link_down(other))

    def step(self, chance: random.Random) -> bool:
        busy = [wire for wire, messages in self.wires.items() if messages]
        if not busy:
            return False
        a, b = chance.choice(sorted(busy))
        message = self.wires[a, b].popleft()
        core = self.cores[b]
        if isinstance(message, Seek):
            self.do(b, core.receive_seek(a, message, 0.0))
        elif isinstance(message, SearchResult):
            self.do(b, core.receive_sought(a, message))
        else:
            assert isinstance(message, bytes)
            header = batch.check(message)
            if b == 0:
                self.came.add(header.first)
            self.do(b, core.relay(a, message, header))
        return True


def drawn(chance: random.Random, size: int) -> Graph:
    edges = {(chance.randrange(at), at) for at in range(1, size) if chance.random() < 0.9}
    for _ in range(size):
        a, b = sorted(chance.sample(range(size), 2))
        edges.add((a, b))
    held = {at: {n for n in range(1, 8) if chance.random() < 0.2} for at in range(1, size)}
    return Graph(size, edges, held)


@given(st.integers(0, 2**32), st.integers(2, 8))
def test_what_is_within_reach_comes_and_what_is_left_is_exactly_the_rest(
    seed: int, size: int
) -> None:
    chance = random.Random(seed)
    graph = drawn(chance, size)
    reach = graph.reach()
    graph.do(0, graph.cores[0].begin({STREAM: Intervals([(1, 7)])}, 0.0))
    while graph.step(chance):
        pass
    result = graph.cores[0].result
    assert result is not None
    assert result.complete
    there = set().union(*(graph.held[at] for at in reach))
    left = {
        n for first, last in result.left.get(STREAM, Intervals()) for n in range(first, last + 1)
    }
    assert left == set(range(1, 8)) - there
    assert graph.came == there
    if left:
        assert ("origin" in result.origins) == (size - 1 in reach)
    assert not any(core.are_unanswered for core in graph.cores)


@given(st.integers(0, 2**32), st.integers(3, 8))
def test_a_search_that_a_cut_met_ends_and_never_claims_what_is_held_within_reach(
    seed: int, size: int
) -> None:
    chance = random.Random(seed)
    graph = drawn(chance, size)
    graph.do(0, graph.cores[0].begin({STREAM: Intervals([(1, 7)])}, 0.0))
    while graph.step(chance):
        if chance.random() < 0.1 and graph.wires:
            graph.cut(*chance.choice(sorted(graph.wires)))
    for at, core in enumerate(graph.cores):
        graph.do(at, core.handle_timer(search.TIMEOUT_S))
    while graph.step(chance):
        pass
    result = graph.cores[0].result
    assert result is not None
    assert not any(core.are_unanswered for core in graph.cores)
    if result.complete:
        there = set().union(*(graph.held[at] for at in graph.reach()))
        assert all(number not in result.left.get(STREAM, Intervals()) for number in there)


def found_of_a_newcomer(after: int) -> Graph:
    """On a line from the seeker, who has what is sought links to the end of it: after so many
    messages of the search."""
    graph = Graph(5, {(0, 1), (1, 2)}, {4: {1}})
    graph.do(0, graph.cores[0].begin({STREAM: Intervals([(1, 1)])}, 0.0))
    chance = random.Random(0)
    for _ in range(after):
        assert graph.step(chance)
    graph.link(3, 4)
    graph.link(2, 3)
    while graph.step(chance):
        pass
    return graph


@pytest.mark.parametrize("after", range(5))
def test_who_links_while_a_search_is_under_way_or_settles_is_asked_too(after: int) -> None:
    graph = found_of_a_newcomer(after)
    assert graph.came == {1}
    result = graph.cores[0].result
    assert result is not None
    assert result.complete


def test_a_search_that_was_let_settle_is_over_and_nobody_is_asked_for_it_any_more() -> None:
    graph = found_of_a_newcomer(4)
    for at, core in enumerate(graph.cores):
        graph.do(at, core.handle_timer(search.TIMEOUT_S + 19.0))
        assert core.are_under_way
        graph.do(at, core.handle_timer(2 * search.TIMEOUT_S + 10.0))
        assert not core.are_under_way
        assert core.link_up(9, 0.0) == []


def test_a_newcomer_is_asked_for_each_number_once_however_many_seek_it() -> None:
    core = Searches("gw", 1, lambda _: Intervals(), 10.0)
    core.link_up(1, 0.0)
    for number in range(1, 40):
        core.receive_seek(1, Seek((f"gw-{number}", 1, 1), {STREAM: Intervals([(1, 3)])}), 0.0)
    core.receive_seek(1, Seek(("gw-50", 1, 1), {STREAM: Intervals([(2, 5)])}), 0.0)
    asked = [action.seek.wanted for action in core.link_up(2, 0.0)]
    assert asked == [{STREAM: Intervals([(1, 3)])}, {STREAM: Intervals([(4, 5)])}]


def test_of_each_seeker_the_latest_search_alone_is_let_settle() -> None:
    core = Searches("gw", 1, lambda _: Intervals(), 10.0)
    core.link_up(1, 0.0)
    for number in range(1, 40):
        core.receive_seek(1, Seek(("a", 1, number), {STREAM: Intervals([(number, number)])}), 0.0)
    (asked,) = core.link_up(2, 0.0)
    assert asked.seek.number == ("a", 1, 39)


def test_a_newcomer_that_has_too_much_to_do_makes_an_answer_prove_nothing() -> None:
    line = Graph(3, {(0, 1)}, {})
    line.do(0, line.cores[0].begin({STREAM: Intervals([(1, 1)])}, 0.0))
    while line.step(random.Random(0)):
        pass
    assert line.cores[0].result is not None
    line.link(1, 2)
    line.wires[2, 1].append(SearchResult(("seeker", 1, 1), {}, frozenset(), complete=False))
    while line.step(random.Random(0)):
        pass
    assert line.cores[0].result is None


def test_what_many_seek_over_one_link_is_sent_there_once_however_often_it_comes() -> None:
    core = Searches("gw", 1, lambda _: Intervals(), 10.0)
    for link in (1, 2, 3):
        core.link_up(link, 0.0)
    for number in range(1, 20):
        asked = core.receive_seek(1, Seek(("a", 1, number), {STREAM: Intervals([(1, 3)])}), 0.0)
        assert [type(action) for action in asked] == [SendSeek, SendSeek]
    frame, header = batch.make(
        "origin", 1, 2, [("t", 1, b"")], flags=batch.Flags.LOGGED, origin_time_us=0
    )
    assert core.relay(2, frame, header) == [SendRepair(1, frame)]
    assert core.relay(3, frame, header) == []
    assert core.relay(1, frame, header) == []
    answers = [core.receive_sought(link, answer(number)) for number in (1, 2) for link in (2, 3)]
    left = [action.sought.left for row in answers for action in row if type(action) is SendSought]
    assert left == [{STREAM: Intervals([(1, 1), (3, 3)])}] * 2


def test_what_comes_goes_on_to_all_who_seek_it_but_where_it_came_from_and_to_oneself() -> None:
    core, wanted = Searches("gw", 1, lambda _: Intervals(), 10.0), {STREAM: Intervals([(1, 3)])}
    for link in (1, 2, 3, 4):
        core.link_up(link, 0.0)
    core.begin(wanted, 0.0)
    for link, seeker in ((3, "a"), (1, "b"), (2, "c"), (1, "d")):
        core.receive_seek(link, Seek((seeker, 1, 1), wanted), 0.0)
    core.receive_seek(4, Seek(("e", 1, 1), {("other", 1): Intervals([(1, 3)])}), 0.0)
    frame, header = batch.make(
        "origin", 1, 2, [("t", 1, b"")], flags=batch.Flags.LOGGED, origin_time_us=0
    )
    assert core.relay(3, frame, header) == [SendRepair(1, frame), SendRepair(2, frame)]
    assert core.relay(2, frame, header) == [SendRepair(3, frame)]  # it has come another way there
    assert core.relay(2, frame, header) == []


def test_of_what_a_torn_log_leaves_of_a_search_as_much_is_asked_for_and_told_as_may_be() -> None:
    """The seeker's neighbour has every second number, and who is behind it two of the others."""
    last = 2 * MAX_RANGES + 3
    graph = Graph(3, {(0, 1), (1, 2)}, {1: set(range(2, last, 2)), 2: {1, 3}})
    graph.do(0, graph.cores[0].begin({STREAM: Intervals([(1, last)])}, 0.0))
    chance = random.Random(1)
    while graph.step(chance):
        pass
    result = graph.cores[0].result
    assert result is not None
    assert result.complete
    assert graph.came == {1, 3, *range(2, last, 2)}
    left = {number for first, last in result.left[STREAM] for number in range(first, last + 1)}
    assert left == set(range(5, 2 * MAX_RANGES, 2))  # of the others nothing is certain


def test_who_links_late_is_asked_for_as_many_ranges_as_may_be_and_the_rest_is_not_certain() -> None:
    lacks = Intervals((first, first + 2) for first in range(1, 4 * MAX_RANGES, 4))
    searches = Searches("gw", 1, lambda _: Intervals(), 10.0)
    for link in (0, 1):
        searches.link_up(link, 0.0)
    number = ("seeker", 1, 1)
    searches.receive_seek(0, Seek(number, {STREAM: lacks}), 0.0)
    frame, header = batch.passed(STREAM, 2, 2)
    assert searches.relay(1, frame, header)
    (asked,) = searches.link_up(2, 0.0)
    assert isinstance(asked, SendSeek)
    assert len(Seek.decode(asked.seek.encode()).wanted[STREAM]) == MAX_RANGES
    (told,) = searches.receive_sought(1, SearchResult(number, {}, frozenset(), complete=True))
    assert isinstance(told, SendSought)
    assert not told.sought.complete


def test_denials_of_many_ranges_leave_an_answer_that_can_be_read() -> None:
    lacks = Intervals((number, number) for number in range(1, 2 * MAX_RANGES, 2))
    wanted = {(f"origin-{link}", 1): Intervals([(1, 9)]) for link in range(1, 4)}
    searches = Searches("gw", 1, lambda _: Intervals(), 10.0)
    for link in range(4):
        searches.link_up(link, 0.0)
    seek = Seek(("seeker", 1, 1), wanted)
    sent = searches.receive_seek(0, seek, 0.0)
    assert len(sent) == 3
    for link in range(1, 4):
        origin = f"origin-{link}"
        denial = Denial(origin, {(origin, 1): lacks}, b"seal")
        answer = SearchResult(seek.number, {}, frozenset(), complete=True, denials=(denial,))
        sent = searches.receive_sought(link, answer)
    (told,) = sent
    assert isinstance(told, SendSought)
    assert SearchResult.decode(told.sought.encode()).denials


def answer(number: int) -> SearchResult:
    """A neighbour found nothing."""
    wanted = {STREAM: Intervals([(1, 3)])}
    return SearchResult(("a", 1, number), wanted, frozenset(), complete=True)


def test_who_has_too_many_searches_says_that_its_answer_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MAX_SEARCHES", 1)
    core = Searches("gw", 1, lambda _: Intervals(), 10.0)
    core.link_up(1, 0.0)
    core.link_up(2, 0.0)
    wanted = {STREAM: Intervals([(1, 1)])}
    assert isinstance(core.receive_seek(1, Seek(("a", 1, 1), wanted), 0.0)[0], SendSeek)
    (answer,) = core.receive_seek(1, Seek(("a", 1, 2), wanted), 0.0)
    assert isinstance(answer, SendSought)
    assert not answer.sought.complete


def test_an_answer_that_makes_room_before_it_has_settled_proves_nothing_any_more() -> None:
    core = Searches("gw", 1, lambda _: Intervals(), 10.0)
    core.link_up(1, 0.0)
    core.link_up(2, 0.0)
    wanted = {STREAM: Intervals([(1, 1)])}

    def answered(seeker: str) -> list[SearchResult]:
        number = (seeker, 1, 1)
        core.receive_seek(1, Seek(number, wanted), 0.0)
        nothing = SearchResult(number, wanted, frozenset(), complete=True)
        sent = core.receive_sought(2, nothing)
        assert all(isinstance(one, SendSought) and one.link == 1 for one in sent)
        return [one.sought for one in sent if isinstance(one, SendSought)]

    for number in range(search.MAX_SEARCHES):
        (told,) = answered(f"seeker-{number}")
        assert told.complete
    revoked, told = answered("one-more")  # whoever links now is not asked for the first one
    assert (revoked.number[0], revoked.complete) == ("seeker-0", False)
    assert (told.number[0], told.complete) == ("one-more", True)


def test_the_own_answer_makes_no_room_for_those_of_others() -> None:
    core = Searches("gw", 1, lambda _: Intervals(), 10.0)
    core.link_up(1, 0.0)
    core.link_up(2, 0.0)
    wanted = {STREAM: Intervals([(1, 1)])}
    asked = [one for one in core.begin(wanted, 0.0) if isinstance(one, SendSeek)]
    for one in asked:
        core.receive_sought(
            one.link, SearchResult(one.seek.number, wanted, frozenset(), complete=True)
        )
    for seeker in range(search.MAX_SEARCHES):
        number = (f"seeker-{seeker}", 1, 1)
        core.receive_seek(1, Seek(number, wanted), 0.0)
        core.receive_sought(2, SearchResult(number, wanted, frozenset(), complete=True))
    assert core.result is not None
    (sent,) = core.link_up(3, 0.0)
    assert isinstance(sent, SendSeek)
    assert sent.seek.number == core.result.number


def test_searches_for_ever_more_ranges_take_no_more_memory_than_they_may() -> None:
    core = Searches("gw", 1, lambda _: Intervals(), 10.0)
    core.link_up(1, 0.0)
    core.link_up(2, 0.0)
    wanted = {STREAM: Intervals((number, number) for number in range(1, 2 * MAX_RANGES, 2))}
    answers: list[SearchResult] = []
    for seeker in range(MAX_KEPT_RANGES // MAX_RANGES + 5):
        number = (f"seeker-{seeker}", 1, 1)
        sent = core.receive_seek(1, Seek(number, dict(wanted)), 0.0)
        answers += [one.sought for one in sent if isinstance(one, SendSought)]
        if seeker % 2:  # an answer is let settle, and needs its ranges until then
            core.receive_sought(2, SearchResult(number, dict(wanted), frozenset(), complete=True))
    assert [one.complete for one in answers] == [False] * 5
    core.handle_timer(1_000.0)
    core.handle_timer(2_000.0)
    (sent,) = core.receive_seek(1, Seek(("late", 1, 1), wanted), 2_000.0)
    assert isinstance(sent, SendSeek)


def test_searches_that_are_over_are_remembered_within_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MAX_REMEMBERED", 5)
    core = Searches("gw", 1, lambda _: Intervals(), 10.0)
    core.link_up(1, 0.0)
    held = 0
    for number in range(1, 100):
        core.receive_seek(1, Seek(("a", 1, number), {STREAM: Intervals([(1, 1)])}), 0.0)
        held = held or (held_objects(core) if number == 5 else 0)
    assert held_objects(core) < 1.5 * held


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_a_protocol_error(data: bytes) -> None:
    for decode in (Seek.decode, SearchResult.decode):
        try:
            decode(data)
        except ProtocolError:
            continue


def told_on(seek: Seek, *answers: SearchResult, own: str = "gw") -> SearchResult:
    """Return the answer that the seeker gets when all gateways behind this one have answered."""
    searches = Searches(own, 1, lambda _: Intervals(), 10.0)
    for link in range(1 + len(answers)):
        searches.link_up(link, 0.0)
    sent = searches.receive_seek(0, seek, 0.0)
    assert len(sent) == len(answers)
    for link, answer in enumerate(answers, 1):
        sent = searches.receive_sought(link, SearchResult.decode(answer.encode()))
    (told,) = sent
    assert isinstance(told, SendSought)
    return SearchResult.decode(told.sought.encode())


def test_an_answer_with_origins_that_nobody_asked_for_harms_no_link_of_who_passes_it_on() -> None:
    seek = Seek(("seeker", 1, 1), {("gw", 1): Intervals([(1, 3)]), STREAM: Intervals([(1, 3)])})
    made_up = frozenset(f"made-up-{number}" for number in range(1_000))
    liar = SearchResult(seek.number, seek.wanted, made_up, complete=True)
    honest = SearchResult(seek.number, seek.wanted, frozenset({STREAM[0]}), complete=True)
    assert told_on(seek, liar, honest).origins == {"gw", STREAM[0]}


def test_denials_of_what_nobody_sought_harm_no_link_of_who_passes_them_on() -> None:
    seek = Seek(("seeker", 1, 1), {STREAM: Intervals([(1, 3)])})
    true = Denial(STREAM[0], seek.wanted, b"seal")
    others = {(f"made-up-{number}", 1): Intervals([(1, 1)]) for number in range(999)}
    made_up = (
        Denial("x" * 900_000, {}, b""),
        Denial("made-up-1", others, b""),
        Denial(STREAM[0], others, b""),
    )
    answers = [
        SearchResult(seek.number, seek.wanted, frozenset(), complete=True, denials=(one,))
        for one in (*made_up, true)
    ]
    assert told_on(seek, *answers).denials == (true,)


def test_an_answer_is_within_the_bytes_that_its_receiver_takes() -> None:
    """The names are as long as they can be, and there are as many denials as there can be."""
    names = [f"{number:0255d}" for number in range(1_000)]
    far = Intervals((number, number) for number in range(MAX_NUMBER - 16_000, MAX_NUMBER, 2))
    wanted = {(name, 1): Intervals([(1, 1)]) for name in names[1:]} | {(names[0], 1): far}
    seek = Seek(("seeker", 1, 1), wanted)
    answers = [
        SearchResult(
            seek.number,
            wanted,
            frozenset(names),
            complete=True,
            denials=(Denial(stream[0], lacks, b"s" * 100),),
        )
        for stream, lacks in (
            ((names[1], 1), {row: one for row, one in wanted.items() if row[0] != names[0]}),
            ((names[0], 1), {(names[0], 1): far}),
        )
    ]
    told = told_on(seek, *answers)
    assert told.left == wanted
    assert told.origins == set(names)
    assert told.denials == answers[0].denials


def test_who_has_just_started_proves_nothing_until_all_neighbours_can_have_linked_to_it() -> None:
    origin = Searches("origin", 2, lambda _: Intervals(), 10.0, unlinked_s=4.0)
    origin.link_up(1, 100.0)
    wanted = {STREAM: Intervals([(1, 1)])}

    def is_proof(count: int, now: float) -> bool:
        (answer,) = origin.receive_seek(1, Seek(("seeker", 1, count), wanted), now)
        return answer.sought.complete

    assert not is_proof(1, 103.9)  # a third one may take its life before for alive, and have it
    assert is_proof(2, 104.0)
    origin.link_up(2, 110.0)
    assert origin.receive_seek(1, Seek(("seeker", 1, 3), wanted), 110.0)[0].link == 2
    (answer,) = origin.receive_sought(2, SearchResult(("seeker", 1, 3), wanted, frozenset(), True))
    assert answer.sought.complete


def test_a_search_has_a_number_that_is_drawn_so_that_nobody_sends_it_ahead() -> None:
    drawn = iter([71, 12])
    seeker = Searches("seeker", 1, lambda _: Intervals(), 10.0, draw=lambda: next(drawn))
    seeker.link_up(1, 0.0)
    other = Searches("other", 1, lambda _: Intervals(), 10.0)
    other.link_up(1, 0.0)
    other.link_up(2, 0.0)
    for guess in range(1, 10):  # a member that asks for nothing under what it can guess
        other.receive_seek(2, Seek(("seeker", 1, guess), {}), 0.0)
    wanted = {STREAM: Intervals([(1, 1)])}
    for number in (71, 12):
        (asking,) = seeker.begin(wanted, 0.0)
        assert asking.seek.number == ("seeker", 1, number)
        passed_on = other.receive_seek(1, asking.seek, 0.0)
        assert [action.link for action in passed_on] == [2]
        assert isinstance(passed_on[0], SendSeek)
