"""A digest never denies what a directory has, and denies most of what it has not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resource_directory.digest import DIGEST_BYTES, DirectoryDigest, may_have
from resource_directory.index import Criterion
from resource_directory.link_format import WebLink
from resource_directory.registry import Registry

WORDS = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
NAMES = st.sampled_from(["rt", "if", "et", "title", "unit"])


def directory() -> tuple[Registry, DirectoryDigest]:
    digest = DirectoryDigest()
    return Registry(listeners=(digest,)), digest


def register(registry: Registry, endpoint: str, *attributes: tuple[str, str]) -> str:
    links = [WebLink("/a", attributes)]
    return registry.register(endpoint, links, 0.0, base="coap://10.0.0.1", owner="me").location


def wants(text: str) -> Criterion:
    name, _, value = text.partition("=")
    return Criterion.parse(name, value)


@given(st.dictionaries(WORDS, st.lists(st.tuples(NAMES, WORDS), max_size=4), max_size=8))
def test_whatever_is_registered_may_be_there(
    fleet: dict[str, list[tuple[str, str]]],
) -> None:
    registry, digest = directory()
    for endpoint, attributes in fleet.items():
        register(registry, endpoint, *attributes)
    told = digest.take(registry.registrations())
    assert len(told) == DIGEST_BYTES
    for endpoint, attributes in fleet.items():
        assert may_have(told, Criterion("ep", endpoint))
        assert all(may_have(told, Criterion(*one)) for one in attributes)


def test_each_word_of_a_list_is_there() -> None:
    registry, digest = directory()
    register(registry, "meter", ("rt", "temperature outdoor"))
    told = digest.take(registry.registrations())
    assert may_have(told, wants("rt=outdoor"))
    assert not may_have(told, wants("rt=humidity"))


def test_few_of_those_that_are_not_there_look_as_if_they_were() -> None:
    registry, digest = directory()
    for number in range(100):
        register(registry, f"meter-{number}", ("rt", "temperature"))
    told = digest.take(registry.registrations())
    wrong = sum(may_have(told, Criterion("ep", f"valve-{number}")) for number in range(1_000))
    assert wrong < 40


def test_what_a_digest_can_not_tell_may_be_there() -> None:
    registry, digest = directory()
    told = digest.take(registry.registrations())
    for criterion in ("rt=temp*", "href=/a", "base=coap://10.0.0.1", "rt=core.rd-ep"):
        assert may_have(told, wants(criterion))
    assert not may_have(told, wants("rt=temperature"))
    assert may_have(b"", wants("rt=temperature")), "of an earlier version"


def test_only_what_was_not_there_is_news_and_what_has_gone_goes_with_it() -> None:
    registry, digest = directory()
    first = register(registry, "meter", ("rt", "temperature"))
    assert digest.is_news
    digest.take(registry.registrations())
    register(registry, "meter", ("rt", "temperature"))
    assert not digest.is_news
    registry.remove(first, 0.0, owner="me")
    assert not digest.is_news
    register(registry, "valve", ("rt", "switch"))
    assert digest.is_news
    told = digest.take(registry.registrations())
    assert may_have(told, wants("rt=switch"))
    assert not may_have(told, wants("rt=temperature"))
