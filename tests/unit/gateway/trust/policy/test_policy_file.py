"""Goal: one file says who may do what over every protocol; an error names file, line and key."""

from __future__ import annotations

import pytest

from gateway.tools.provisioning import texts
from gateway.trust.policy import policy_file
from gateway.trust.policy.action import Action, ActionError, ActionPlace, coap_action
from gateway.trust.policy.explaining import Policies, explain
from gateway.trust.policy.faults import AccessFileError
from gateway.trust.policy.findings import findings
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import Principal

HEAD = "version = 1\n"
HERE = ActionPlace("gw-a", "campus", "north")
GREENHOUSE = """\
version = 1

[principals]
"psk:thermometer" = ["device"]
"psk:alice" = ["operator"]
"psk:*" = ["reader"]
"cert:*" = ["irrigation"]
"oscore:valve" = []
"console:bob" = ["reader"]

[roles.irrigation]
includes = ["reader"]
allow = ["PUT /sensors/valve", "publish campus/water/#"]

[[rules]]
who = ["irrigation", "psk:alice"]
deny = ["write /sensors/pump"]

[[rules]]
who = ["operator"]
at = ["campus/south", "+/+/gw-z"]
deny = ["write /#"]

[[rules]]
who = ["*"]
conceal = ["campus/keys/#"]
allow = ["GET /time"]

[vouch]
"*" = ["device"]
gw-office = ["admin"]
"""


def made(text: str, *default_roles: str) -> Policy:
    return Policy(policy_file.parse(text, "access.toml", frozenset(default_roles)), HERE)


def may(policy: Policy, who: str, what: str, where: ActionPlace = HERE) -> bool:
    known = Principal.parse(who)
    principal = policy.principal(known.kind, known.name)
    return bool(policy.may(principal, Action.parse(what, where)))


@pytest.mark.parametrize(
    ("who", "what", "allowed"),
    [
        ("psk:thermometer", "PUT /sensors/valve", False),
        ("psk:thermometer", "drain", False),
        ("psk:thermometer", "POST /drain", False),
        ("psk:thermometer", "POST /q/campus/south/gw-b/drain", False),
        ("psk:thermometer", "POST /rd", True),
        ("psk:thermometer", "GET /sensors/valve", False),
        ("psk:thermometer", "publish campus/north/thermometer/t", True),
        ("psk:thermometer", "publish campus/north/other/t", False),
        ("psk:alice", "PUT /sensors/valve", True),
        ("psk:alice", "PUT /sensors/pump", False),
        ("psk:alice", "POST /clients", False),
        ("psk:alice", "GET /clients", True),
        ("psk:alice", "drain", False),
        ("psk:alice", "membership", False),
        ("psk:alice", "PUT /q/campus/south/gw-b/sensors/valve", False),
        ("psk:alice", "PUT /q/campus/north/gw-b/sensors/valve", True),
        ("psk:alice", "PUT /q/-/-/gw-z/sensors/valve", False),
        ("psk:alice", "subscribe #", True),
        ("psk:alice", "subscribe campus/keys/+", False),
        ("psk:alice", "deliver campus/keys/a", False),
        ("psk:somebody", "GET /sensors/valve", True),
        ("psk:somebody", "PUT /sensors/valve", False),
        ("psk:somebody", "GET /clients", False),
        ("cert:c", "PUT /sensors/valve", True),
        ("cert:c", "PUT /sensors/other", False),
        ("cert:c", "publish campus/water/a", True),
        ("oscore:valve", "GET /sensors/valve", False),
        ("oscore:valve", "GET /time", True),
        ("oscore:other", "GET /time", True),
        ("user:alice", "publish a", False),
        ("console:bob", "console /metrics", True),
        ("console:eve", "console /metrics", False),
        ("local", "GET /sensors/valve", True),
        ("local", "GET /clients", True),
        ("local", "PUT /sensors/valve", False),
        ("local", "DELETE /clients", False),
        ("stranger", "GET /time", True),
        ("stranger", "GET /sensors/valve", False),
    ],
)
def test_a_file_says_who_may_do_what(who: str, what: str, allowed: bool) -> None:
    assert may(made(GREENHOUSE), who, what) is allowed


