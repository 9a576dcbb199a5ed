"""Each key of a gateway's configuration is a variable of the Ansible role, and reaches the file."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from loaded_file import loaded

from gateway.process.configuration import keys as config_keys

PROJECT = Path(__file__).resolve().parents[3]
ROLES = PROJECT / "deploy/ansible/roles"


variables = loaded(PROJECT / "deploy/role_variables.py")
KEYS = variables.keys()


@cache
def options(role: str) -> dict[str, Any]:
    text = (ROLES / role / "meta/argument_specs.yml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)["argument_specs"]["main"]["options"]
    return found


def test_what_is_made_of_the_configuration_is_as_it_would_be_made_now() -> None:
    assert variables.stale() == [], "python deploy/role_variables.py"


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_each_key_has_a_variable_of_its_type_with_its_choices_and_default(key: Any) -> None:
    option = options("gateway")[key.variable]
    assert option.get("choices") == (None if key.choices is None else list(key.choices))
    if key.is_required:
        assert option["required"] is True
    elif key.path not in variables.OWN:
        assert option.get("default") == key.default
    given = {"raw": 8883, "list": [{"x": "y"}], "dict": {"x": 1}, "path": "/x", "str": "x"}
    given |= {"bool": True, "int": 7, "float": 0.5}
    python = {"raw": int, "list": list, "dict": dict, "path": str, "str": str}
    python |= {"bool": bool, "int": int, "float": float}
    origin = getattr(key.kind, "__origin__", key.kind)
    if dataclasses.is_dataclass(origin):  # a section that may be left out as a whole
        origin = dict
    assert python[option["type"]] is (str if origin is Path else origin)
    value = key.choices[-1] if key.choices else given[option["type"]]
    spec = {key.variable: {**option, "default": None}}
    assert not ArgumentSpecValidator(spec).validate({key.variable: value}).error_messages


def test_every_own_default_is_that_of_a_key() -> None:
    assert variables.OWN.keys() | set(variables.REQUIRED) <= {key.path for key in KEYS}


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("gateway_tree_mode", "all", "value of gateway_tree_mode must be one of: flood, routed"),
        ("gateway_tree_root_policy", "oldest", "must be one of: capacity, balance"),
        ("gateway_log_durability", "none", "must be one of: write, sync"),
        ("gateway_access_client_ids", "mine", "must be one of: any, user"),
        ("gateway_mqtt_client_certificate", "maybe", "must be one of: none, optional, required"),
        ("gateway_limits_sessions", "many", "gateway_limits_sessions"),
        ("gateway_tree_hello_s", "soon", "gateway_tree_hello_s"),
        ("gateway_tree_discovery", "perhaps", "gateway_tree_discovery"),
        ("gateway_tree_neighbours", {"gw-a": 8883}, "gateway_tree_neighbours"),
        ("gateway_mqtt_plugins", 3, "gateway_mqtt_plugins"),
        ("gateway_sensors", ["host"], "gateway_sensors"),
        ("gateway_psks", "sensor-17", "gateway_psks"),
        ("gateway_tasks_max", "all", "gateway_tasks_max"),
    ],
)
def test_a_wrong_value_is_refused_by_name(variable: str, value: object, told: str) -> None:
    role = variable.partition("_")[0]
    done = ArgumentSpecValidator({variable: options(role)[variable]}).validate({variable: value})
    assert told in " ".join(done.error_messages)


def _other(key: Any) -> Any:
    """A value that is not the key's default."""
    if key.choices:
        return next(one for one in key.choices if one != key.default)
    if key.is_port:
        return "off" if key.name == "port" else 4321
    if key.type == "bool":
        return not key.default
    if key.type in ("int", "float"):
        least, most = key.bounds or (1, 65_535)
        return next(one for one in (7, least, most) if one != key.default)
    named = {"gateway.id": "gw-a", "gateway.domain": "d", "gateway.group": "g"}
    return {
        "list": ['with # and " and ü'],
        "dict": {"package.Class": {"acl": {"alice": ["campus/#"]}, "on": True, "n": 1.5}},
        "path": "/with a space",
        "str": named.get(key.path, "a\\b"),
    }[key.type]


def test_each_variable_reaches_its_key_of_the_configuration(tmp_path: Path) -> None:
    given = {key.variable: _other(key) for key in KEYS if key.table}
    given["gateway_sensors"] = [
        {"type": "pin", "pins": [1, 2], "tags": {"room": "é"}, "fast": True}
    ]
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars_files": [str(variables.KEYS)],
        "vars": {**given, "ansible_python_interpreter": sys.executable},
        "tasks": [
            {
                "ansible.builtin.template": {
                    "src": str(ROLES / "gateway/templates/hedgerow.toml.j2"),
                    "dest": str(tmp_path / "hedgerow.toml"),
                    "mode": "0600",
                }
            }
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", tmp_path / "play.yml"],
        env={**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = tomllib.loads((tmp_path / "hedgerow.toml").read_text())
    for key in KEYS:
        table = written
        for part in filter(None, key.table.split(".")):
            table = table[part]
        assert table[key.name] == given[key.variable], key.path


def test_the_comment_beside_a_key_is_its_description() -> None:
    text = """[gateway]
[tree]
key_file = "#/x"   # with # in it
# hello_s = 0.5
replicate = ["#"] # all
"""
    told = config_keys.comments(text)
    assert told == {
        "tree.key_file": "with # in it",
        "tree.hello_s": "",
        "tree.replicate": "all",
        "sensors": told["sensors"],
    }


def test_no_role_has_a_variable_that_is_not_its_own() -> None:
    for file in ROLES.glob("*/meta/argument_specs.yml"):
        role = file.parents[1].name
        defaults = "".join(
            path.read_text() for path in sorted((file.parents[1] / "defaults").rglob("*.yml"))
        )
        set_there = set(re.findall(r"^([a-z0-9_]+):", defaults, re.MULTILINE))
        known = options(role)
        assert all(name.startswith(f"{role}_") for name in known), role
        assert set_there == {name for name, one in known.items() if not one.get("required")}, role
