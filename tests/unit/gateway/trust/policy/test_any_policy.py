"""Goal: whatever a policy says, it is read or refused by line, and what denies only takes away.

Method: hypothesis makes documents out of right and of odd pieces, principals and actions.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.trust.policy import policy_file
from gateway.trust.policy.action import RIGHTS, TOPIC_VERBS, VERBS, Action, ActionPlace
from gateway.trust.policy.built_in import ROLES
from gateway.trust.policy.faults import AccessFileError
from gateway.trust.policy.findings import findings
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.principal import NAMED, Principal

HERE = ActionPlace("gw-a", "campus", "north")
OWN = ("water", "fire")
LEVELS = st.sampled_from(["a", "b", "+", "sensors", "valve", "%u", "$SYS", "é", ""])
TARGETS = st.builds("/".join, st.lists(LEVELS, min_size=1, max_size=4)).map(
    lambda text: text or "a"
)
ROLE = st.sampled_from((*ROLES, *OWN))
SUBJECT = st.sampled_from(("psk:a", "user:b", "cert:*", "local", "stranger", "*"))
PLACE = st.sampled_from(("campus", "campus/north", "campus/north/gw-a", "+/south", "other"))


@st.composite
def rules(draw: st.DrawFn, *, takes_away: bool = False) -> str:
    """A rule that is right."""
    verb = draw(st.sampled_from(VERBS))
    if verb in RIGHTS:
        return verb
    target = draw(TARGETS)
    target = target.replace("%u", "u") if takes_away else target
    target += draw(st.sampled_from(["", "/#"]))
    if verb in TOPIC_VERBS:
        is_open = target[0] != "$" or (verb != "publish" and target.split("/")[0] == "$SYS")
        return f"{verb} {target if is_open else 'a'}"
    return f"{verb} /{target}"


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A policy that is right."""
    allow, deny = st.lists(rules(), max_size=3), st.lists(rules(takes_away=True), max_size=2)
    role_lists = st.lists(ROLE, max_size=2)
    body = st.fixed_dictionaries({"includes": role_lists, "allow": allow, "deny": deny})
    more = st.fixed_dictionaries(
        {"who": st.lists(st.one_of(ROLE, SUBJECT), min_size=1, max_size=2), "allow": allow},
        optional={"at": st.lists(PLACE, max_size=2), "deny": deny},
    )
    return {
        "version": 1,
        "principals": draw(st.dictionaries(SUBJECT, role_lists, max_size=3)),
        "roles": {name: draw(body) for name in OWN},
        "rules": draw(st.lists(more, max_size=3)),
        "vouch": draw(st.dictionaries(st.sampled_from(("gw-b", "*")), role_lists, max_size=2)),
    }


@st.composite
def asked(draw: st.DrawFn) -> tuple[Principal, Action]:
    """Somebody, and what it wants to do."""
    kind = draw(st.sampled_from((*NAMED, "local", "stranger")))
    name = draw(st.sampled_from(("a", "b", "+", "x/y"))) if kind in NAMED else ""
    verb = draw(st.sampled_from(VERBS))
    levels = draw(st.lists(st.sampled_from(["a", "b", "sensors", "valve", "$SYS"]), min_size=1))
    target = "/".join(levels) if verb in TOPIC_VERBS else f"/{'/'.join(levels)}"
    where = draw(st.sampled_from((HERE, ActionPlace("gw-b", "campus", "south"))))
    return Principal(kind, name), Action(verb, "" if verb in RIGHTS else target, where)


def toml(document: dict[str, Any]) -> str:
    """Write a document as TOML. Its tables are inline, and its texts are written as in JSON."""

    def value(one: Any) -> str:
        if isinstance(one, dict):
            return "{" + ", ".join(f"{json.dumps(k)} = {value(v)}" for k, v in one.items()) + "}"
        if isinstance(one, list):
            return "[" + ", ".join(map(value, one)) + "]"
        return json.dumps(one, ensure_ascii=False)

    return "".join(f"{key} = {value(one)}\n" for key, one in document.items())


def policy(document: dict[str, Any]) -> Policy:
    return Policy(policy_file.parse(toml(document), "access.toml"), HERE)


def may(made: Policy, who: Principal, action: Action, via: str = "") -> bool:
    principal = made.principal(who.kind, who.name)
    return made.may(made.vouched(principal, via) if via else principal, action).is_allowed


@given(documents(), st.lists(asked(), min_size=1, max_size=8))
def test_what_denies_only_takes_away_and_the_order_of_rules_changes_nothing(
    document: dict[str, Any], questions: list[tuple[Principal, Action]]
) -> None:
    made = policy(document)
    assert all(str(one) for one in findings(made.told, "access.toml"))
    turned = policy({**document, "rules": document["rules"][::-1]})
    without = {
        **document,
        "roles": {name: {**body, "deny": []} for name, body in document["roles"].items()},
        "rules": [{**rule, "deny": []} for rule in document["rules"]],
    }
    lenient = policy(without)
    for who, action in questions:
        decided = may(made, who, action)
        assert may(turned, who, action) == decided
        assert may(lenient, who, action) or not decided


@given(documents(), st.lists(asked(), min_size=1, max_size=8))
def test_through_another_gateway_nobody_with_a_name_may_more_than_here(
    document: dict[str, Any], questions: list[tuple[Principal, Action]]
) -> None:
    made = policy(document)
    nothing = Policy(
        PolicyRules(made.told.roles, made.told.rules, made.told.assigned, {"gw-b": frozenset()})
    )
    for who, action in questions:
        if who.kind in NAMED and may(made, who, action, via="gw-b"):
            assert may(made, who, action)
        if who.kind in NAMED and may(nothing, who, action, via="gw-b"):
            assert may(made, Principal("stranger"), action) or any(
                rule.who in ("*", f"{who.kind}:*") for rule in made.told.rules
            )


@given(documents(), st.data())
def test_a_document_with_anything_odd_in_it_is_read_or_refused_by_its_lines(
    document: dict[str, Any], data: st.DataObject
) -> None:
    odd = st.recursive(
        st.one_of(st.none().map(lambda _: 0), st.booleans(), st.integers(), st.text("ab/#+%:* ")),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab:*"), inner),
        max_leaves=4,
    )
    key = data.draw(st.sampled_from((*document, "more")))
    try:
        made = policy_file.parse(toml({**document, key: data.draw(odd)}), "access.toml")
    except AccessFileError as error:
        assert all(one.file == "access.toml" and one.why for one in (error, *error.more))
        return
    findings(made, "access.toml")
    Policy(made, HERE).may(Principal("stranger"), Action("GET", "/a"))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        policy_file.parse(f"version = 1\n{text}", "access.toml")
    except AccessFileError as error:
        assert str(error).startswith("access.toml:")


@pytest.mark.parametrize("verb", VERBS)
def test_a_policy_that_says_nothing_lets_strangers_do_nothing(verb: str) -> None:
    made = policy({"version": 1})
    assert not may(made, Principal("stranger"), Action(verb, "" if verb in RIGHTS else "/a"))
