"""`hedgerow policy`: what is wrong or odd about a policy, and why somebody may do something."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from gateway import exit_codes
from gateway.access import files as access_files
from gateway.commands import remedies
from gateway.commands.errors import WrongUseError
from gateway.commands.output import print_json
from gateway.configuration import place as config_place
from gateway.configuration.config import AccessSection, ConfigError, GatewaySettings, load
from gateway.policy import policy_file
from gateway.policy.action import HERE, TOPIC_VERBS, Action, ActionError
from gateway.policy.faults import AccessFileError, read_access_file
from gateway.policy.findings import Finding, findings
from gateway.policy.policy import Policy, PolicyRules
from gateway.policy.principal import GATEWAY, Principal, PrincipalError
from gateway.policy.rule import ANY_NAME, EVERYBODY
from gateway.printable import printable
from light_dataclasses import dataclass


def run(options: argparse.Namespace) -> int:
    """Do what the arguments say; returns the exit code.

    Raises:
        WrongUseError: an argument is wrong, or with `explain` the policy is.

    """
    return _check(options) if options.action == "check" else _explain(options)


# -- check -----------------------------------------------------------------------------------------


def _check(options: argparse.Namespace) -> int:
    if len(options.what) > 1 or (options.what and options.config):
        raise WrongUseError("check: takes one FILE, or --config")
    odd: list[Finding] = []
    faults: list[str] = []
    if options.what:
        place = options.what[0]
        try:
            odd = findings(policy_file.parse(read_access_file(Path(place)), place), place)
        except AccessFileError as error:
            faults = [remedies.with_remedy(str(error), error), *map(str, error.more)]
    else:
        settings = _settings(options)
        place = str(settings.access.policy_file or settings.file)
        try:
            told = access_files.policy(settings.access)
            odd = findings(told, place) if settings.access.policy_file else []
            odd += [
                Finding(*line.split(": ", 1)) for line in access_files.read_alone(settings, told)
            ]
        except ConfigError as error:
            faults = [
                remedies.with_remedy(f"{fault.where}: {fault.why}", fault.cause)
                for fault in error.faults
            ]
    if options.json:
        print_json({"file": place, "faults": faults, "findings": [asdict(one) for one in odd]})
    else:
        lines = [*faults, *map(str, odd)] or [f"{place}: nothing is wrong"]
        sys.stdout.writelines(f"{printable(line)}\n" for line in lines)
    return exit_codes.WRONG_USE if faults else exit_codes.DONE


# -- explain ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Told:
    """The policies of a gateway: over MQTT, and for all else."""

    topics: Policy
    others: Policy

    def of(self, action: Action) -> Policy:
        return self.topics if action.verb in TOPIC_VERBS else self.others


def _explain(options: argparse.Namespace) -> int:
    if len(options.what) < 2:
        raise WrongUseError("explain: needs PRINCIPAL and ACTION, as in psk:alice GET /status")
    who, *words = options.what
    told = _told(options)
    where = options.at or told.others.here
    try:
        named = Principal.parse(who)
        action = Action.parse(" ".join(words), where, options.client_id)
    except (PrincipalError, ActionError) as error:
        raise WrongUseError(str(error)) from error
    policy = told.of(action)
    principal = policy.principal(named.kind, named.name, frozenset(options.role))
    why = _why_roles(policy.told, principal, options.role)
    if options.via:
        principal = policy.vouched(principal, options.via)
        why = f"what {options.via} may vouch for"
    decision = policy.may(principal, action)
    roles = sorted(principal.roles)
    if options.json:
        print_json(
            {
                "principal": str(principal),
                "roles": roles,
                "action": str(action),
                "allowed": decision.is_allowed,
                "why": str(decision.rule or decision.why or "no rule allows it"),
            }
        )
    else:
        told_roles = f"{', '.join(roles) or 'none'} ({why})"
        lines = (f"{principal}, roles: {told_roles}", f"{action}: {decision}")
        sys.stdout.writelines(f"{printable(line)}\n" for line in lines)
    return exit_codes.DONE if decision.is_allowed else exit_codes.FAILED


def _why_roles(told: PolicyRules, principal: Principal, claimed: list[str]) -> str:
    if principal.kind == GATEWAY:
        return "what it may vouch for"
    found = ["of its certificate"] if claimed else []
    if str(principal) in told.assigned:
        found.append(f'principals."{principal}"')
    if found:
        return " and ".join(found)
    if not principal.name:
        return "built in" if principal.roles else "nobody gives it any"
    for text in (f"{principal.kind}:{ANY_NAME}", EVERYBODY):
        if text in told.assigned:
            return f'principals."{text}"'
    return "access.default_roles"


def _told(options: argparse.Namespace) -> _Told:
    if options.file is None:
        settings = _settings(options)
        try:
            topics, others = access_files.policies(settings, access_files.policy(settings.access))
        except ConfigError as error:
            raise WrongUseError(str(error)) from error
        return _Told(topics, others)
    roles = frozenset(AccessSection().default_roles)
    try:
        rules = policy_file.parse(read_access_file(options.file), str(options.file), roles)
    except AccessFileError as error:
        raise WrongUseError(str(error)) from error
    policy = Policy(rules, options.at or HERE)
    return _Told(policy, policy)


def _settings(options: argparse.Namespace) -> GatewaySettings:
    try:
        return load(options.config or config_place.find(), GatewaySettings)
    except config_place.NoConfigError as error:
        raise WrongUseError(f"--config: not given, and {error}") from error
    except ConfigError as error:
        raise WrongUseError(str(error)) from error
