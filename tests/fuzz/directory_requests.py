"""Inputs of four kinds: what is asked of the Resource Directory, and what its file may hold.

The first byte of an input says what the rest is: link format, a look-up's query, records of the
journal, or a row of requests to the service. What must hold: no exception but the package's own;
what is read as links is written and read again as the same; a look-up in slices finds what it finds
at once, and no slice is much longer than another; registrations that a journal gave are taken up or
refused; and when all lifetimes are over nothing is left.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from resource_directory import exchange, journal
from resource_directory.errors import DirectoryError
from resource_directory.exchange import DirectoryAnswer, DirectoryRequest, Fetch, SlowLookUp
from resource_directory.journal import RegistrationJournal
from resource_directory.link_format import LinkFormatError, parse, serialise
from resource_directory.query import LookupQuery
from resource_directory.registration import MAX_LIFETIME_S, Registration
from resource_directory.registry import Registry
from resource_directory.search import LinkSearch
from resource_directory.service import DirectoryService
from resource_directory.watches import Watches

PATHS = (
    ("rd",),
    ("rd", "1"),
    ("rd", "2"),
    ("rd-lookup", "res"),
    ("rd-lookup", "ep"),
    (".well-known", "rd"),
    ("rd", ""),
    ("elsewhere",),
)
OWNERS = (None, "psk:a")
BASES = (None, "coap://[2001:db8::1]:5683", "coap://[fe80::1%eth0]", "coaps://192.0.2.7")
LINKS = parse('</t>;rt="temp x";if=core.s,</h>;rt=hum;title*=u;obs,<coap://x/y>;anchor="/t";sz=3')
CHECKS = 20
ONE_LOOK_CHECKS = 400
"""More than one candidate takes with as many criteria as there may be."""


def rd(data: bytes) -> None:
    """Give an input to the target of its kind, which the first byte says."""
    if data:
        _KINDS[data[0] % len(_KINDS)](data[1:])


def _links(data: bytes) -> None:
    try:
        links = parse(data)
    except LinkFormatError:
        return
    text = serialise(links)
    assert serialise(parse(text.encode())) == text
    assert [link.href for link in parse(text)] == [link.href for link in links]


def _query(data: bytes) -> None:
    registry = Registry()
    for number in range(12):
        registry.register(f"n{number}", LINKS, 0.0, base="coap://h", attributes=(("et", "m"),))
    try:
        query = LookupQuery.parse(data.decode(errors="replace").split("&"))
        for find in (registry.find_resources, registry.find_endpoints):
            whole, sliced = find(query, 1.0), find(query, 1.0)
            while not whole.go_on(1_000_000):
                pass
            _in_slices(sliced)
            assert sliced.texts == whole.texts
    except DirectoryError:
        return


def _in_slices(search: LinkSearch) -> None:
    before = 0
    while not search.go_on(CHECKS):
        assert search.checks - before <= CHECKS + ONE_LOOK_CHECKS
        before = search.checks


def _journal(data: bytes) -> None:
    kept = journal.read([data])
    assert kept.lost_bytes <= len(data)
    assert journal.read([data[at : at + 7] for at in range(0, len(data), 7)]) == kept
    registry = Registry()
    for registration in kept.registrations(lambda at, length: data[at : at + length]):
        assert math.isfinite(registration.expires_at)
        try:
            registry.restore(registration)
        except DirectoryError:
            continue
    written = b"".join(map(journal.registered, registry.registrations()))
    again = journal.read([written])
    assert again.lost_bytes == 0
    assert again.places.keys() == {one.location for one in registry.registrations()}


def _requests(data: bytes) -> None:
    """Each behind four bytes: method and owner, path, formats, and how long it is."""
    watches, changes = Watches(), RegistrationJournal()
    registry = Registry(listeners=(watches, changes))
    service = DirectoryService(registry, watches)
    now, at = 0.0, 0
    while at + 4 <= len(data):
        how, where, formats, size = data[at : at + 4]
        query, _, payload = data[at + 4 : at + 4 + size].partition(b"\n")
        at += 4 + size
        asked = DirectoryRequest(
            how & 7,
            PATHS[where & 7],
            tuple(query.decode(errors="replace").split("&")) if query else (),
            payload,
            (None, 40, 0, 64)[formats & 3],
            (None, 40, 50, None)[formats >> 2 & 3],
            owner=OWNERS[how >> 3 & 1],
            base=BASES[where >> 3 & 3],
        )
        if how & 16:
            service.watch(asked)
        _check_answer(_answer(service, asked, payload, now))
        service.take_changed()
        now += (how >> 5) * 20.0
        registry.expire(now)
    kept = journal.read(changes.take(registry, 1_000_000, _unexpected))
    assert kept.places.keys() == {one.location for one in registry.registrations()}
    end = now + MAX_LIFETIME_S + 1
    while registry.expire(end):
        pass
    assert len(registry) == 0
    assert registry.next_timer() is None


def _answer(
    service: DirectoryService, asked: DirectoryRequest, payload: bytes, now: float
) -> DirectoryAnswer:
    answer = service.answer(asked, now)
    if isinstance(answer, Fetch):
        return service.fetched(answer.key, payload or None, now)
    while isinstance(answer, SlowLookUp):
        answer = service.go_on(answer) or answer
    assert isinstance(answer, DirectoryAnswer)
    return answer


def _unexpected(_registration: Registration, error: Exception) -> None:
    raise error


def _check_answer(answer: DirectoryAnswer) -> None:
    if answer.code == exchange.CONTENT:
        assert serialise(parse(answer.payload)).encode() == answer.payload
    else:
        answer.payload.decode()


_KINDS = (_links, _query, _journal, _requests)


def _request(how: int, where: int, query: bytes, payload: bytes = b"", formats: int = 0) -> bytes:
    rest = query + b"\n" + payload if payload else query
    return bytes((how, where, formats, len(rest))) + rest


def seeds() -> Iterator[bytes]:
    """Inputs of each kind."""
    text = serialise(LINKS).encode()
    yield from (b"\0" + links for links in (b"", b"</a>", text, b'<a>;b="\\"";b*=c , <?d#e> ;f'))
    for query in (
        b"ep=n1*&rt=*",
        b"rt=temp&page=1&count=2",
        b"href=coap*&if=core.s",
        b"obs=",
        b"*",
    ):
        yield b"\1" + query
    registry = Registry()
    one = registry.register("n", LINKS, 0.0, base="coap://h", owner="psk:a")
    records = (
        journal.registered(one),
        journal.renewed(one),
        journal.removed(one.location),
        journal.clocks((1, 2, 3, 4, 5, 6)),
    )
    yield b"\2" + b"".join(records)
    yield from (b"\2" + record + records[0] for record in records)
    row = (
        _request(2, 8, b"ep=n&lt=60&gp=g", text, 1),
        _request(17, 3, b"rt=temp*"),
        _request(1, 4, b"gp=g"),
        _request(2, 1, b"lt=5"),
        _request(1, 1, b""),
        _request(2, 13, b"ep=m", text),
        _request(34, 8, b"ep=n&base=coap://other", b"</x>", 1),
        _request(4, 1, b""),
    )
    yield b"\3" + b"".join(row)
    yield from (b"\3" + row[0] + request + row[-2] for request in row)


def mutated(chance: random.Random) -> bytes:
    """A seed with some bytes changed, left out, or doubled."""
    data = bytearray(chance.choice(_SEEDS))
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(1, len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = bytes((chance.randrange(256),))
            case 1:
                del data[at : at + chance.randrange(1, 4)]
            case 2:
                data[at:at] = chance.choice(_WORDS)
            case _:
                data[at:at] = data[at : at + chance.randrange(1, 20)]
    return bytes(data)


_SEEDS = list(seeds())
_WORDS = (
    b"*",
    b"&",
    b"=",
    b"ep=",
    b'"',
    b"\\",
    b";",
    b",<",
    b"\xcb\x7f\xf0",
    b"%",
    b"page=0",
    b"/",
)
