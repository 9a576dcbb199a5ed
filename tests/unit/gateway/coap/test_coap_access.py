"""Goal: what a resource forgets to check has been checked before it is asked."""

from __future__ import annotations

import aiocoap
import aiocoap.resource
import pytest
from aiocoap.numbers.codes import Code

from coap_engine.message import CoapPeer, CoapRequest
from dtls.datagrams import PeerAddress
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from gateway.coap.access import DECIDED_MAX, DECISIONS_MAX, CoapAccess, identity_of
from gateway.coap.peers import OscoreAddress, session_peer, udp_peer
from gateway.coap.remote.execution import LocalExecution
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.principal import Principal
from gateway.trust.policy.rule import ALLOW, DENY, Rule
from tests.held_objects import held_bytes, held_objects, held_text
from tests.policies import access_of, open_access
from tree_handler.remote.resource import ResourceRequest

AT = PeerAddress(("192.0.2.1", 40_000))
METER = session_peer(1, AT, PeerIdentity(Proof.PSK, "meter-1"))
PUMP = session_peer(2, AT, PeerIdentity(Proof.PSK, "pump"))
STRANGER = udp_peer(PeerAddress(("192.0.2.2", 40_000)))
NEIGHBOUR = udp_peer(PeerAddress(("127.0.0.1", 40_000)))
WRITES = [Code.POST, Code.PUT, Code.DELETE, Code.PATCH, Code.iPATCH]
URI_PATH = 11


def request(code: Code, path: str = "/value") -> CoapRequest:
    segments = path.removeprefix("/").split("/")
    return CoapRequest(int(code), tuple((URI_PATH, one.encode()) for one in segments))


def answer(access: CoapAccess, asked: CoapRequest, peer: CoapPeer) -> Code | None:
    refused = access.refusal(asked, peer)
    return None if refused is None else Code(refused.code)


@pytest.mark.parametrize("code", [*WRITES, Code(0x1F)])
def test_a_write_needs_a_peer_with_a_role_that_may(code: Code) -> None:
    asked, access = request(code), access_of({"psk:meter-1": "operator"})
    assert answer(access, asked, STRANGER) is Code.UNAUTHORIZED
    assert answer(access, asked, NEIGHBOUR) is Code.UNAUTHORIZED
    assert answer(access, asked, METER) is None
    assert answer(access, asked, PUMP) is Code.FORBIDDEN
    assert answer(open_access(), asked, STRANGER) is None


@pytest.mark.parametrize("code", [Code.GET, Code.FETCH])
def test_anybody_may_read_what_is_public(code: Code) -> None:
    access = access_of({"psk:meter-1": "reader"}, public=["/sensors", "/.well-known/core"])
    for path in ("/sensors", "/sensors/roof/temperature", "/.well-known/core"):
        for peer in (METER, NEIGHBOUR, STRANGER, PUMP):
            assert answer(access, request(code, path), peer) is None
    for path in ("/sensors-of-mine", "/.well-known", "/rd/1", "/"):
        assert answer(access, request(code, path), STRANGER) is Code.UNAUTHORIZED
        assert answer(access, request(code, path), PUMP) is Code.FORBIDDEN
        for reader in (METER, NEIGHBOUR):
            assert answer(access, request(code, path), reader) is None


def test_nothing_or_everything_may_be_public() -> None:
    for path in ("/value", "/", "/q/-/-/gw-b/sensors"):
        asked = request(Code.GET, path)
        assert answer(access_of(public=["/"]), asked, STRANGER) is None
        assert answer(access_of(public=[]), asked, STRANGER) is Code.UNAUTHORIZED


def test_a_way_to_other_gateways_may_be_public_or_one_to_some_of_them() -> None:
    access = access_of(public=["/q/campus/south", "/q/-/-/gw-c/status", "/per%cent/a+b"])
    for path, code in {
        "/q/campus/south/gw-b/sensors": None,
        "/q/campus/south": None,
        "/q/campus/north/gw-d/sensors": Code.UNAUTHORIZED,
        "/q/-/-/gw-c/status": None,
        "/q/-/-/gw-c/sensors": Code.UNAUTHORIZED,
        "/q/campus/north/gw/sensors": Code.UNAUTHORIZED,  # this gateway
        "/sensors": Code.UNAUTHORIZED,
        "/per%cent/a+b": None,
    }.items():
        assert answer(access, request(Code.GET, path), STRANGER) is code, path
        assert answer(access, request(Code.PUT, path), STRANGER) is Code.UNAUTHORIZED


