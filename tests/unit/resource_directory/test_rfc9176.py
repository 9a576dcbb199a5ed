"""RFC 9176's own example exchanges, asked of the service; each test is named by its section."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resource_directory import exchange
from resource_directory.exchange import DirectoryAnswer, DirectoryRequest, Fetch
from resource_directory.link_format import parse, serialise
from resource_directory.registry import Registry
from resource_directory.service import DISCOVERY, DirectoryService
from resource_directory.simple import (
    FRESH_MAX,
    FRESH_OF_ONE,
    SimpleRegistration,
    SimpleRegistrations,
)

METHODS = {
    "GET": exchange.GET,
    "POST": exchange.POST,
    "PUT": exchange.PUT,
    "DELETE": exchange.DELETE,
}
FIGURE_8 = (
    b"</sensors/temp>;rt=temperature-c;if=sensor,"
    b"<http://www.example.com/sensors/temp>;"
    b'anchor="/sensors/temp";rel=describedby'
)


class Peer:
    """A client of a directory, under an owner and a base that a test may set."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.service = DirectoryService(self.registry)
        self.now = 1000.0
        self.owner: str | None = "psk:node"
        self.base: str | None = "coap://[2001:db8:1::1]"

    def request(
        self, method: str, uri: str, payload: bytes = b"", content_format: int | None = None
    ) -> DirectoryRequest:
        path, _, query = uri.partition("?")
        return DirectoryRequest(
            METHODS[method],
            tuple(path[1:].split("/")),
            tuple(query.split("&")) if query else (),
            payload,
            content_format,
            owner=self.owner,
            base=self.base,
        )

    def ask(
        self, method: str, uri: str, payload: bytes = b"", content_format: int | None = None
    ) -> DirectoryAnswer:
        asked = self.request(method, uri, payload, content_format)
        answer = self.service.answer(asked, self.now)
        assert isinstance(answer, DirectoryAnswer)
        return answer

    def register(self, query: str, payload: bytes = FIGURE_8) -> str:
        answer = self.ask("POST", f"/rd?{query}", payload, 40)
        assert answer.code == exchange.CREATED, answer.payload
        return "/" + "/".join(answer.location_path)

    def links(self, uri: str) -> str:
        answer = self.ask("GET", uri)
        assert (answer.code, answer.content_format) == (exchange.CONTENT, 40), answer.payload
        return answer.payload.decode()


def same(links: str) -> str:
    """Links as this directory writes them: the same ones, with values in quotes."""
    return serialise(parse(links))


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_4_3_the_interfaces_have_links_with_resource_types_and_content_formats() -> None:
    assert [(link.get("rt"), link.get("ct").split()[0]) for link in DISCOVERY] == [  # type: ignore[union-attr]  # it has one
        ("core.rd", "40"),
        ("core.rd-lookup-res", "40"),
        ("core.rd-lookup-ep", "40"),
    ]


def test_5_figure_8_a_registration_has_a_location(peer: Peer) -> None:
    location = peer.register("ep=node1")
    assert location.startswith("/rd/")
    assert peer.links(location) == same(FIGURE_8.decode())


def test_5_a_registered_endpoint_registers_again_at_the_same_location(peer: Peer) -> None:
    location = peer.register("ep=node1&d=floor")
    assert peer.register("ep=node1&d=floor", b"</other>") == location
    assert peer.links("/rd-lookup/res") == "<coap://[2001:db8:1::1]/other>"


def test_5_1_a_simple_registration_is_answered_when_its_links_were_fetched(peer: Peer) -> None:
    asked = peer.request("POST", "/.well-known/rd?lt=6000&ep=node1")
    fetch = peer.service.answer(asked, peer.now)
    assert isinstance(fetch, Fetch)
    assert fetch.uri == "coap://[2001:db8:1::1]/.well-known/core"
    assert fetch.deadline > peer.now
    assert peer.links("/rd-lookup/res") == ""
    answer = peer.service.fetched(fetch.key, b"</sen/temp>", peer.now)
    assert answer == DirectoryAnswer(exchange.CHANGED)
    assert peer.links("/rd-lookup/res") == "<coap://[2001:db8:1::1]/sen/temp>"
    peer.now += 5999
    assert peer.links("/rd-lookup/ep?ep=node1") != ""
    peer.now += 1
    assert peer.links("/rd-lookup/ep?ep=node1") == ""


