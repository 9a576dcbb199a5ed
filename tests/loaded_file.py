"""Loads a Python file that is in no package, as Ansible and people who run it do."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def loaded(path: Path) -> Any:
    """Run a file as a module of its name, and return it; each call runs it anew."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # its dataclasses look for it
    spec.loader.exec_module(module)
    return module
