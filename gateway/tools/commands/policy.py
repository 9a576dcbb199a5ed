"""`hedgerow policy`: what is wrong or odd about a policy, and why somebody may do something."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from gateway.base import exit_codes, remedies
from gateway.base.printable import printable
from gateway.process.access import files as access_files
from gateway.process.configuration import place as config_place
from gateway.process.configuration.config import AccessSection, ConfigError, GatewaySettings, load
from gateway.tools.commands.errors import WrongUseError
from gateway.tools.commands.output import print_json
from gateway.tools.commands.parser import is_text
from gateway.trust.policy import policy_file
from gateway.trust.policy.action import HERE, ActionError
from gateway.trust.policy.explaining import Policies, explain
from gateway.trust.policy.faults import AccessFileError, read_access_file
from gateway.trust.policy.findings import Finding, findings
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import PrincipalError


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


def _explain(options: argparse.Namespace) -> int:
    if len(options.what) < 2:
        raise WrongUseError("explain: needs PRINCIPAL and ACTION, as in psk:alice GET /status")
    for word in options.what:
        if not is_text(word):
            raise WrongUseError(f"explain: {word!a} is no text here")
    who, *words = options.what
    policies = _told(options)
    try:
        found = explain(
            policies,
            who,
            " ".join(words),
            options.at or policies.others.here,
            client_id=options.client_id,
            roles=options.role,
            via=options.via,
        )
    except (PrincipalError, ActionError) as error:
        raise WrongUseError(str(error)) from error
    if options.json:
        print_json(found.as_json())
    else:
        roles = ", ".join(sorted(found.principal.roles)) or "none"
        lines = (
            f"{found.principal}, roles: {roles} ({found.why_roles})",
            f"{found.action}: {found.decision}",
        )
        sys.stdout.writelines(f"{printable(line)}\n" for line in lines)
    return exit_codes.DONE if found.decision.is_allowed else exit_codes.FAILED


def _told(options: argparse.Namespace) -> Policies:
    if options.file is None:
        settings = _settings(options)
        try:
            topics, others = access_files.policies(settings, access_files.policy(settings.access))
        except ConfigError as error:
            raise WrongUseError(str(error)) from error
        return Policies(topics, others)
    roles = frozenset(AccessSection().default_roles)
    try:
        rules = policy_file.parse(read_access_file(options.file), str(options.file), roles)
    except AccessFileError as error:
        raise WrongUseError(str(error)) from error
    policy = Policy(rules, options.at or HERE)
    return Policies(policy, policy)


def _settings(options: argparse.Namespace) -> GatewaySettings:
    try:
        return load(options.config or config_place.find(), GatewaySettings)
    except config_place.NoConfigError as error:
        raise WrongUseError(f"--config: not given, and {error}") from error
    except ConfigError as error:
        raise WrongUseError(str(error)) from error
