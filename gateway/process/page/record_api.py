"""API for what a gateway has written down: log, audit trail, policy, and a bundle of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.base.event_log.audit import AuditTrail
from gateway.process.console.pages import Page
from gateway.process.page import support_bundle
from gateway.process.page.api_request import ApiRequest, Handlers
from gateway.process.page.log_lines import LEVELS, RecentLines
from gateway.process.page.site_asker import SiteAsker, SiteQuestion
from gateway.trust.policy.action import CLIENTS, CONSOLE, Action, ActionError
from gateway.trust.policy.explaining import Policies, explain
from gateway.trust.policy.principal import Principal, PrincipalError
from gateway.trust.policy.rule import Rule
from gateway.web.api_error import ApiError

AUDIT_MAX: Final = 500
"""Changes that are told, the newest."""


class RecordApi:
    """Answers what is asked of records.

    They name users, clients and addresses. So who may see them has the right ``clients`` and the
    path of the console, such as ``console /page/log``.

    Args:
        lines: of the log.
        trail: of changes.
        policies: decide; asked each time.
        asker: asks the gateway's resources.
        gateway_id: whose records they are.
        configuration: its file; None where there is none.

    """

    def __init__(
        self,
        lines: RecentLines,
        trail: AuditTrail,
        policies: Callable[[], Policies],
        asker: SiteAsker,
        gateway_id: str,
        configuration: Path | None,
    ) -> None:
        self._lines = lines
        self._trail = trail
        self._policies = policies
        self._asker = asker
        self._gateway_id = gateway_id
        self._configuration = configuration

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {
            "log": self.log,
            "audit": self.audit,
            "support": self.support,
            "policy": self.policy,
            "explain": self.explain,
        }

    def may(self, visitor: Principal, what: str) -> bool:
        """Return whether a visitor may see records of a kind."""
        policy = self._policies().others
        return bool(
            policy.may(visitor, Action(CONSOLE, f"/page/{what}", policy.here))
            and policy.may(visitor, Action(CLIENTS, "", policy.here))
        )

    def _check(self, visitor: Principal, what: str) -> None:
        if not self.may(visitor, what):
            why = f"this needs the right clients, and console /page/{what}"
            raise ApiError(HTTPStatus.FORBIDDEN, f"{visitor}: {why}")

    async def log(self, asked: ApiRequest) -> Any:
        """Tell lines of the log."""
        self._check(asked.visitor, "log")
        level = asked.query.get("level", "INFO")
        if level not in LEVELS:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"level: is none of {', '.join(LEVELS)}")
        after, text = asked.query.get("after", 0), asked.query.get("text", "")
        if after > self._lines.number:  # of the life before
            after = 0
        found = self._lines.after(after, level, text)
        if not found and (wait_s := asked.query.get("wait_s", 0)):
            await self._lines.wait(wait_s)
            self._check(asked.visitor, "log")  # the policy may be another one by now
            found = self._lines.after(after, level, text)
        return {"lines": found, "after": self._lines.number}

    async def audit(self, asked: ApiRequest) -> Any:
        """Tell the newest changes."""
        self._check(asked.visitor, "audit")
        try:
            found = await asyncio.to_thread(self._newest)
        except OSError as error:
            why = f"the audit trail can't be read: {error.strerror}"
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, why) from error
        return {"changes": found}

    def _newest(self) -> list[dict[str, Any]]:
        return [
            {"time_s": one.time_s, "who": one.who, "what": one.what, "of": one.of}
            for one in self._trail.newest(AUDIT_MAX)
        ]

    async def support(self, asked: ApiRequest) -> Any:
        """Make the bundle."""
        for what in ("support", "log", "audit"):
            self._check(asked.visitor, what)
        documents = {
            f"{name}.json": await self._asker.response(asked, SiteQuestion("GET", (name,)))
            for name in ("status", "members", "alerts")
        }
        files = {name: answer.payload for name, answer in documents.items()}
        lines, policy = self._lines.after(0), self._told()

        def made() -> bytes:
            told = (
                f"{one['time_ms']} {one['level']} {one['from']}: {one['text']}" for one in lines
            )
            files["log.txt"] = "\n".join(told).encode()
            files["policy.json"] = msgspec.json.format(msgspec.json.encode(policy), indent=1)
            files["configuration.json"] = support_bundle.configuration(self._configuration)
            changes = (json.dumps(one) for one in self._newest())
            files["audit.jsonl"] = "\n".join(changes).encode()
            return support_bundle.bundle(f"support-{self._gateway_id}", files)

        name = f"support-{self._gateway_id}.tar.gz"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Page("application/gzip", await asyncio.to_thread(made), headers=headers)

    # -- policy ----------------------------------------------------------------------------------

    async def policy(self, asked: ApiRequest) -> Any:
        """Tell who has which role, and what the rules say."""
        self._check(asked.visitor, "policy")
        return self._told()

    def _told(self) -> dict[str, Any]:
        told = self._policies().others.told
        return {
            "roles": [
                {
                    "name": name,
                    "includes": list(role.includes),
                    "rules": [_rule(rule) for rule in role.rules],
                }
                for name, role in sorted(told.roles.items())
            ],
            "rules": [_rule(rule) for rule in told.rules],
            "assigned": {who: sorted(roles) for who, roles in sorted(told.assigned.items())},
            "vouched": {who: sorted(roles) for who, roles in sorted(told.vouched.items())},
            "default_roles": sorted(told.default_roles),
            "public": list(told.public),
        }

    async def explain(self, asked: ApiRequest) -> Any:
        """Say whether somebody may do something."""
        who = asked.query.get("who", "")
        if who and who != str(asked.visitor):
            self._check(asked.visitor, "policy")
        policies = self._policies()
        try:
            found = explain(
                policies, who or str(asked.visitor), asked.query["action"], policies.others.here
            )
        except PrincipalError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"who: {error}") from error
        except ActionError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"action: {error}") from error
        return {**found.as_json(), "why_roles": found.why_roles}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "effect": rule.effect,
        "who": rule.who,
        "verb": rule.verb,
        "target": rule.target,
        "at": list(rule.at),
        "place": rule.place,
    }
