"""Templates of roles as Ansible renders them, without Ansible."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2


def environment_of(template: Path) -> jinja2.Environment:
    """Return what renders a template, with Ansible's trimming of blocks and its test `search`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent), trim_blocks=True, autoescape=False
    )
    environment.tests["search"] = lambda text, pattern: re.search(pattern, text) is not None
    return environment
