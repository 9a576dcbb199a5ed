"""Goal: a gateway passes on to gateways of its fleet what names them, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_fleet import Fleet, asking, shown

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse
from gateway.coap.remote.forward_proxy import ForwardProxy
from tree_handler.members.hierarchy import MemberRecord, Membership

HOST, PORT, PATH, QUERY, HOPS, PROXY_URI, SCHEME = 3, 7, 11, 15, 16, 35, 39
WAY = ((PATH, b"q"), (PATH, b"campus"), (PATH, b"-"), (PATH, b"gw-b"))


def proxy() -> ForwardProxy:
    members = Membership()
    for name, port in (("gw-a", 0), ("gw-b", 5_700)):
        members.update(MemberRecord(name, 1, 1, "campus", "", "10.0.0.1", 1883, port))
    return ForwardProxy("gw-a", members)


def uri(text: str, *options: tuple[int, bytes]) -> CoapRequest | CoapResponse:
    route = ((PROXY_URI, text.encode()),)
    return proxy()(CoapRequest(codes.GET, options, b"body", True, route=route))


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (
            "coap://gw-b/sensors/load?a=1&b",
            [(11, b"sensors"), (11, b"load"), (15, b"a=1"), (15, b"b")],
        ),
        ("coap://gw-b", []),
        ("coap://GW-B:5683/x%20y", [(11, b"x y")]),
        ("coaps://gw-b:5684/x", [(11, b"x")]),
        ("coap://gw-b:5700/x", [(11, b"x")]),
        ("coap://gw-b/a%2Fb", [(11, b"a/b")]),
    ],
)
def test_rfc_7252_section_5_7_2_a_uri_of_a_gateway_is_its_resource(
    text: str, after: list[tuple[int, bytes]]
) -> None:
    found = uri(text, (5, b""), (17, b""))
    assert isinstance(found, CoapRequest)
    before_query = [one for one in after if one[0] == PATH]
    query = [one for one in after if one[0] == QUERY]
    assert list(found.options) == [(5, b""), *WAY, *before_query, *query, (17, b"")]
    assert (found.payload, found.observe, found.route) == (b"body", True, ())


@pytest.mark.parametrize(
    "text",
    [
        "coap://example.net/x",
        "coap://gw-c/x",
        "coap://10.0.0.1/x",
        "coap://[::1]/x",
        "coap://user@gw-b/x",
        "http://gw-b/x",
        "coap+tcp://gw-b/x",
        "coap://gw-b:80/x",
    ],
)
def test_rfc_7252_section_5_7_2_nothing_else_is_asked_for_anybody(text: str) -> None:
    found = uri(text)
    assert isinstance(found, CoapResponse)
    assert found.code == codes.PROXYING_NOT_SUPPORTED


@pytest.mark.parametrize(
    "text",
    ["gw-b/x", "coap:gw-b", "coap://", "coap://gw-b/#a", "coap://gw-b/%2", "coap://gw-b/%zz",
     "coap://gw-b:x/", "coap://gw-b:999999/", "coap://gw-b/a b", "coap://gw-b/\xe9"],
)  # fmt: skip
def test_what_is_no_uri_is_a_bad_option(text: str) -> None:
    found = uri(text)
    assert isinstance(found, CoapResponse)
    assert found.code == codes.BAD_OPTION


def test_rfc_7252_section_5_10_2_a_uri_stands_alone() -> None:
    found = uri("coap://gw-b/x", (PATH, b"y"))
    assert isinstance(found, CoapResponse)
    assert found.code == codes.BAD_OPTION


@pytest.mark.parametrize(
    ("route", "code"),
    [
        (((HOST, b"gw-b"), (SCHEME, b"coap")), None),
        (((HOST, b"gw-b"), (PORT, b"\x16\x33"), (SCHEME, b"coap")), None),
        (((HOST, b"gw-b"), (PORT, b"\x50"), (SCHEME, b"coap")), codes.PROXYING_NOT_SUPPORTED),
        (((HOST, b"gw-b"), (SCHEME, b"http")), codes.PROXYING_NOT_SUPPORTED),
        (((HOST, b"example.net"), (SCHEME, b"coap")), codes.PROXYING_NOT_SUPPORTED),
        (((HOST, b"\xff"), (SCHEME, b"coap")), codes.PROXYING_NOT_SUPPORTED),
        (((HOST, b"gw-b"),), None),
    ],
)
def test_a_scheme_or_a_host_names_a_gateway_too(
    route: tuple[tuple[int, bytes], ...], code: int | None
) -> None:
    found = proxy()(CoapRequest(codes.PUT, ((PATH, b"x"),), route=route))
    if code is not None:
        assert isinstance(found, CoapResponse)
        assert found.code == code
    else:
        assert isinstance(found, CoapRequest)
        assert found.options == (*WAY, (PATH, b"x"))


@pytest.mark.parametrize("host", [b"gw-a", b"localhost", b"gw.example.net", b"192.0.2.1"])
def test_a_host_that_is_no_other_gateway_changes_nothing(host: bytes) -> None:
    request = CoapRequest(codes.GET, ((PATH, b"x"),), route=((HOST, host),))
    assert proxy()(request) is request


@pytest.mark.parametrize("port", [(), ((PORT, b"\x16\x33"),)])
def test_rfc_7252_section_5_10_1_a_scheme_without_a_host_names_this_one(
    port: tuple[tuple[int, bytes], ...],
) -> None:
    route = (*port, (SCHEME, b"coap"))
    found = proxy()(CoapRequest(codes.PUT, ((PATH, b"x"),), b"1", True, route=route))
    assert found == CoapRequest(codes.PUT, ((PATH, b"x"),), b"1", True)


@pytest.mark.parametrize("route", [((SCHEME, b"http"),), ((PORT, b"\x50"), (SCHEME, b"coap"))])
def test_another_scheme_or_port_of_this_host_is_not_asked(
    route: tuple[tuple[int, bytes], ...],
) -> None:
    found = proxy()(CoapRequest(codes.GET, ((PATH, b"x"),), route=route))
    assert isinstance(found, CoapResponse)
    assert found.code == codes.PROXYING_NOT_SUPPORTED


def test_the_hop_limit_goes_on() -> None:
    request = CoapRequest(codes.GET, (), route=((HOST, b"gw-b"), (HOPS, b"\x05")))
    found = proxy()(request)
    assert isinstance(found, CoapRequest)
    assert found.route == ((HOPS, b"\x05"),)


@given(st.text(max_size=40) | st.text("coap:/gw-b%2F.?&#[]@5", max_size=30).map("coap://".__add__))
def test_any_uri_leads_to_a_gateway_by_its_long_name_or_nowhere(text: str) -> None:
    found = uri(text)
    if isinstance(found, CoapRequest):
        assert [value for _, value in found.options[:3]] == [b"q", b"campus", b"-"]
        assert found.options[3][1] in (b"gw-a", b"gw-b")
    else:
        assert found.code in (codes.PROXYING_NOT_SUPPORTED, codes.BAD_OPTION)


async def test_a_client_that_has_a_gateway_as_its_proxy_reads_another_one() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        by_uri = await ask("GET", "", proxy_uri="coap://gw-north/probe?aged")
        by_host = await ask("PUT", "probe", b"on", uri_host="gw-north")
        by_scheme = await ask("GET", "probe", uri_host="gw-north", proxy_scheme="coap")
        refused = await ask("GET", "", proxy_uri="coap://example.net/probe")
        up = await ask("GET", "", proxy_uri="coap://gw-north/probe/%2E%2E/status")
    assert shown(by_uri) == ("2.05", b"21.5")
    assert (by_host.code.dotted, shown(by_scheme)) == ("2.04", ("2.05", b"on"))
    assert (refused.code.dotted, up.code.dotted) == ("5.05", "4.00")
    assert len(fleet.north.probe.seen) == 3
