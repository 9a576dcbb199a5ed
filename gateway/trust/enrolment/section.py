"""``[keys]`` of the configuration: which enrolment service a gateway follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.base.toml import checks
from gateway.base.toml.toml_file import Fault, hold
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeysSection:
    """The source of new certificates, authorities and revocations.

    ``service`` is where `hedgerow keys serve` listens, as ``host:port``; without it files change
    by hand alone. It is asked every ``interval_s``. The first line of ``password_file`` opens key
    stores, trust stores and keys that are encrypted; without it systemd's credential
    ``hedgerow-keystore-password`` does.
    """

    service: str | None = None
    interval_s: float = checks.ranged(3600.0, 1, 86_400)
    password_file: Path | None = None

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        if self.service is not None:
            yield from checks.host_and_port("service", self.service)
        yield from checks.marked(self)