def test_5_1_fresh_links_are_not_fetched_again_and_stale_ones_are(peer: Peer) -> None:
    asked = peer.request("POST", "/.well-known/rd?lt=6000&ep=node1")
    fetch = peer.service.answer(asked, peer.now)
    assert isinstance(fetch, Fetch)
    peer.service.fetched(fetch.key, b"</sen/temp>", peer.now, max_age_s=100)
    peer.now += 99
    assert peer.service.answer(asked, peer.now) == DirectoryAnswer(exchange.CHANGED)
    elsewhere = replace(asked, base="coap://[2001:db8:1::2]")
    assert isinstance(peer.service.answer(elsewhere, peer.now), Fetch)
    peer.now += 1
    assert isinstance(peer.service.answer(asked, peer.now), Fetch)
    assert peer.links("/rd-lookup/res?ep=node1") == "<coap://[2001:db8:1::1]/sen/temp>"


def test_5_1_links_are_fetched_again_after_a_day_whatever_their_registrant_says(peer: Peer) -> None:
    asked = peer.request("POST", "/.well-known/rd?lt=4000000&ep=node1")
    fetch = peer.service.answer(asked, peer.now)
    assert isinstance(fetch, Fetch)
    peer.service.fetched(fetch.key, b"</sen/temp>", peer.now, max_age_s=(1 << 32) - 1)
    peer.now += 86_399
    assert peer.service.answer(asked, peer.now) == DirectoryAnswer(exchange.CHANGED)
    peer.now += 1
    assert isinstance(peer.service.answer(asked, peer.now), Fetch)


def test_5_1_no_number_of_registrants_takes_what_is_remembered_of_others() -> None:
    """Names whose links are fresh for 136 years fill their own part, and the newest stay."""
    known, now = SimpleRegistrations(), 1000.0

    def registrant(name: str, owner: str | None, base: str) -> SimpleRegistration:
        return SimpleRegistration(name, "", None, (), owner, base)

    first = registrant("first", "psk:first", "coap://[2001:db8::1]")
    known.fetched(first, 3_600, now)
    for number in range(12_000):
        flooder = registrant(f"n{number}", None, f"coap://198.51.100.7:{number + 1}")
        known.fetched(flooder, (1 << 32) - 1, now)
    assert known.remembered == FRESH_OF_ONE + 1
    assert known.is_fresh(first, now)
    assert known.is_fresh(flooder, now)
    for number in range(FRESH_MAX):
        known.fetched(registrant(f"m{number}", f"psk:{number % 20}", "coap://h"), 60, now)
    assert known.remembered == FRESH_MAX
    last = registrant("last", "psk:last", "coap://h")
    known.fetched(last, None, now)
    assert known.is_fresh(last, now)
    assert known.is_fresh(first, now)
    assert known.remembered == FRESH_MAX


@pytest.mark.parametrize(
    ("payload", "content_format", "code"),
    [
        (None, None, exchange.GATEWAY_TIMEOUT),
        (b"</a", 40, exchange.BAD_GATEWAY),
        (b"[]", 50, exchange.BAD_GATEWAY),
        (b",".join([b"</a>"] * 10_001), 40, exchange.BAD_GATEWAY),
    ],
)
def test_5_1_a_registrant_without_links_is_told_and_not_registered(
    peer: Peer, payload: bytes | None, content_format: int | None, code: int
) -> None:
    fetch = peer.service.answer(peer.request("POST", "/.well-known/rd?ep=node1"), peer.now)
    assert isinstance(fetch, Fetch)
    answer = peer.service.fetched(fetch.key, payload, peer.now, content_format=content_format)
    assert answer.code == code
    assert len(peer.registry) == 0
    assert peer.service.fetched(fetch.key, b"</a>", peer.now).code == exchange.BAD_REQUEST


@pytest.mark.parametrize(
    ("query", "payload"),
    [("lt=60", b""), ("ep=n&base=coap://x", b""), ("ep=n&lt=0", b""), ("ep=n", b"</a>")],
)
def test_5_1_what_is_wrong_is_refused_before_anybody_is_asked(
    peer: Peer, query: str, payload: bytes
) -> None:
    assert peer.ask("POST", f"/.well-known/rd?{query}", payload).code == exchange.BAD_REQUEST