@pytest.mark.parametrize(
    ("via", "roles", "what", "allowed"),
    [
        ("gw-b", {"admin"}, "GET /sensors/valve", False),
        ("gw-b", {"admin"}, "drain", False),
        ("gw-b", {"device"}, "publish thermometer/t", True),
        ("gw-office", {"admin"}, "drain", True),
        ("gw-office", {"operator"}, "drain", False),
        ("gw-office", {"operator"}, "PUT /sensors/valve", True),
        ("gw-office", {"operator"}, "PUT /sensors/pump", True),
        ("gw-office", set(), "GET /sensors/valve", False),
    ],
)
def test_a_gateway_vouches_for_no_more_than_the_file_lets_it(
    via: str, roles: set[str], what: str, allowed: bool
) -> None:
    policy = made(GREENHOUSE)
    principal = policy.vouched(Principal("psk", "thermometer", frozenset(roles)), via)
    assert bool(policy.may(principal, Action.parse(what))) is allowed


def test_what_init_writes_lets_an_operator_write_through_no_gateway_until_one_is_named() -> None:
    text = texts.policy("anna")
    named = text.replace("# [vouch]", "[vouch]").replace('# "gw-root"', '"gw-root"')
    for written, allowed in ((text, False), (named, True)):
        policy = made(written)
        asker = Principal.parse("user:anna", frozenset(("operator", "device", "reader")))
        principal = policy.vouched(asker, "gw-root")
        assert policy.may(principal, Action.parse("GET /sensors/valve"))
        assert bool(policy.may(principal, Action.parse("PUT /sensors/valve"))) is allowed
        elsewhere = policy.vouched(asker, "gw-south")
        assert not policy.may(elsewhere, Action.parse("PUT /sensors/valve"))


def test_a_name_that_another_gateway_knows_gives_nothing_and_takes_away_all_the_same() -> None:
    text = HEAD + '[[rules]]\nwho = ["psk:a"]\nallow = ["drain"]\ndeny = ["GET /status"]\n'
    policy = made(text)
    principal = policy.vouched(Principal("psk", "a", frozenset({"reader"})), "gw-b")
    assert not policy.may(principal, Action.parse("drain"))
    assert not policy.may(principal, Action.parse("GET /status"))
    assert policy.may(principal, Action.parse("GET /sensors/a"))


def test_who_has_no_role_has_no_rights_unless_the_configuration_gives_it_one() -> None:
    for action in ("publish a", "subscribe a", "GET /sensors/a", "PUT /sensors/a", "drain"):
        assert not may(made(HEAD), "psk:a", action)
        assert not may(made(HEAD, "admin"), "stranger", action)
        assert may(made(HEAD, "admin"), "psk:a", action)


def test_roles_that_a_certificate_names_are_had_beside_those_that_are_assigned() -> None:
    policy = made(HEAD + '[principals]\n"cert:a" = ["device"]\n"cert:*" = ["admin"]\n')
    claimed = frozenset({"reader"})
    assert policy.principal("cert", "a", claimed).roles == {"device", "reader"}
    assert policy.principal("cert", "b", claimed).roles == {"reader"}
    assert policy.principal("cert", "b").roles == {"admin"}


def test_what_may_be_subscribed_to_may_be_received_unless_the_list_says_what() -> None:
    head = HEAD + '[[rules]]\nwho = ["user:a"]\n'
    plain = made(head + 'allow = ["subscribe a/#"]\n')
    assert may(plain, "user:a", "deliver a/b")
    told = made(head + 'allow = ["subscribe #", "deliver a/#"]\n')
    assert may(told, "user:a", "subscribe #")
    assert may(told, "user:a", "deliver a/b")
    assert not may(told, "user:a", "deliver b")


