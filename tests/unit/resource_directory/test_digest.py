"""A digest never denies what a directory has, and denies most of what it has not."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_directory.digest import (
    AFTER_S,
    DIGEST_BYTES,
    EVERY_S,
    DigestTimes,
    DirectoryDigest,
    may_have,
)
from resource_directory.index import Criterion
from resource_directory.link_format import WebLink
from resource_directory.registry import Registry, RegistryLimits

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
    told = digest.take()
    assert len(told) == DIGEST_BYTES
    for endpoint, attributes in fleet.items():
        assert may_have(told, Criterion("ep", endpoint))
        assert all(may_have(told, Criterion(*one)) for one in attributes)


def test_each_word_of_a_list_is_there() -> None:
    registry, digest = directory()
    register(registry, "meter", ("rt", "temperature outdoor"))
    told = digest.take()
    assert may_have(told, wants("rt=outdoor"))
    assert not may_have(told, wants("rt=humidity"))


def test_few_of_those_that_are_not_there_look_as_if_they_were() -> None:
    registry, digest = directory()
    for number in range(100):
        register(registry, f"meter-{number}", ("rt", "temperature"))
    told = digest.take()
    wrong = sum(may_have(told, Criterion("ep", f"valve-{number}")) for number in range(1_000))
    assert wrong < 40


def test_what_a_digest_can_not_tell_may_be_there() -> None:
    _, digest = directory()
    told = digest.take()
    for criterion in ("rt=temp*", "href=/a", "base=coap://10.0.0.1", "rt=core.rd-ep"):
        assert may_have(told, wants(criterion))
    assert not may_have(told, wants("rt=temperature"))
    assert may_have(b"", wants("rt=temperature")), "of an earlier version"


def test_only_what_was_not_there_is_news_and_what_has_gone_goes_with_it() -> None:
    registry, digest = directory()
    first = register(registry, "meter", ("rt", "temperature"))
    assert digest.is_news
    digest.take()
    register(registry, "meter", ("rt", "temperature"))
    assert not digest.is_news
    registry.remove(first, 0.0, owner="me")
    assert not digest.is_news
    register(registry, "valve", ("rt", "switch"))
    assert digest.is_news
    told = digest.take()
    assert may_have(told, wants("rt=switch"))
    assert not may_have(told, wants("rt=temperature"))


def test_a_registration_of_terms_that_were_all_told_is_no_news() -> None:
    registry, digest = directory()
    for number in range(30):
        register(registry, f"meter-{number}", ("rt", f"kind-{number}"), ("if", "sensor"))
    assert digest.is_news
    digest.take()
    assert not digest.is_news
    for number in range(30):
        register(registry, f"meter-{number}", ("rt", f"kind-{29 - number}"))
        assert not digest.is_news
    digest.take()
    register(registry, "meter-0", ("rt", "kind-0"), ("if", "actuator"))
    assert digest.is_news


def test_a_digest_is_told_after_a_while_and_with_news_not_again_for_longer() -> None:
    times = DigestTimes(100.0)
    assert times.due == 100.0 + AFTER_S
    assert not times.take(times.due - 0.1, is_news=True)
    assert times.due == 100.0 + AFTER_S
    assert not times.take(100.0 + AFTER_S, is_news=False)
    assert times.due == 100.0 + 2 * AFTER_S
    assert times.take(times.due, is_news=True)
    assert times.due == 100.0 + 3 * AFTER_S + EVERY_S


def test_what_has_gone_is_out_and_none_of_the_others_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry, digest = directory()
    for number in range(1_000):
        first = register(registry, f"meter-{number}", ("rt", f"kind-{number}"))
    hashed = counted(monkeypatch)
    registry.remove(first, 0.0, owner="me")
    register(registry, "valve", ("rt", "switch"))
    told = digest.take()
    assert len(hashed) < 10
    assert may_have(told, wants("rt=kind-7"))
    again = DirectoryDigest()
    for registration in registry.registrations():
        again.changed(None, registration)
    assert told == again.take()


def test_a_registration_of_very_many_terms_may_have_anything_until_it_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry, digest = directory()
    register(registry, "valve", ("rt", "switch"))
    before = digest.take()
    hashed = counted(monkeypatch)
    links = [WebLink("/a", (("rt", f"kind-{number}"),)) for number in range(3_000)]
    wide = Registry(limits=RegistryLimits(links_per_registration=3_000), listeners=(digest,))
    location = wide.register("wide", links, 0.0, base="coap://h").location
    assert digest.is_news
    told = digest.take()
    wide.remove(location, 0.0)
    assert digest.is_news, "or it would be asked in vain for good"
    assert digest.take() == before
    assert len(hashed) == 0
    assert may_have(told, wants("rt=anything"))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list to which all is added that a digest hashes from now on."""
    hashed = list[bytes]()

    def noting(data: bytes, digest_size: int) -> Any:
        hashed.append(data)
        return blake2b(data, digest_size=digest_size)

    monkeypatch.setattr("resource_directory.digest.blake2b", noting)
    return hashed