def test_5_1_only_so_many_registrants_are_asked_at_once(peer: Peer) -> None:
    asked = peer.request("POST", "/.well-known/rd?ep=node1")
    assert all(isinstance(peer.service.answer(asked, peer.now), Fetch) for _ in range(64))
    refused = peer.service.answer(asked, peer.now)
    assert isinstance(refused, DirectoryAnswer)
    assert (refused.code, refused.max_age) == (exchange.UNAVAILABLE, 5)
    peer.now += 60
    assert isinstance(peer.service.answer(asked, peer.now), Fetch)


def test_5_2_a_commissioning_tool_registers_another_by_its_base(peer: Peer) -> None:
    peer.register("ep=lm_R2-4-015_wndw&base=coap://[2001:db8:4::1]&d=R2-4-015", b"</light/left>")
    assert peer.links("/rd-lookup/res?d=R2-4-015") == "<coap://[2001:db8:4::1]/light/left>"


def test_5_3_1_figures_13_to_16_an_update_renews_and_may_change_the_base(peer: Peer) -> None:
    location = peer.register("ep=endpoint1&lt=500&base=coap://local-proxy-old.example.com")
    peer.now += 499
    assert peer.ask("POST", location) == DirectoryAnswer(exchange.CHANGED)
    peer.now += 499
    assert peer.links("/rd-lookup/res?ep=endpoint1") == same(
        "<coap://local-proxy-old.example.com/sensors/temp>;rt=temperature-c;if=sensor,"
        "<http://www.example.com/sensors/temp>;"
        'anchor="coap://local-proxy-old.example.com/sensors/temp";rel=describedby'
    )
    updated = peer.ask("POST", f"{location}?base=coaps://new.example.com")
    assert updated == DirectoryAnswer(exchange.CHANGED)
    assert peer.links("/rd-lookup/res?ep=endpoint1") == same(
        "<coaps://new.example.com/sensors/temp>;rt=temperature-c;if=sensor,"
        "<http://www.example.com/sensors/temp>;"
        'anchor="coaps://new.example.com/sensors/temp";rel=describedby'
    )


def test_5_3_2_figure_17_a_registration_is_removed_once(peer: Peer) -> None:
    location = peer.register("ep=node1")
    assert peer.ask("DELETE", location) == DirectoryAnswer(exchange.DELETED)
    assert peer.ask("DELETE", location).code == exchange.NOT_FOUND
    assert peer.links("/rd-lookup/res") == ""


def test_6_1_links_from_a_link_local_address_are_not_taken(peer: Peer) -> None:
    for base in ("coap://[fe80::1]", "coap://[fe80::1%25eth0]", "coap://169.254.1.2:5683"):
        assert peer.ask("POST", f"/rd?ep=n&base={base}", b"</a>").code == exchange.BAD_REQUEST
    peer.base = "coap://[fe80::1%eth0]"
    assert peer.ask("POST", "/rd?ep=n", b"</a>").code == exchange.BAD_REQUEST


@pytest.fixture
def building(peer: Peer) -> Peer:
    """The endpoints of section 6.3's examples."""
    peer.register(
        "ep=node5&base=coap://[2001:db8:3::123]:61616&et=oic.d.sensor",
        b'</temp>;rt="tag:example.org,2020:temperature",'
        b'<http://www.example.com/sensors/temp>;rel=describedby;anchor="/temp"',
    )
    peer.register("ep=node7&base=coap://[2001:db8:3::127]:61616&ct=40&d=floor-3", b"")
    for number in range(10):
        peer.register(
            f"ep=lamp{number}&base=coap://[2001:db8:3::1{number}]:61616",
            b"</res/%d>;ct=60" % number,
        )
    return peer


def test_6_3_figure_19_a_resource_look_up_by_resource_type(building: Peer) -> None:
    assert building.links("/rd-lookup/res?rt=tag:example.org,2020:temperature") == (
        '<coap://[2001:db8:3::123]:61616/temp>;rt="tag:example.org,2020:temperature"'
    )