def test_a_slash_inside_a_segment_is_no_way_around_a_rule() -> None:
    policy = made(HEAD + '[[rules]]\nwho = ["psk:a"]\nallow = ["GET /a/b", "GET /c/+"]\n')
    rights = policy.rights(policy.principal("psk", "a"))
    assert rights.decide("GET", "/a/b")
    assert not rights.decide("GET", coap_action("GET", [b"a/b"]).target)
    assert not rights.decide("GET", coap_action("GET", [b"c/d"]).target)
    assert rights.decide("GET", coap_action("GET", [b"c", b"d/e\xff"]).target)


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("version = 2\n", 1, "version: 2 is not 1"),
        ("version = true\n", 1, "version: True is not 1"),
        ("[principals]\n'psk:a' = []\n", 1, "version: missing, and 'principals' needs version = 1"),
        (HEAD + "[default]\n", 2, "default: is none of version, principals"),
        (HEAD + "[principals]\n'psk:a' = 'x'\n", 3, "principals.psk:a: is no list of texts"),
        (HEAD + "[principals]\n'psk' = []\n", 3, "principals.psk: is none of psk:NAME"),
        (HEAD + "[principals]\n'user:a' = [\n'reader',\n'raeder']\n", 5, "no role 'raeder'"),
        (HEAD + "[roles.x]\nallow = ['reed /a']\n", 3, "'reed /a' begins with none of publish"),
        (HEAD + "[roles.x]\nallow = ['GET a']\n", 3, "'GET a' does not begin with '/'"),
        (HEAD + "[roles.x]\nallow = ['GET']\n", 3, "'GET' has no topic or path"),
        (HEAD + "[roles.x]\nallow = [\n'GET /a',\n'publish a/#/b']\n", 5, "is no topic filter"),
        (HEAD + "[roles.x]\nallow = ['publish $x/a']\n", 3, "opens a '$' topic"),
        (HEAD + "[roles.x]\nallow = ['drain /a']\n", 3, "has a target"),
        (HEAD + "[roles.x]\ndeny = ['publish %u/#']\n", 3, "has a placeholder"),
        (HEAD + "[roles.x]\nincludes = ['y']\n", 3, "roles.x.includes: there is no role 'y'"),
        (HEAD + "[roles.x]\nmay = []\n", 3, "roles.x.may: is none of includes"),
        (HEAD + "[roles.X]\n", 2, "roles.X: is no name of a role"),
        (HEAD + "[[rules]]\nallow = []\n", 2, "rules[0].who: missing"),
        (HEAD + "[[rules]]\nwho = ['*']\n[[rules]]\nwho = ['x']\n", 5, "'x' is no role here"),
        (HEAD + "[[rules]]\nwho = ['*']\nat = ['a/b/c/d']\n", 4, "rules[0].at: 'a/b/c/d' is not"),
        (HEAD + "[vouch]\nGW = ['reader']\n", 3, "vouch.GW: is none of a gateway's id"),
        (HEAD + "rules = 1\n", 2, "rules: is no array of tables"),
    ],
)
def test_an_error_names_the_file_the_line_and_the_key(text: str, line: int, part: str) -> None:
    with pytest.raises(AccessFileError) as caught:
        policy_file.parse(text, "access.toml")
    assert str(caught.value).startswith(f"access.toml:{line}: ")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[roles.x]\nallow = ['GET /a']\n", "access.toml: roles.x: nobody has this role"),
        (
            "[[rules]]\nwho = ['user:a']\nallow = ['PUT /a/b']\ndeny = ['write /a/#']\n",
            "access.toml:4: rules[0].allow: PUT /a/b is never reached: deny user:a: PUT /a/#",
        ),
        (
            "[[rules]]\nwho = ['user:a']\nallow = [\n'GET /#',\n'GET /b']\n",
            "access.toml:6: rules[0].allow: GET /b is never reached: allow user:a: GET /#",
        ),
        (
            "[[rules]]\nwho = ['user:a']\nallow = ['subscribe k/a']\n"
            "[[rules]]\nwho = ['*']\nconceal = ['k/#']\n",
            "access.toml:4: rules[0].allow: subscribe k/a is never reached: conceal *",
        ),
    ],
)
def test_what_is_odd_is_found(text: str, what: str) -> None:
    told = policy_file.parse(HEAD + text, "access.toml")
    assert any(str(found).startswith(what) for found in findings(told, "access.toml"))


def test_nothing_is_odd_about_a_policy_in_which_every_rule_counts() -> None:
    assert [
        str(found) for found in findings(policy_file.parse(GREENHOUSE, "a.toml"), "a.toml")
    ] == []


def test_the_decision_names_the_rule() -> None:
    policy = made(GREENHOUSE)
    alice = policy.principal("psk", "alice")
    denied = policy.may(alice, Action.parse("PUT /sensors/pump"))
    assert str(denied) == (
        "denied: deny psk:alice: PUT /sensors/pump (access.toml:17: rules[0].deny)"
    )
    allowed = policy.may(alice, Action.parse("PUT /sensors/valve"))
    assert str(allowed) == "allowed: allow operator: PUT /# (built-in role operator)"


@pytest.mark.parametrize("text", ["psk:a", "user:a:b", "cert:x y", "local", "stranger"])
def test_the_text_of_a_principal_is_read_as_it_is_written(text: str) -> None:
    assert str(Principal.parse(text)) == text


@pytest.mark.parametrize("text", ["", "psk", "psk:", "local:a", "x509:a", "stranger:"])
def test_what_is_no_principal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is none of psk:NAME"):
        Principal.parse(text)