def test_what_a_rule_denies_is_not_public() -> None:
    denied = Rule(DENY, "GET", "/sensors/camera", "*")
    access = access_of({"psk:meter-1": "admin"}, [denied], public=["/sensors"])
    for peer in (METER, NEIGHBOUR, STRANGER):
        assert answer(access, request(Code.GET, "/sensors/camera"), peer) is not None
        assert answer(access, request(Code.GET, "/sensors/lamp"), peer) is None


@pytest.mark.parametrize(
    ("code", "path", "operator"),
    [
        (Code.POST, "/drain", Code.FORBIDDEN),
        (Code.POST, "/clients", Code.FORBIDDEN),
        (Code.GET, "/clients", None),
        (Code.PUT, "/sensors/valve", None),
    ],
)
@pytest.mark.parametrize("before", ["", "/q/campus/north/gw", "/q/-/-/gw-b"])
def test_rights_of_their_own_are_given_by_no_path_here_nor_elsewhere(
    code: Code, path: str, operator: Code | None, before: str
) -> None:
    access = access_of({"psk:meter-1": "operator", "psk:pump": "admin"})
    asked = request(code, before + path)
    assert answer(access, asked, METER) is operator
    assert answer(access, asked, PUMP) is None
    assert answer(access, asked, STRANGER) is Code.UNAUTHORIZED


def test_a_rule_for_some_gateways_holds_at_the_entry_to_them_alone() -> None:
    at_south = Rule(ALLOW, "PUT", "/sensors/#", "psk:meter-1", ("campus/south",))
    access = access_of(rules=[at_south])
    there, here = request(Code.PUT, "/q/campus/south/gw-b/sensors/valve"), "/sensors/valve"
    assert answer(access, there, METER) is None
    assert answer(access, request(Code.PUT, here), METER) is Code.FORBIDDEN
    nested = request(Code.PUT, "/q/campus/south/gw-b/q/campus/north/gw/sensors/valve")
    assert answer(access, nested, METER) is Code.FORBIDDEN


def test_who_has_proof_is_told_what_it_may_not_and_as_whom() -> None:
    access = access_of({"psk:meter-1": "reader"})
    refused = access.refusal(request(Code.PUT), METER)
    assert refused is not None
    assert refused.payload == b"psk:meter-1 (reader) may not PUT this"
    stranger = access.refusal(request(Code.PUT), STRANGER)
    assert stranger is not None
    assert b"key" in stranger.payload


def test_another_policy_holds_at_once() -> None:
    access = access_of({"psk:meter-1": "operator"})
    assert answer(access, request(Code.PUT), METER) is None
    access.follow(Policy(PolicyRules()))
    assert answer(access, request(Code.PUT), METER) is Code.FORBIDDEN


def test_what_is_remembered_of_peers_is_bounded_and_does_not_change_what_is_decided() -> None:
    access = access_of({"psk:p7": "operator"}, public=["/sensors"])
    for number in range(300):
        peer = session_peer(number, AT, PeerIdentity(Proof.PSK, f"p{number % 270}"))
        may = None if number % 270 == 7 else Code.FORBIDDEN
        for path in range(70):
            assert answer(access, request(Code.PUT, f"/sensors/{path}"), peer) is may
        assert answer(access, request(Code.GET, f"/sensors/{'x' * 200}"), peer) is None


def test_of_a_peer_64_decisions_on_requests_of_up_to_128_bytes_are_remembered() -> None:
    access = open_access()

    def remembered(*paths: str) -> int:
        before = held_bytes(access)
        for path in paths:
            assert answer(access, request(Code.PUT, path), METER) is None
        return held_bytes(access) - before

    nothing = remembered()
    remembered("/first")
    assert remembered("x" * 129, f"{'x' * 128}/y") == nothing
    assert remembered("x" * 128) == 128
    assert remembered(*(f"{number:010}" for number in range(2, DECISIONS_MAX))) == 620
    assert remembered("/first", "x" * 128) == nothing
    full = held_bytes(access)
    assert remembered("one more") < 0
    assert remembered("x" * 128) == 128
    assert held_bytes(access) < full


