"""The section ``[coap.directory]``: how much the Resource Directory holds."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.base.toml import checks
from gateway.base.toml.toml_file import Fault, hold
from light_dataclasses import dataclass
from resource_directory.registry import RegistryLimits

_DEFAULT = RegistryLimits()
_NUMBER_MOST, _BYTES_MOST = 10_000_000, 1 << 40


@dataclass(frozen=True, slots=True)
class DirectorySection:
    """Limits of all registrations, of one owner's and of one; bytes are of memory, about."""

    registrations: int = checks.ranged(_DEFAULT.registrations, 1, _NUMBER_MOST)
    registrations_of_owner: int = checks.ranged(_DEFAULT.registrations_per_owner, 1, _NUMBER_MOST)
    links: int = checks.ranged(_DEFAULT.links_per_registration, 1, _NUMBER_MOST)
    bytes: int = checks.ranged(_DEFAULT.size, 1 << 16, _BYTES_MOST)
    bytes_of_owner: int = checks.ranged(_DEFAULT.size_per_owner, 1 << 16, _BYTES_MOST)

    def __post_init__(self) -> None:
        hold(self._faults())

    @property
    def limits(self) -> RegistryLimits:
        """The limits by the names that the registry gives them."""
        return RegistryLimits(
            registrations=self.registrations,
            registrations_per_owner=self.registrations_of_owner,
            links_per_registration=self.links,
            size=self.bytes,
            size_per_owner=self.bytes_of_owner,
        )

    def _faults(self) -> Iterator[Fault]:
        yield from checks.marked(self)
        for whole in ("registrations", "bytes"):
            part = f"{whole}_of_owner"
            if getattr(self, part) > getattr(self, whole):
                yield Fault(part, f"{getattr(self, part)} is more than {whole}")
