"""The rights of gateways on topics are decided once for each origin and topic."""

from __future__ import annotations

import pytest

from gateway.trust.policy import policy_file
from gateway.trust.policy.action import Action, ActionPlace
from gateway.trust.policy.faults import AccessFileError
from gateway.trust.policy.origins import DECISIONS_MAX, OriginRules, owner_of
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import Principal
from tests.held_objects import held_objects

HERE = ActionPlace("gw-a", "campus", "north")
FLEET = {"gw-a", "gw-b", "gw-x"}
COMMAND = "campus/north/gw-a/pump/set"


def policy(rows: str = "") -> Policy:
    return Policy(policy_file.parse(f"version = 1\n{rows}", "p.toml", frozenset({"reader"})), HERE)


def rules(rows: str = "") -> OriginRules:
    return OriginRules(policy(rows), FLEET)


@pytest.mark.parametrize(
    ("topic", "owner"),
    [
        ("campus/north/gw-a/pump/set", "gw-a"),
        ("campus/north/gw-a", "gw-a"),
        ("homeassistant/switch/gw-a/pump/config", "gw-a"),
        ("//gw-a/", "gw-a"),
        ("campus/gw-a", ""),
        ("gw-a", ""),
        ("", ""),
    ],
)
def test_a_topic_is_its_third_levels(topic: str, owner: str) -> None:
    assert owner_of(topic) == owner


def test_its_own_topics_and_nobodys_may_be_spoken_on_and_those_of_others_not() -> None:
    made = rules()
    for topic in ("campus/south/gw-x/door", "any/where/gw-x", "campus/door", "a/b/gw-new/c"):
        assert made.may_speak("gw-x", topic), topic
    for topic in (COMMAND, "campus/north/gw-b/door", "x/y/gw-b", "$SYS/x", "$hedgerow/member/gw-b"):
        assert not made.may_speak("gw-x", topic), topic


def test_a_command_takes_a_rule_and_its_own_topics_have_one() -> None:
    made = rules()
    assert made.may_command("gw-a", COMMAND)
    for origin in ("gw-b", "gw-x", "gw-new", ""):
        assert not made.may_command(origin, COMMAND)
    assert not made.may_command("gw-x", "campus/pump/set")


@pytest.mark.parametrize(
    "rows",
    [
        '[vouch]\n"gw-x" = ["operator"]',
        '[vouch]\n"*" = ["operator"]',
        f'[[rules]]\nwho = ["gateway:gw-x"]\nat = ["campus"]\nallow = ["publish {COMMAND}"]',
        '[[rules]]\nwho = ["gateway:*"]\nallow = ["publish campus/+/+/+/set"]',
        '[[rules]]\nwho = ["*"]\nallow = ["publish campus/#"]',
        f'[roles.far]\nallow = ["publish {COMMAND}"]\n[vouch]\n"gw-x" = ["far"]',
    ],
)
def test_vouch_and_rules_that_name_gateways_allow_it(rows: str) -> None:
    made = rules(rows)
    assert made.may_command("gw-x", COMMAND)
    assert made.may_speak("gw-x", COMMAND)


@pytest.mark.parametrize(
    "rows",
    [
        '[vouch]\n"gw-b" = ["operator"]',
        '[vouch]\n"*" = ["operator"]\n"gw-x" = []',
        f'[[rules]]\nwho = ["gateway:gw-x"]\nat = ["plant"]\nallow = ["publish {COMMAND}"]',
        '[[rules]]\nwho = ["user:*", "cert:*", "psk:*", "operator"]\nallow = ["publish #"]',
        '[vouch]\n"*" = ["operator"]\n[[rules]]\nwho = ["gateway:gw-x"]\ndeny = ["publish #"]',
        '[principals]\n"*" = ["operator"]',
    ],
)
def test_what_is_said_of_others_allows_it_nothing(rows: str) -> None:
    made = rules(rows)
    assert not made.may_command("gw-x", COMMAND)
    assert not made.may_speak("gw-x", COMMAND)


def test_a_rule_that_denies_silences_on_any_topic() -> None:
    made = rules('[[rules]]\nwho = ["gateway:gw-x"]\ndeny = ["publish zigbee/#", "publish +/+/+"]')
    assert not made.may_speak("gw-x", "zigbee/door")
    assert not made.may_speak("gw-x", "a/b/gw-x")
    assert made.may_speak("gw-x", "campus/door")
    assert made.may_speak("gw-b", "zigbee/door")


def test_where_everybody_may_everything_so_may_gateways() -> None:
    made = OriginRules(None, FLEET)
    assert made.may_command("gw-x", COMMAND)
    assert made.may_speak("", COMMAND)
    assert not made.may_speak("gw-x", "$SYS/x")


def test_another_policy_and_another_member_count_at_once() -> None:
    fleet = {"gw-a"}
    made = OriginRules(policy(), fleet)
    assert made.may_speak("gw-x", "campus/north/gw-b/door")
    fleet.add("gw-b")
    assert not made.may_speak("gw-x", "campus/north/gw-b/door")
    assert not made.may_command("gw-x", COMMAND)
    made.follow(policy('[vouch]\n"*" = ["operator"]'))
    assert made.may_command("gw-x", COMMAND)


def test_what_is_remembered_is_bounded_and_long_topics_are_not() -> None:
    made = rules()
    for number in range(DECISIONS_MAX):
        made.may_speak("gw-x", f"t/{number}")
    held = held_objects(made)
    for number in range(3 * DECISIONS_MAX):
        made.may_speak("gw-x", f"t/{number}")
    assert held_objects(made) <= held
    made.follow(policy())
    made.may_speak("gw-x", "t" * 10_000)
    held = held_objects(made)
    made.may_speak("gw-x", "u" * 10_000)
    assert held_objects(made) == held


def test_a_policy_gives_gateways_no_roles_but_by_vouch() -> None:
    with pytest.raises(AccessFileError, match=r"gateways have the roles that \[vouch\] gives"):
        policy('[principals]\n"gateway:gw-x" = ["admin"]')


def test_a_peer_that_another_gateway_calls_a_gateway_has_nothing_by_that() -> None:
    made = policy('[[rules]]\nwho = ["gateway:gw-b"]\nallow = ["PUT /sensors/#", "publish #"]')
    claimed = made.vouched(Principal.parse("gateway:gw-b", frozenset({"admin"})), "gw-x")
    assert claimed.roles == {"reader"}
    for action in ("PUT /sensors/pump", f"publish {COMMAND}", "publish a/b/gw-b"):
        assert not made.may(claimed, Action.parse(action))


def test_members_of_a_gateway_are_given_all_that_no_rule_about_it_denies() -> None:
    assert OriginRules(None).may_hold("gw-x", "jobs/1")
    made = rules(
        """
[[rules]]
who = ["gateway:gw-x"]
deny = ["subscribe jobs/#"]
[[rules]]
who = ["reader"]
deny = ["subscribe other/#"]
[[rules]]
who = ["*"]
conceal = ["keys/#"]
"""
    )
    for topic in ("jobs/1", "jobs"):
        assert not made.may_hold("gw-x", topic)
        assert made.may_hold("gw-b", topic)
    assert not made.may_hold("gw-b", "keys/1")
    for gateway_id in ("gw-x", "gw-b"):
        assert made.may_hold(gateway_id, "other/1")
        assert made.may_hold(gateway_id, "site/1")
    made.follow(policy())
    assert made.may_hold("gw-x", "jobs/1")
