"""Observation of look-ups: who watches learns of what changes it, and of nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from resource_directory import exchange
from resource_directory.errors import DirectoryFullError
from resource_directory.exchange import DirectoryAnswer, DirectoryRequest
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry
from resource_directory.service import DirectoryService
from resource_directory.watches import WATCHES_MAX, Watches


class Watched:
    """A directory whose look-ups are watched."""

    def __init__(self) -> None:
        self.watches = Watches()
        self.registry = Registry(listeners=(self.watches,))
        self.service = DirectoryService(self.registry, self.watches)
        self.now = 0.0

    def get(self, path: str, *query: str) -> DirectoryRequest:
        return DirectoryRequest(exchange.GET, ("rd-lookup", path), query)

    def watch(self, path: str, *query: str) -> int:
        watch = self.service.watch(self.get(path, *query))
        assert watch is not None
        return watch

    def answer(self, request: DirectoryRequest) -> DirectoryAnswer:
        answer = self.service.answer(request, self.now)
        assert isinstance(answer, DirectoryAnswer)
        return answer

    def register(self, links: str = "</t>;rt=temperature", **parameters: str) -> str:
        query = tuple(f"{name}={value}" for name, value in parameters.items())
        request = DirectoryRequest(
            exchange.POST, ("rd",), query, links.encode(), 40, base="coap://[2001:db8::1]"
        )
        answer = self.answer(request)
        assert answer.code == exchange.CREATED, answer.payload
        return "/".join(answer.location_path)


def test_rfc9176_6_3_figure_20_an_observed_look_up_changes_with_what_is_registered() -> None:
    directory = Watched()
    request = directory.get("res", "rt=tag:example.org,2020:light")
    assert directory.answer(request).payload == b""
    watch = directory.watch("res", "rt=tag:example.org,2020:light")
    directory.register(
        '</west>;rt="tag:example.org,2020:light",</south>;rt="tag:example.org,2020:light"', ep="n"
    )
    assert directory.service.take_changed() == [watch]
    assert directory.service.take_changed() == []
    assert directory.answer(request).payload == (
        b'<coap://[2001:db8::1]/west>;rt="tag:example.org,2020:light",'
        b'<coap://[2001:db8::1]/south>;rt="tag:example.org,2020:light"'
    )


def test_a_watch_learns_of_arrival_change_removal_and_expiry_and_not_of_renewal() -> None:
    directory = Watched()
    watch = directory.watch("ep", "rt=temp*", "d=campus")
    take = directory.service.take_changed
    directory.register(ep="other", d="street")
    assert take() == []
    directory.register(ep="n", d="campus", lt="100")
    assert take() == [watch]
    directory.now += 50
    directory.register(ep="n", d="campus", lt="100")
    assert take() == []
    location = directory.register(ep="n", d="campus", lt="100", et="meter")
    assert take() == [watch]
    directory.register("</t>;rt=humidity", ep="n", d="campus", lt="100")
    assert take() == [watch]
    directory.register(ep="n", d="campus", lt="100")
    assert take() == [watch]
    directory.now += 100
    directory.registry.expire(directory.now)
    assert take() == [watch]
    directory.register(ep="m", d="campus")
    assert take() == [watch]
    location = directory.register(ep="m", d="campus")
    directory.answer(DirectoryRequest(exchange.DELETE, tuple(location.split("/"))))
    assert take() == [watch]


def test_a_watch_that_has_ended_learns_nothing_and_leaves_nothing() -> None:
    directory = Watched()
    queries = [("rt=temp*",), ("rt=temperature",), (), ("rt=te*", "ep=n"), ("count=1",)]
    watches = [directory.watch("res", *query) for query in queries]
    directory.register(ep="n")
    for watch in watches:
        directory.service.unwatch(watch)
    directory.service.unwatch(watches[0])
    assert directory.service.take_changed() == []
    directory.register("</t>;rt=temperature;if=x", ep="n")
    assert directory.service.take_changed() == []
    rooms = ("_by_key", "_by_name", "_by_term", "_by_prefix", "_of_all", "_changed")
    assert [room for room in rooms if getattr(directory.watches, room)] == []


def test_many_who_watch_the_same_are_all_told_and_others_are_not_looked_at() -> None:
    directory = Watched()
    same = [directory.watch("res", "rt=temperature") for _ in range(100)]
    for number in range(1000):
        directory.watch("res", f"ep=node-{number}")
    directory.register(ep="elsewhere")
    assert directory.service.take_changed() == same


@pytest.mark.parametrize("path", ["res", "ep"])
def test_who_watches_very_much_makes_no_registration_slow(path: str) -> None:
    directory = Watched()
    lacking = [directory.watch(path, "if=c", "rt=temp*", f"zz={n}") for n in range(500)]
    links = ",".join(f'</{n}>;rt=temperature;if="a b c";ct=40' for n in range(1_000))
    directory.register(links, ep="n")
    assert directory.service.take_changed() == [], "that is found out at once"
    for watch in lacking:
        directory.service.unwatch(watch)
    for number in range(500):
        directory.watch(path, "if=c", "rt=temp*", "if=a", f"rt=z{number}*")
    directory.register(f"{links},</z>", ep="n")
    told = directory.service.take_changed()
    assert len(told) > 480, "what takes longer to find out than to ask again is asked again"


def test_prefixes_of_all_lengths_make_no_registration_slow() -> None:
    directory = Watched()
    for length in range(1_000):
        directory.watch("res", f"title={'x' * length}y*")
    value = "x" * 1_000
    links = ",".join(f'</{n}>;title="{n}{value}"' for n in range(100))
    directory.register(links, ep="n")
    assert len(directory.service.take_changed()) == 1_000


@pytest.mark.parametrize("over", [0, 1])
def test_for_a_registration_4000_terms_are_looked_at_and_8_more_for_each_that_it_has(
    over: int,
) -> None:
    directory = Watched()
    own, of_link = 16, 8  # of its own there are four always, and one of a link
    # One look for the prefix under which all stand; then each looks at all of its own terms for two
    # prefixes, at those of the link for the second one again, and at one for each "et=a".
    each = 2 * own + of_link
    count, rest = divmod(4_000 + 8 * (own + of_link) - 1 + over, each)
    assert count > rest
    for number in range(count):
        directory.watch("ep", "ep=n*", f"rt=z{number}*", *(["et=a"] if number < rest else []))
    link = "</t>" + "".join(f";y{number}=1" for number in range(of_link - 1))
    said = {f"x{number}": "1" for number in range(own - 5)}
    directory.register(link, ep="n", et="a", **said)
    assert len(directory.service.take_changed()) == over


@pytest.mark.parametrize(
    "request_parts",
    [
        {"path": ("rd", "1")},
        {"path": ("rd",)},
        {"method": exchange.POST},
        {"query": ("page=1",)},
    ],
)
def test_what_can_not_be_watched_is_answered_without_observe(
    request_parts: dict[str, object],
) -> None:
    directory = Watched()
    request = replace(directory.get("res"), **request_parts)  # type: ignore[arg-type]  # of any type
    assert directory.service.watch(request) is None


class WatchedLookUps(RuleBasedStateMachine):
    """Every look-up is asked again after every step: one that differs must have been told."""

    names = st.sampled_from(["n1", "n2", "m1"])
    kinds = st.lists(st.sampled_from(["temp", "temp-c", "light", "core.x light"]), max_size=3)
    criteria = st.lists(
        st.sampled_from(
            [
                *("rt=temp", "rt=temp*", "rt=*", "rt=light", "rt=core.rd-ep", "href=coap://h/*"),
                *("ep=n1", "ep=n*", "d=s", "et=a", "et=*", "href=coap://h/0", "href=/rd/2"),
                *("count=1", "lt=5"),
            ]
        ),
        max_size=3,
        unique=True,
    )

    def __init__(self) -> None:
        super().__init__()
        self.directory = Watched()
        self.told: dict[int, tuple[DirectoryRequest, bytes]] = {}

    @rule(path=st.sampled_from(["res", "ep"]), criteria=criteria)
    def watch(self, path: str, criteria: list[str]) -> None:
        request = self.directory.get(path, *criteria)
        watch = self.directory.service.watch(request)
        assert watch is not None
        self.told[watch] = (request, self.directory.answer(request).payload)

    @rule(data=st.data())
    def unwatch(self, data: st.DataObject) -> None:
        if self.told:
            watch = data.draw(st.sampled_from(sorted(self.told)))
            self.directory.service.unwatch(watch)
            del self.told[watch]

    @rule(
        name=names,
        kinds=kinds,
        sector=st.sampled_from(["", "s"]),
        et=st.sampled_from(["a", "b"]),
        lt=st.integers(3, 9),
    )
    def register(self, name: str, kinds: list[str], sector: str, et: str, lt: int) -> None:
        links = ",".join(f'</{i}>;rt="{kind}"' for i, kind in enumerate(kinds))
        self.directory.register(links, ep=name, d=sector, et=et, lt=str(lt), base="coap://h")

    @rule(number=st.integers(1, 5), method=st.sampled_from([exchange.POST, exchange.DELETE]))
    def change(self, number: int, method: int) -> None:
        query = () if method == exchange.DELETE else ("et=c",)
        self.directory.answer(DirectoryRequest(method, ("rd", str(number)), query))

    @rule(seconds=st.integers(1, 4))
    def pass_time(self, seconds: int) -> None:
        self.directory.now += seconds
        while self.directory.registry.expire(self.directory.now):
            pass

    @invariant()
    def what_differs_was_told(self) -> None:
        changed = set(self.directory.service.take_changed())
        assert changed <= self.told.keys()
        for watch, (request, before) in self.told.items():
            now = self.directory.answer(request).payload
            assert now == before or watch in changed
            self.told[watch] = (request, now)


TestWatchedLookUps = WatchedLookUps.TestCase
TestWatchedLookUps.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_so_many_watches_there_are_and_one_that_ends_makes_room() -> None:
    watches, query = Watches(), LookupQuery.parse(["rt=temperature"])
    for _ in range(WATCHES_MAX):
        last = watches.add(query, of_endpoints=False)
    assert len(watches) == WATCHES_MAX == last
    with pytest.raises(DirectoryFullError, match="10000 watches"):
        watches.add(query, of_endpoints=False)
    watches.discard(last)
    assert watches.add(query, of_endpoints=False) == last + 1
    assert len(watches) == WATCHES_MAX
