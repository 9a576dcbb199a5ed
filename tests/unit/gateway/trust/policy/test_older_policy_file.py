"""A policy of the older form is read, or refused with the line of each fault."""

from __future__ import annotations

import pytest

from gateway.trust.policy.faults import AccessFileError
from gateway.trust.policy.older import LISTS
from gateway.trust.policy.older_file import parse_policy

RIGHT = """[access.policy.default]
publish = ["a/#"]

[access.policy.roles.worker]
subscribe = ["jobs/+"]
"""


def test_a_policy_is_read_from_its_section() -> None:
    policy = parse_policy(RIGHT, "gateway.toml", ("access", "policy"))
    assert policy.default.publish == ("a/#",)
    assert policy.roles["worker"].subscribe == ("jobs/+",)
    assert policy.users == {}


@pytest.mark.parametrize(
    ("text", "line"), [("[other]\na = 1\n", 0), ("x = 1\n[access]\npolicy = 7\n", 3)]
)
def test_a_section_that_is_missing_or_none_is_named(text: str, line: int) -> None:
    with pytest.raises(AccessFileError, match=r"no section \[access\.policy\]") as failed:
        parse_policy(text, "gateway.toml", ("access", "policy"))
    assert failed.value.line == line


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("others = {}\n", "others.*is none of default, roles and users"),
        ("roles = 7\n", "roles.*is no table"),
        ("users = []\n", "users.*is no table"),
        ("default = []\n", "default.*is no table"),
        ("[roles]\nworker = 7\n", r"roles\.worker.*is no table"),
        ("[default]\nwrites = []\n", rf"default\.writes.*is none of {', '.join(LISTS)}"),
        ("[default]\npublish = 'a'\n", r"default\.publish.*is no list of texts"),
        ("[default]\npublish = [1]\n", r"default\.publish.*is no list of texts"),
        ("[default]\npublish = ['a/#/b']\n", r"default\.publish.*'a/#/b'"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(text: str, why: str) -> None:
    with pytest.raises(AccessFileError, match=why):
        parse_policy(text, "policy.toml")