def test_6_3_a_wildcard_finds_what_begins_so(building: Peer) -> None:
    found = building.links("/rd-lookup/res?rt=tag:example.org,2020:*")
    assert [link.href for link in parse(found)] == ["coap://[2001:db8:3::123]:61616/temp"]


def test_6_3_figure_21_pages_of_a_look_up(building: Peer) -> None:
    everything = building.links("/rd-lookup/res?ct=60")
    pages = [building.links(f"/rd-lookup/res?ct=60&page={n}&count=5") for n in range(3)]
    assert ",".join(pages[:2]) == everything
    assert pages[2] == ""


def test_6_3_figure_22_targets_that_are_uris_stay_as_they_are(peer: Peer) -> None:
    links = (
        b'</sensors>;ct=40;title="Sensor Index",'
        b"</sensors/temp>;rt=temperature-c;if=sensor,"
        b"</sensors/light>;rt=light-lux;if=sensor,"
        b'<http://www.example.com/sensors/t123>;rel=describedby;anchor="/sensors/temp",'
        b'</t>;rel=alternate;anchor="/sensors/temp"'
    )
    for name in ("sensor1", "sensor2"):
        query = f"ep={name}&base=coap://{name}.example.com&et=tag:example.com,2020:platform"
        peer.register(query, links)
    expected = ",".join(
        f'<coap://{name}.example.com/sensors>;ct=40;title="Sensor Index",'
        f"<coap://{name}.example.com/sensors/temp>;rt=temperature-c;if=sensor,"
        f"<coap://{name}.example.com/sensors/light>;rt=light-lux;if=sensor,"
        "<http://www.example.com/sensors/t123>;rel=describedby;"
        f'anchor="coap://{name}.example.com/sensors/temp",'
        f"<coap://{name}.example.com/t>;rel=alternate;"
        f'anchor="coap://{name}.example.com/sensors/temp"'
        for name in ("sensor1", "sensor2")
    )
    found = peer.links("/rd-lookup/res?et=tag:example.com,2020:platform")
    assert found == same(expected)


def test_6_4_figure_23_an_endpoint_look_up_gives_registrations_with_their_attributes(
    building: Peer,
) -> None:
    (link,) = parse(building.links("/rd-lookup/ep?et=oic.d.sensor"))
    assert link.href.startswith("/rd/")
    assert dict(link.attributes) == {
        "base": "coap://[2001:db8:3::123]:61616",
        "ep": "node5",
        "et": "oic.d.sensor",
        "rt": "core.rd-ep",
    }


def test_6_2_an_endpoint_is_found_by_its_links_and_a_link_by_its_endpoint(building: Peer) -> None:
    (link,) = parse(building.links("/rd-lookup/ep?href=coap://[2001:db8:3::123]:61616/temp"))
    assert link.get("ep") == "node5"
    assert len(parse(building.links(f"/rd-lookup/res?href={link.href}"))) == 2
    assert building.links("/rd-lookup/res?anchor=coap://[2001:db8:3::123]:61616/temp") == (
        '<http://www.example.com/sensors/temp>;rel="describedby";'
        'anchor="coap://[2001:db8:3::123]:61616/temp"'
    )


def test_6_2_a_registration_is_found_by_its_path_and_by_its_uri(building: Peer) -> None:
    (link,) = parse(building.links("/rd-lookup/ep?et=oic.d.sensor"))
    for name in (link.href, f"coap://rd.example{link.href}", f"COAPS://[2001:db8::1]{link.href}"):
        assert len(parse(building.links(f"/rd-lookup/res?href={name}"))) == 2, name
        assert parse(building.links(f"/rd-lookup/ep?href={name}")) == [link], name
    assert building.links("/rd-lookup/ep?href=coap://rd.example/rd/none") == ""
    assert building.links(f"/rd-lookup/ep?href=http://rd.example{link.href}") == ""


def test_6_2_who_has_an_answer_already_is_told_so_by_its_etag(building: Peer) -> None:
    first = building.ask("GET", "/rd-lookup/res?ct=60")
    assert first.etag is not None
    request = building.request("GET", "/rd-lookup/res?ct=60")
    asked = replace(request, etags=(b"other", first.etag))
    assert building.service.answer(asked, building.now) == DirectoryAnswer(
        exchange.VALID, etag=first.etag
    )
    building.register("ep=one-more", b"</x>;ct=60")
    assert building.ask("GET", "/rd-lookup/res?ct=60").etag != first.etag


