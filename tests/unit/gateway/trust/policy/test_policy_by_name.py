"""A policy that goes by names, client ids and places decides for each alone, and says so."""

from __future__ import annotations

from gateway.trust.policy.action import CONFIGURE, CONSOLE, PUBLISH, Action, ActionPlace
from gateway.trust.policy.built_in import PolicyRole
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.principal import Principal
from gateway.trust.policy.rule import ALLOW, EVERYBODY, Rule

HERE = ActionPlace("gw-a", "campus", "north")
ALICE, BOB = Principal("user", "alice"), Principal("user", "bob")


def policy(*rules: Rule, of_role: tuple[Rule, ...] = ()) -> Policy:
    return Policy(PolicyRules({"worker": PolicyRole(rules=of_role)}, rules), HERE)


def test_who_is_named_by_a_rule_and_whom_a_name_in_a_target_concerns_goes_by_name() -> None:
    told = policy(
        Rule(ALLOW, PUBLISH, "a/b", "user:alice"),
        Rule(ALLOW, CONSOLE, "/page", "worker"),
        of_role=(Rule(ALLOW, CONFIGURE, "/of/%u", "worker"),),
    )
    assert [told.goes_by_name(ALICE, verb) for verb in (PUBLISH, CONSOLE, CONFIGURE)] == [True] * 3
    assert [told.goes_by_name(BOB, verb) for verb in (PUBLISH, CONSOLE, CONFIGURE)] == [
        False,
        False,
        True,
    ]
    assert told.goes_by_name(BOB, PUBLISH, CONFIGURE)
    assert not told.goes_by_name(BOB, PUBLISH, CONSOLE)
    assert not told.goes_by_name(BOB)


def test_a_target_with_a_client_id_is_for_each_client_its_own() -> None:
    told = policy(Rule(ALLOW, PUBLISH, "of/%c", EVERYBODY))
    for client_id, other in (("one", "two"), ("two", "one"), ("one", "two")):
        rights = told.rights(ALICE, client_id)
        assert rights.may_publish(f"of/{client_id}")
        assert not rights.may_publish(f"of/{other}")


def test_rights_are_made_once_for_who_is_alike_and_the_last_are_remembered() -> None:
    told = Policy(PolicyRules(rules=[Rule(ALLOW, PUBLISH, "of/%u", EVERYBODY)]), HERE, rights_max=2)
    alice = told.rights(ALICE, "one")
    assert told.rights(ALICE, "two") is alice
    bob = told.rights(BOB)
    assert told.rights(ALICE) is alice
    assert told.rights(Principal("user", "carol")).may_publish("of/carol")
    assert told.rights(ALICE) is alice
    assert told.rights(BOB) is not bob


def test_a_rule_of_a_place_holds_there_alone() -> None:
    told = policy(Rule(ALLOW, PUBLISH, "a/b", EVERYBODY, at=("campus/north",)))
    south = ActionPlace("gw-s", "campus", "south")
    near = ActionPlace("gw-n", "campus", "north")
    assert [
        bool(told.may(ALICE, Action(PUBLISH, "a/b", where)))
        for where in (HERE, south, near, ActionPlace(), south)
    ] == [True, False, True, True, False]
