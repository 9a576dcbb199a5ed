"""Records of registrations: all that is whole is read back, whatever became of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_directory import journal
from resource_directory.journal import RegistrationJournal
from resource_directory.link_format import WebLink, parse
from resource_directory.registration import Registration
from resource_directory.registry import Registry, RegistryLimits
from tests.directory_records import record

LINKS = parse('</t>;rt="temp \\"core\\"";obs,<coap://x/y>;anchor="/t";title="käse"')
names = st.sampled_from(["a", "b", "c"])


def read_again(data: bytes) -> dict[str, Registration]:
    """The registrations that are read back, by location."""
    kept = journal.read([data])
    return {one.location: one for one in kept.registrations(lambda at, n: data[at : at + n])}


def unexpected(_registration: Registration, error: Exception) -> None:
    raise error


class Kept:
    """A registry and the bytes of its journal."""

    def __init__(self) -> None:
        self.changes = RegistrationJournal()
        self.registry = Registry(listeners=(self.changes,))
        self.data = b""
        self.pieces: list[bytes] = []

    def register(self, name: str, now: float = 0.0, links: list[WebLink] | None = None) -> str:
        given = LINKS if links is None else links
        return self.registry.register(
            name,
            given,
            now,
            base="coap://[2001:db8::1]",
            sector="s",
            lifetime_s=100,
            attributes=[("et", "meter"), ("gp", "g")],
            owner="psk:x",
        ).location

    def write(self) -> None:
        written = self.changes.take(self.registry, 1_000_000, unexpected)
        self.pieces += written
        self.data += b"".join(written)

    def again(self) -> dict[str, Registration]:
        return read_again(self.data)


def told(registration: Registration) -> tuple[object, ...]:
    """All that outlives the process."""
    return (
        registration.location,
        registration.endpoint,
        registration.sector,
        registration.base,
        registration.base_is_explicit,
        registration.lifetime_s,
        registration.expires_at,
        registration.owner,
        registration.attributes,
        registration.links,
    )


def test_a_registration_comes_back_as_it_was_with_its_location() -> None:
    kept = Kept()
    location = kept.register("n", now=5.5)
    kept.write()
    again = kept.again()
    assert told(again[location]) == told(kept.registry.get(location, 6.0))
    other = Registry("/rd/2-")
    other.restore(again[location])
    assert told(other.get(location, 6.0)) == told(kept.registry.get(location, 6.0))
    new = other.register("m", [], 6.0, base="coap://h")
    assert new.location != location


def test_a_renewal_an_update_and_a_removal_come_back() -> None:
    kept = Kept()
    renewed, changed, removed = kept.register("a"), kept.register("b"), kept.register("c")
    kept.write()
    before = len(kept.data)
    kept.register("a", now=50.0)
    assert not kept.changes.has_news
    kept.write()
    assert len(kept.data) - before < 40
    kept.register("b", now=60.0, links=[])
    kept.registry.remove(removed, 60.0, owner="psk:x")
    assert kept.changes.has_news
    kept.write()
    again = kept.again()
    assert list(again) == [renewed, changed]
    assert (again[renewed].expires_at, again[changed].links) == (150.0, ())


def test_a_registration_too_large_to_be_read_again_has_no_record_and_is_told() -> None:
    told_of: list[str] = []
    registry = Registry(limits=RegistryLimits(size_per_registration=1 << 30))
    links = [WebLink("a" * (1 << 20)) for _ in range(8)]
    location = registry.register("large", links, 0.0, base="coap://h").location

    def failed(one: Registration, _error: Exception) -> None:
        told_of.append(one.endpoint)

    assert not journal.some_of(registry, iter([location]), 1_000, failed)
    assert told_of == ["large"]


def test_a_slice_has_many_small_registrations_or_few_large_ones() -> None:
    changes = RegistrationJournal()
    registry = Registry(listeners=(changes,))
    links = [WebLink(f"/{number}") for number in range(1_000)]
    locations = [
        registry.register(f"n{number}", links if number < 20 else [], 0.0, base="coap://h").location
        for number in range(120)
    ]
    ahead, of_all, of_changed = iter(locations), list[int](), list[int]()
    while (some := journal.some_of(registry, ahead, 2_000, unexpected)) is not None:
        of_all.append(len(some))
    while len(changes):
        of_changed.append(len(changes.take(registry, 2_000, unexpected)))
    assert of_all == of_changed == [2] * 10 + [100]


def test_what_changed_often_is_written_once() -> None:
    kept = Kept()
    for now in range(100):
        kept.register("a", now=float(now), links=[WebLink(f"/{now}")])
    kept.write()
    assert len(kept.pieces) == 1
    assert not len(kept.changes)


def test_the_last_mark_of_the_clocks_comes_back() -> None:
    data = journal.clocks((1, 2, 3, 4, 5, 1)) + journal.clocks((7, 2, 3, 4, 5, 0))
    assert journal.read([data]).mark == (7, 2, 3, 4, 5, 0)


@pytest.mark.parametrize("wrong", [float("inf"), float("-inf"), float("nan"), "soon", "inf"])
def test_a_record_with_a_time_that_no_clock_tells_is_damaged(wrong: object) -> None:
    kept = Kept()
    location = kept.register("a")
    standing = kept.registry.get(location, 0.0)
    kept.write()
    whole = len(kept.data)
    for end, lifetime in ((wrong, 100), (5.0, wrong)):
        fields = ["/rd/9", "b", "", standing.base, True, lifetime, end, None, [], ""]
        kept.data += record([0, *fields])
    kept.data += record([1, location, wrong])
    kept.data += record([3, wrong, 2, 3, 4, 5, 6])
    recovered = journal.read([kept.data])
    assert [told(one) for one in read_again(kept.data).values()] == [told(standing)]
    assert recovered.mark is None
    assert recovered.lost_bytes == len(kept.data) - whole


@st.composite
def histories(draw: st.DrawFn) -> Kept:
    kept = Kept()
    for now in range(draw(st.integers(1, 12))):
        name = draw(names)
        standing = kept.registry.standing(name, "s", float(now))
        if standing is not None and draw(st.booleans()):
            kept.registry.remove(standing.location, float(now), owner="psk:x")
        else:
            kept.register(name, float(now), [WebLink(f"/{draw(st.integers(0, 3))}")])
        if draw(st.booleans()):
            kept.write()
    kept.write()
    return kept


@settings(max_examples=100, deadline=None)
@given(kept=histories(), data=st.data())
def test_of_a_torn_file_all_whole_records_are_taken(kept: Kept, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(kept.data)))
    whole, size = b"", 0
    for piece in kept.pieces:
        if size + len(piece) > cut:
            break
        whole += piece
        size += len(piece)
    torn = kept.data[:cut]
    assert journal.read([torn]).lost_bytes == cut - size
    assert [*map(told, read_again(torn).values())] == [*map(told, read_again(whole).values())]


@settings(max_examples=100, deadline=None)
@given(kept=histories(), data=st.data())
def test_of_a_damaged_file_only_the_damaged_records_are_lost(
    kept: Kept, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(kept.pieces) - 1))
    damaged = bytearray(kept.pieces[number])
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    others = kept.pieces[:number], kept.pieces[number + 1 :]
    whole, left = b"".join((*others[0], damaged, *others[1])), b"".join((*others[0], *others[1]))
    assert journal.read([whole]).lost_bytes == len(damaged)
    assert [*map(told, read_again(whole).values())] == [*map(told, read_again(left).values())]


@settings(max_examples=100, deadline=None)
@given(kept=histories(), data=st.data())
def test_in_any_pieces_the_same_is_read(kept: Kept, data: st.DataObject) -> None:
    damaged = bytearray(kept.data)
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)):
        damaged[at] ^= 0x55
    size = data.draw(st.integers(1, 60))
    pieces = [bytes(damaged[at : at + size]) for at in range(0, len(damaged), size)]
    assert journal.read(pieces) == journal.read([bytes(damaged)])


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.floats(),
        lambda inner: st.lists(inner, max_size=11),
        max_leaves=20,
    ).map(lambda content: record([content]) + record([0, content] + [1] * 9))
)
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    recovered = journal.read([data])
    assert recovered.lost_bytes <= len(data)


@pytest.mark.parametrize("field", [0, 1, 2, 3, 9])
def test_a_record_with_no_text_where_there_is_to_be_one_is_damaged(field: int) -> None:
    fields: list[object] = ["/rd/9", "b", "s", "coap://h", True, 60, 5.0, None, [], "</t>"]
    assert [*read_again(record([0, *fields]))] == ["/rd/9"]
    fields[field] = 7
    recovered = journal.read([record([0, *fields])])
    assert recovered.lost_bytes == len(record([0, *fields]))
    assert read_again(record([0, *fields])) == {}


def test_a_renewal_of_what_is_not_there_changes_nothing() -> None:
    kept = Kept()
    location = kept.register("a")
    kept.write()
    renewed = record([1, location, 150.0]) + record([1, "/rd/9", 150.0])
    again = read_again(kept.data + renewed)
    assert {one: found.expires_at for one, found in again.items()} == {location: 150.0}


def test_records_and_the_bytes_that_are_none_are_counted() -> None:
    kept = Kept()
    for name in ("a", "b", "c"):
        kept.register(name)
    kept.write()
    first, second, third = kept.pieces
    for pieces, records, lost, is_damaged in (
        ([], 0, 0, True),
        (kept.pieces, 3, 0, False),
        ([first, second, third[:-1]], 2, len(third) - 1, False),
        ([first, second[1:], third], 2, len(second) - 1, True),
        ([b"xyz", first], 1, 3, True),
        ([b"xyz", first, b"12", second], 2, 5, True),
        ([b"xyz"], 0, 3, True),
    ):
        for cut in (pieces, [b"".join(pieces)], [bytes((one,)) for one in b"".join(pieces)]):
            found = journal.read(cut)
            assert (found.records, found.lost_bytes, found.is_damaged) == (
                records,
                lost,
                is_damaged,
            )
            assert len(found.places) == records