def test_an_older_file_says_the_same_of_mqtt_and_nothing_of_the_rest() -> None:
    text = '[default]\nsubscribe = ["public/#"]\n[roles.reader]\npublish = ["r"]\n'
    text += '[users.alice]\npublish = ["campus/#"]\n'
    policy = made(text, "operator")
    assert may(policy, "user:alice", "publish campus/a")
    assert may(policy, "cert:alice", "publish campus/a")
    assert may(policy, "stranger", "subscribe public/a")
    assert not may(policy, "user:bob", "publish a")
    assert may(policy, "psk:bob", "PUT /sensors/a")
    for claimed, allowed in (({"reader"}, True), ({"operator"}, False)):
        known = policy.principal("cert", "c", frozenset(claimed))
        assert bool(policy.may(known, Action.parse("publish r"))) is allowed
        assert not policy.may(known, Action.parse("subscribe a"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("campus/north/gw-a", ActionPlace("gw-a", "campus", "north")),
        ("-/-/gw-a", ActionPlace("gw-a")),
        ("campus/-/gw-a", ActionPlace("gw-a", "campus")),
    ],
)
def test_a_place_is_read_as_it_is_written(text: str, place: ActionPlace) -> None:
    assert ActionPlace.parse(text) == place
    assert str(place) == text


@pytest.mark.parametrize("text", ["", "gw-a", "a/gw-a", "a/b/c/d", "/b/gw-a", "a//gw-a", "a/b/"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ActionError, match="is not DOMAIN/GROUP/GATEWAY"):
        ActionPlace.parse(text)


@pytest.mark.parametrize(
    ("text", "action", "told"),
    [
        ("publish a/b", Action("publish", "a/b"), "publish a/b"),
        (" subscribe  # ", Action("subscribe", "#"), "subscribe #"),
        ("drain", Action("drain"), "drain"),
        ("GET /", Action("GET", "/"), "GET /"),
        ("PUT /sensors/valve", Action("PUT", "/sensors/valve"), "PUT /sensors/valve"),
        ("POST /drain", Action("drain"), "drain"),
        ("GET /clients", Action("clients"), "clients"),
        ("DELETE /clients/a", Action("disconnect"), "disconnect"),
        ("GET /members", Action("GET", "/members"), "GET /members"),
        (
            "GET /q/campus/-/gw-b/time",
            Action("GET", "/time", ActionPlace("gw-b", "campus")),
            "GET /time at campus/-/gw-b",
        ),
        ("GET /q/campus/-", Action("GET", "/q/campus/-"), "GET /q/campus/-"),
    ],
)
def test_an_action_is_read_as_it_is_written_and_told_by_what_it_is(
    text: str, action: Action, told: str
) -> None:
    assert Action.parse(text) == action
    assert str(action) == told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "begins with none of"),
        ("steal a", "begins with none of"),
        ("publish", "has no topic or path"),
        ("GET ", "has no topic or path"),
        ("drain all", "has a target, and there is none"),
        ("GET sensors", "has a path that does not begin with '/'"),
        ("DELETE sensors/", "has a path that does not begin with '/'"),
    ],
)
def test_what_is_no_action_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ActionError, match=why) as refused:
        Action.parse(text)
    assert str(refused.value) == f"{text!r} {refused.value.why}"


@pytest.mark.parametrize(
    ("who", "roles", "via", "why"),
    [
        ("psk:thermometer", (), "", 'principals."psk:thermometer"'),
        ("psk:bob", (), "", 'principals."psk:*"'),
        ("cert:carol", (), "", 'principals."cert:*"'),
        ("cert:carol", ("operator",), "", "of its certificate"),
        ("psk:alice", ("reader",), "", 'of its certificate and principals."psk:alice"'),
        ("console:dave", (), "", "access.default_roles"),
        ("gateway:gw-b", (), "", "what it may vouch for"),
        ("psk:bob", (), "gw-office", "what gw-office may vouch for"),
    ],
)
def test_a_decision_says_where_the_roles_come_from(
    who: str, roles: tuple[str, ...], via: str, why: str
) -> None:
    policy = made(GREENHOUSE)
    told = explain(Policies(policy, policy), who, "GET /time", HERE, roles=roles, via=via)
    assert told.why_roles == why


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("roles = 1", 2, "roles: is no table"),
        ("[roles]\nx = 1", 3, "roles.x: is no table"),
        ("principals = []", 2, "principals: is no table"),
        ("[principals]\n'psk:a' = 'reader'", 3, "principals.psk:a: is no list of texts"),
        ("[principals]\n'psk:a' = ['reader', 1]", 3, "principals.psk:a: is no list of texts"),
    ],
)
def test_what_is_of_another_kind_is_told_by_line_and_key(text: str, line: int, why: str) -> None:
    with pytest.raises(AccessFileError, match=why) as refused:
        made(HEAD + text)
    assert f"access.toml:{line}" in str(refused.value)
