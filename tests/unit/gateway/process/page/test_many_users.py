"""A thousand users are listed by little work, in turns, and cost clients of the broker nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from loop_turns import LoopTurns, each_row_alone, turns

from gateway.base.event_log.audit import AuditTrail
from gateway.process.page.administration import Administration
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.user_api import UserApi
from gateway.process.page.user_roles import WHAT, administrators
from gateway.trust.policy.action import CONSOLE as LOOK
from gateway.trust.policy.built_in import ROLES
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.principal import CONSOLE, USER
from gateway.trust.policy.rule import ALLOW, DENY, Rule

COUNT = 1_000
NAMES = [f"user-{number:03}" for number in range(COUNT)]
RULES = PolicyRules(
    assigned={
        "console:*": frozenset({"reader"}),
        "user:*": frozenset({"device"}),
        "console:user-007": frozenset({"admin"}),
    }
)


class Users:
    """A gateway's users, and the page that lists them."""

    def __init__(self, folder: Path, rules: PolicyRules = RULES) -> None:
        self.policy = Policy(rules)
        self.policies = Policies(self.policy, self.policy)
        self.administration = Administration(lambda: self.policies)
        self.trail = AuditTrail(folder / "audit.jsonl")
        self.desk: Any = SimpleNamespace(file=None, names=list(NAMES))
        self.visitor = self.policy.principal(CONSOLE, "user-007")
        self._api = UserApi(self.desk, self.administration, lambda: self.policies, self.trail, "gw")

    async def listed(self) -> dict[str, dict[str, Any]]:
        answer = await self._api.users(ApiRequest(self.visitor, "", {}, {}, {}))
        told = msgspec.json.decode(msgspec.json.encode(answer))["users"]
        found = {one["name"]: one for one in told}
        assert len(found) == len(told)
        return found


async def test_a_list_of_users_pushes_no_clients_rights_out_of_memory(tmp_path: Path) -> None:
    users = Users(tmp_path)
    devices = [users.policy.principal(USER, f"device-{number}") for number in range(500)]
    before = [users.policy.rights(device) for device in devices]
    told = await users.listed()
    assert list(told) == NAMES
    assert told["user-007"]["roles"] == ["admin", "operator", "reader"]
    assert told["user-008"]["roles"] == ["reader"]
    assert told["user-008"]["mqtt_roles"] == ["device"]
    assert told["user-007"]["why_not"] and not told["user-008"]["why_not"]
    after = [users.policy.rights(device) for device in devices]
    assert all(one is other for one, other in zip(after, before, strict=True))


async def test_others_have_turns_while_a_thousand_users_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    counted = LoopTurns()
    await Users(tmp_path).listed()
    counted.note()
    (last_turn,) = counted.stop()
    assert last_turn >= 2 * (COUNT - 1)


async def test_users_who_come_and_go_while_they_are_listed_tear_no_list(tmp_path: Path) -> None:
    users = Users(tmp_path)
    listing = asyncio.create_task(users.listed())
    while not listing.done():
        await turns(5)
        users.desk.names = [name for name in users.desk.names[1:] if name != "user-500"] + ["zoe"]
    told = await listing
    assert set(NAMES[-100:]) <= told.keys()


async def test_when_a_password_was_set_is_told_as_the_trail_has_it(tmp_path: Path) -> None:
    users = Users(tmp_path)
    changed = "access.password_file changed"
    users.trail.append("alice", changed, 5.0, added=["user-001", "user-002"])
    users.trail.append("alice", changed, 6.0, replaced=["user-002"], removed=["user-003"])
    users.trail.append("alice", "else", 7.0, added=["user-001"])
    told = await users.listed()
    assert [told[f"user-00{number}"]["changed_s"] for number in (1, 2, 3)] == [5.0, 6.0, None]


@pytest.mark.parametrize(
    "rules",
    [
        (),
        (Rule(DENY, LOOK, "/page/users", "console:user-001"),),
        (Rule(DENY, LOOK, "/page/#", "console:*"),),
        (
            Rule(ALLOW, LOOK, "/page/%u", "reader"),
            Rule(ALLOW, "configure", "", "reader"),
        ),
        (Rule(ALLOW, LOOK, "/page/users", "reader"), Rule(ALLOW, "configure", "", "user-001")),
        (
            Rule(ALLOW, LOOK, "/page/users", "reader"),
            Rule(ALLOW, "configure", "", "console:user-002"),
        ),
    ],
)
async def test_who_may_change_users_is_decided_for_all_as_for_each(
    tmp_path: Path, rules: tuple[Rule, ...]
) -> None:
    admin = frozenset({"admin"})
    roles = dict(ROLES)
    assigned = {"console:*": frozenset({"reader"}), "console:user-000": admin}
    assigned |= {"console:user-001": admin, "console:user-003": frozenset()}
    users = Users(tmp_path, PolicyRules(roles=roles, rules=rules, assigned=assigned))
    names = [*NAMES[:5], "users"]
    found = await administrators(names, users.policy, users.administration)
    assert found == {
        name
        for name in names
        if users.administration.may(users.policy.principal(CONSOLE, name), WHAT)
    }