def test_7_5_first_come_is_first_remembered_in_simple_registrations_too(peer: Peer) -> None:
    location = peer.register("ep=node1&lt=100")
    peer.owner = "psk:other"
    assert peer.ask("POST", "/rd?ep=node1", b"</x>").code == exchange.FORBIDDEN
    assert peer.ask("POST", "/.well-known/rd?ep=node1").code == exchange.FORBIDDEN
    assert peer.ask("POST", location).code == exchange.FORBIDDEN
    assert peer.ask("DELETE", location).code == exchange.FORBIDDEN
    peer.now += 100
    assert peer.register("ep=node1") != location


def test_an_endpoint_with_two_thousand_links_registers_in_one_body(peer: Peer) -> None:
    links = b",".join(b'</s/%d>;rt="kind-%d";if=sensor' % (i, i) for i in range(2000))
    peer.register("ep=many&base=coap://h", links)
    assert peer.links("/rd-lookup/res?rt=kind-1234").startswith("<coap://h/s/1234>")


def test_a_method_or_path_that_is_none_of_the_directorys_is_refused(peer: Peer) -> None:
    assert peer.ask("GET", "/rd").code == exchange.METHOD_NOT_ALLOWED
    assert peer.ask("PUT", "/rd/1").code == exchange.METHOD_NOT_ALLOWED
    assert peer.ask("POST", "/rd-lookup/ep").code == exchange.METHOD_NOT_ALLOWED
    assert peer.ask("GET", "/.well-known/rd").code == exchange.METHOD_NOT_ALLOWED
    assert peer.ask("GET", "/rd-lookup/gp").code == exchange.NOT_FOUND
    served = [("rd",), ("rd", "1"), ("rd-lookup", "res"), (".well-known", "rd")]
    assert all(map(peer.service.serves, served))
    assert not any(map(peer.service.serves, [(".well-known", "core"), ("sensors",), ()]))


def test_5_1_links_that_are_fetched_again_take_no_second_place() -> None:
    known = SimpleRegistrations()
    asked = SimpleRegistration("n", "", None, (), None, "coap://[2001:db8::1]")
    known.fetched(asked, 10, 0.0)
    known.fetched(asked, None, 5.0)
    assert known.remembered == 1
    assert known.is_fresh(asked, 64.9)
    assert not known.is_fresh(asked, 65.0)
    known.fetched(replace(asked, sector="s"), 10, 5.0)
    assert known.remembered == 2


def test_5_1_where_each_has_one_the_first_one_makes_room() -> None:
    known = SimpleRegistrations()
    registrants = [
        SimpleRegistration("n", "", None, (), f"psk:{number}", "coap://h")
        for number in range(FRESH_MAX + 1)
    ]
    for one in registrants:
        known.fetched(one, 60, 0.0)
    assert known.remembered == FRESH_MAX
    assert [known.is_fresh(one, 1.0) for one in registrants[:2]] == [False, True]
    known.fetched(registrants[0], 60, 0.0)
    assert [known.is_fresh(one, 1.0) for one in registrants[:3]] == [True, False, True]


def test_5_1_who_registers_without_a_name_is_known_by_the_host_of_its_base() -> None:
    known = SimpleRegistrations()

    def registrant(name: str, base: str) -> SimpleRegistration:
        return SimpleRegistration(name, "", None, (), None, base)

    quiet = registrant("quiet", "coap://[2001:db8::1]")
    known.fetched(quiet, 3_600, 0.0)
    flood = [registrant(f"n{n}", f"coap://198.51.100.7:{n + 1}") for n in range(FRESH_OF_ONE + 1)]
    for one in flood:
        known.fetched(one, 3_600, 0.0)
    assert known.remembered == FRESH_OF_ONE + 1
    fresh = [known.is_fresh(one, 1.0) for one in (quiet, flood[0], flood[1], flood[-1])]
    assert fresh == [True, False, True, True]
    assert not known.is_fresh(registrant("quiet", "coap://[2001:db8::2]"), 1.0)