def test_what_is_remembered_of_paths_is_bounded_and_another_policy_holds_at_once() -> None:
    access = access_of({"psk:operator": "operator", "psk:reader": "reader"})
    operator, reader = (
        access.principal(PeerIdentity(Proof.PSK, name)) for name in ("operator", "reader")
    )
    nothing = held_objects(access)
    for number in range(DECIDED_MAX):
        assert access.may(operator, "PUT", ["sensors", f"s{number}"]).is_allowed
    full = held_objects(access)
    assert full > nothing + DECIDED_MAX
    for number in range(DECIDED_MAX, 2 * DECIDED_MAX - 10):
        assert access.may(operator, "PUT", ["sensors", f"s{number}"]).is_allowed
    assert access.may(operator, "PUT", ["x" * 10_000]).is_allowed
    for _ in range(2):
        assert not access.may(reader, "PUT", ["sensors", "s1"]).is_allowed
        assert access.may(reader, "GET", ["sensors", "s1"]).is_allowed
    assert held_objects(access) < full + 100
    assert held_text(access) < 1_000
    access.follow(Policy(PolicyRules()))
    assert held_objects(access) < nothing + 10


def test_rights_in_somebodys_hands_are_by_the_policy_of_each_moment() -> None:
    access = access_of({"psk:operator": "operator"})
    operator = access.principal(PeerIdentity(Proof.PSK, "operator"))
    asked = ("PUT", ("sensors", "s1"))
    rights = access.rights(operator)
    for _ in range(2):
        assert rights.may(*asked).is_allowed
    again = access.rights(operator)
    assert again.may(*asked).is_allowed
    denied = Rule(DENY, "PUT", "/sensors/#", "*")
    access.follow(Policy(PolicyRules(rules=[denied])))
    for held in (rights, again):
        for _ in range(2):
            assert not held.may(*asked).is_allowed


def test_who_asks_the_same_again_and_again_makes_nobody_else_forgotten() -> None:
    access = access_of({"psk:operator": "operator", "psk:reader": "reader"})
    operator, reader = (
        access.principal(PeerIdentity(Proof.PSK, name)) for name in ("operator", "reader")
    )
    remembered = access.may(reader, "GET", ["sensors", "s1"])
    rights = access.rights(operator)
    for _ in range(DECIDED_MAX + 1):
        assert rights.may("PUT", ("sensors", "s1")).is_allowed
    assert access.may(reader, "GET", ["sensors", "s1"]) is remembered


def test_nothing_is_remembered_of_somebody_of_whom_no_decision_is() -> None:
    access = access_of({})
    nothing = held_objects(access) - held_objects(access.policy)
    for number in range(1_000):
        somebody = Principal.parse(f"psk:p{number}")
        assert not access.may(somebody, "PUT", ["x" * 10_000]).is_allowed
    assert held_objects(access) - held_objects(access.policy) < nothing + 10


def test_a_device_behind_oscore_is_known_by_its_context() -> None:
    access = access_of({"oscore:lamp": "operator"})
    for identity, code in (
        (PeerIdentity(Proof.OSCORE, "lamp"), None),
        (PeerIdentity(Proof.OSCORE, "pump"), Code.FORBIDDEN),
        (PeerIdentity(Proof.PSK, "lamp"), Code.FORBIDDEN),
    ):
        peer = CoapPeer(OscoreAddress(AT, identity), str(identity), str(identity))
        assert answer(access, request(Code.PUT), peer) is code


def test_a_peer_whose_transport_knows_no_identity_is_anonymous() -> None:
    request = aiocoap.Message(code=Code.PUT)
    request.remote = object()
    assert identity_of(request) is ANONYMOUS


async def test_a_stranger_reads_elsewhere_what_is_public_there_alone() -> None:
    site = aiocoap.resource.Site()
    for path in ("sensors", "secrets"):
        site.add_resource([path], Value())
    execute = LocalExecution(site, "gw", access_of(public=["/sensors"]))
    answers = {}
    for path in ("sensors", "secrets"):
        for identity, roles in ((None, ()), ("psk:meter-1", ("reader",))):
            asked = ResourceRequest("GET", (path,), identity=identity, roles=roles)
            answers[path, identity] = (await execute(asked, "gw-b")).code
    assert answers.pop(("secrets", None)) == Code.UNAUTHORIZED
    assert set(answers.values()) == {int(Code.CONTENT)}


class Value(aiocoap.resource.Resource):
    async def render_get(self, _request: aiocoap.Message) -> aiocoap.Message:
        return aiocoap.Message(payload=b"21.5")
