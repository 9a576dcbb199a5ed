"""Goal: a client can do what a rule allows and nothing else, whatever it calls itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.trust.policy.older import AccessPolicy, Rules
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import NO_ROLES
from gateway.trust.policy.rights import Rights
from gateway.trust.policy.rule import ALLOW, EVERYBODY, Rule
from gateway.trust.policy.targets import RuleError
from tests.held_objects import held_objects
from tree_handler.routing.topic_filters import matches

OPEN = AccessPolicy(Rules(publish=("#",), subscribe=("#", "$SYS/#")))


def access_of(
    policy: AccessPolicy, *, user: str = "", roles: frozenset[str] = NO_ROLES, client_id: str = "c1"
) -> Rights:
    made = Policy(policy.told())
    kind = ("cert" if roles else "user") if user else "stranger"
    return made.rights(made.principal(kind, user, roles), client_id)


def test_a_policy_without_rules_denies_everything() -> None:
    access = access_of(AccessPolicy(), user="alice")
    assert not access.may_publish("a")
    assert not access.may_receive("a")
    assert not access.may_subscribe("a")
    assert not access.may_subscribe("#")


def test_without_a_policy_all_but_the_dollar_topics_is_open() -> None:
    access = access_of(OPEN)
    assert access.may_publish("a/b")
    assert access.may_subscribe("#")
    assert access.may_subscribe("$share/workers/a/+")
    assert access.may_receive("a/b")
    assert access.may_subscribe("$SYS/#")
    assert access.may_receive("$SYS/broker/uptime")


@pytest.mark.parametrize(
    "topic", ["$hedgerow/a", "$SYS/broker/uptime", "$SYS", "$share/g/a", "$", "$SYSTEM/a"]
)
def test_no_client_may_publish_to_a_dollar_topic(topic: str) -> None:
    assert not access_of(OPEN, user="alice").may_publish(topic)


@pytest.mark.parametrize(
    "topic_filter",
    ["$hedgerow/#", "$hedgerow/a", "$share/g/$hedgerow/#", "$+/a", "$SYSTEM/#", "$share/g/$x/+"],
)
def test_no_client_may_subscribe_to_a_dollar_topic_other_than_sys(topic_filter: str) -> None:
    assert not access_of(OPEN, user="alice").may_subscribe(topic_filter)


def test_no_client_receives_a_dollar_topic_other_than_sys() -> None:
    assert not access_of(OPEN).may_receive("$hedgerow/a")


def test_dollar_topics_stay_closed_to_a_client_whose_filters_no_policy_has_checked() -> None:
    targets, verbs = ("$hedgerow/#", "$SYS/#"), ("publish", "subscribe", "deliver")
    access = Rights(Rule(ALLOW, verb, to, EVERYBODY) for verb in verbs for to in targets)
    assert not access.may_publish("$hedgerow/a")
    assert not access.may_publish("$SYS/a")
    assert not access.may_subscribe("$hedgerow/a")
    assert not access.may_receive("$hedgerow/a")
    assert access.may_receive("$SYS/a")


def test_sys_is_readable_only_where_a_rule_names_it() -> None:
    everything = AccessPolicy(Rules(publish=("#",), subscribe=("#",)))
    assert not access_of(everything).may_subscribe("$SYS/#")
    assert not access_of(everything).may_receive("$SYS/broker/uptime")
    named = AccessPolicy(Rules(subscribe=("$SYS/broker/+",)))
    assert access_of(named).may_subscribe("$SYS/broker/uptime")
    assert not access_of(named).may_subscribe("$SYS/#")


def test_a_client_has_the_rules_of_everyone_its_roles_and_its_user_together() -> None:
    policy = AccessPolicy(
        default=Rules(publish=("all",)),
        roles={"sensor": Rules(publish=("role",)), "other": Rules(publish=("other",))},
        users={"alice": Rules(publish=("user",)), "bob": Rules(publish=("bob",))},
    )
    topics = ["all", "role", "other", "user", "bob"]

    def allowed(user: str = "", roles: frozenset[str] = NO_ROLES) -> list[str]:
        access = access_of(policy, user=user, roles=roles)
        return [topic for topic in topics if access.may_publish(topic)]

    assert allowed() == ["all"]
    assert allowed(user="alice") == ["all", "user"]
    assert allowed(user="alice", roles=frozenset({"sensor", "unknown"})) == ["all", "role", "user"]


def test_a_client_that_calls_itself_as_a_user_has_not_that_users_rules() -> None:
    policy = AccessPolicy(users={"alice": Rules(publish=("#",))})
    assert not access_of(policy, client_id="alice").may_publish("a")


def test_placeholders_stand_for_the_user_and_the_client() -> None:
    policy = AccessPolicy(Rules(publish=("dev/%u/%c/#", "v-%c", "100%%")))
    access = access_of(policy, user="alice")
    assert access.may_publish("dev/alice/c1/t")
    assert access.may_publish("v-c1")
    assert access.may_publish("100%")
    assert not access.may_publish("dev/bob/c1/t")
    assert not access.may_publish("dev/%u/%c/t")


@pytest.mark.parametrize("name", ["+", "#", "a/b", "a/#", "$SYS", "", "a\0"])
def test_a_name_that_would_change_a_rules_meaning_is_not_filled_in(name: str) -> None:
    policy = AccessPolicy(Rules(subscribe=("%u/#", "%c/#", "dev/%c/#"), publish=("dev/%u",)))
    access = access_of(policy, user=name, client_id=name)
    for topic_filter in ("#", "+/#", "a/#", "a/b/#", "dev/+/#", "dev/a/#", "$SYS/#", "/#"):
        assert not access.may_subscribe(topic_filter)
    assert not access.may_publish(f"dev/{name}")


def test_a_filled_in_name_is_not_filled_in_again() -> None:
    policy = AccessPolicy(Rules(publish=("%u/x",)))
    access = access_of(policy, user="%c")
    assert access.may_publish("%c/x")
    assert not access.may_publish("c1/x")


def test_an_anonymous_client_has_no_rule_of_the_user() -> None:
    access = access_of(AccessPolicy(Rules(publish=("dev/%u/#",))))
    assert not access.may_publish("dev//a")
    assert not access.may_publish("dev/None/a")


@pytest.mark.parametrize(
    ("rule", "topic_filter", "allowed"),
    [
        ("a/+", "a/b", True),
        ("a/+", "a/+", True),
        ("a/+", "a/#", False),
        ("a/+", "#", False),
        ("a/#", "a", True),
        ("a/#", "a/+/b/#", True),
        ("a/#", "+/b", False),
        ("a/b", "a/+", False),
        ("+/#", "#", True),
    ],
)
def test_a_wildcard_subscription_needs_a_rule_that_covers_all_of_it(
    rule: str, topic_filter: str, allowed: bool
) -> None:
    access = access_of(AccessPolicy(Rules(subscribe=(rule,))))
    assert access.may_subscribe(topic_filter) is allowed
    assert access.may_subscribe(f"$share/g/{topic_filter}") is allowed


@pytest.mark.parametrize("malformed", ["", "$share/g", "$share//a", "a/#/b", "a+"])
def test_a_malformed_filter_is_denied(malformed: str) -> None:
    assert not access_of(OPEN).may_subscribe(malformed)


def test_delivery_is_checked_by_topic_against_rules_of_its_own() -> None:
    access = access_of(AccessPolicy(Rules(subscribe=("#",), deliver=("a/#",))))
    assert access.may_subscribe("#")
    assert access.may_receive("a/b")
    assert not access.may_receive("b")
    assert not access_of(AccessPolicy(Rules(subscribe=("#",), deliver=()))).may_receive("a")


@pytest.mark.parametrize(
    ("rules", "action", "value"),
    [
        ({"publish": ("a/#/b",)}, "publish", "a/#/b"),
        ({"publish": ("a", "$SYS/#")}, "publish", "$SYS/#"),
        ({"subscribe": ("$hedgerow/#",)}, "subscribe", "$hedgerow/#"),
        ({"subscribe": ("$SYSTEM/#",)}, "subscribe", "$SYSTEM/#"),
        ({"subscribe": ("$share/g/a",)}, "subscribe", "$share/g/a"),
        ({"deliver": ("dev/%x",)}, "deliver", "dev/%x"),
        ({"deliver": ("dev%",)}, "deliver", "dev%"),
        ({"publish": ("",)}, "publish", ""),
    ],
)
def test_a_wrong_rule_is_refused_by_name(
    rules: dict[str, tuple[str, ...]], action: str, value: str
) -> None:
    with pytest.raises(RuleError) as caught:
        Rules(**rules)
    assert (caught.value.action, caught.value.value) == (action, value)


LEVELS = st.sampled_from(["a", "b", "c1", "$x", ""])
RULES = st.lists(st.lists(st.sampled_from(["a", "b", "+", "%c"]), min_size=1, max_size=3))


@given(
    RULES, st.lists(st.lists(LEVELS, min_size=1, max_size=3).map("/".join).filter(bool), max_size=9)
)
def test_a_remembered_decision_is_the_one_that_was_made(
    rules: list[list[str]], topics: list[str]
) -> None:
    texts = tuple("/".join(rule) for rule in rules)
    policy = AccessPolicy(Rules(publish=texts, deliver=texts))
    access = Rights(policy.told().rules, None, "c1", decisions_max=2)
    filled = [text.replace("%c", "c1") for text in texts]
    for topic in topics * 2:
        allowed = topic[0] != "$" and any(matches(rule, topic) for rule in filled)
        assert access.may_publish(topic) is allowed
        assert access.may_receive(topic) is allowed


def test_decisions_are_remembered_of_the_latest_topics_alone() -> None:
    access = Rights(OPEN.told().rules, None, "c1", decisions_max=2)
    assert all(access.may_receive(f"t/{number}") for number in range(2))
    held = held_objects(access)
    assert all(access.may_receive(f"t/{number}") for number in range(1_000))
    assert held_objects(access) <= held


def test_the_principals_that_came_last_are_remembered_and_none_gets_anothers_rights() -> None:
    control = Policy(AccessPolicy(Rules(publish=("dev/%c",))).told(), rights_max=2)
    stranger = control.principal("stranger")
    first = control.rights(stranger, "c1")
    second = control.rights(stranger, "c2")
    for name in ("c2", "c1", "c3"):
        access = control.rights(stranger, name)
        assert access.may_publish(f"dev/{name}")
        assert not access.may_publish("dev/c0")
    assert control.rights(stranger, "c1") is first
    assert control.rights(stranger, "c2") is not second


def test_decisions_on_very_long_topics_are_not_remembered() -> None:
    access = access_of(OPEN)
    held = held_objects(access)
    assert access.may_receive("a" * 60_000)
    assert held_objects(access) == held


def test_what_is_concealed_is_not_read_whatever_other_rules_say() -> None:
    policy = AccessPolicy(
        default=Rules(publish=("#",), subscribe=("#",), conceal=("keys/#",)),
        users={"alice": Rules(subscribe=("keys/#",), deliver=("#",), conceal=("other",))},
    )
    for user in ("", "alice"):
        access = access_of(policy, user=user)
        assert not access.may_receive("keys/a")
        assert not access.may_subscribe("keys/+")
        assert not access.may_subscribe("$share/g/keys/a")
        assert access.is_concealed("keys/+")
        assert access.may_publish("keys/a")
        assert access.may_receive("a")
    assert not access.may_receive("other")
    assert access_of(policy).may_receive("other")


def test_a_filter_that_is_wider_than_what_is_concealed_may_be_subscribed_to() -> None:
    access = access_of(AccessPolicy(Rules(subscribe=("#",), conceal=("keys/a",))))
    assert access.may_subscribe("#")
    assert access.may_subscribe("keys/+")
    assert not access.is_concealed("keys/+")
    assert not access.may_receive("keys/a")


def test_a_placeholder_can_not_conceal() -> None:
    with pytest.raises(RuleError, match="conceal: 'keys/%u' has a placeholder"):
        Rules(conceal=("keys/%u",))
