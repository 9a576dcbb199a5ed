"""Replay of runs whose options no command draws."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def replay_call(options: Any, seed: int) -> str:
    """Return the Python call that runs options again: those that are not the usual ones."""
    default = type(options)(seed)
    changed = [
        f.name for f in fields(options) if getattr(options, f.name) != getattr(default, f.name)
    ]
    more = "".join(f", {name}={getattr(options, name)!r}" for name in changed)
    return f"runs.run({type(options).__name__}({seed}{more}))"
