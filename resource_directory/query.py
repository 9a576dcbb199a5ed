"""Query of a look-up (RFC 9176, section 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from light_dataclasses import dataclass
from resource_directory.errors import InvalidParameterError
from resource_directory.index import Criterion
from resource_directory.uri import path_of

MAX_CRITERIA: Final = 16


@dataclass(frozen=True, slots=True)
class LookupQuery:
    """A look-up's criteria and which part of its answer is wanted.

    Attributes:
        criteria: all of them must hold.
        page: which part, from 0.
        count: length of a part; None for the whole answer.

    """

    criteria: tuple[Criterion, ...] = ()
    page: int = 0
    count: int | None = None

    @classmethod
    def parse(cls, parameters: Iterable[str]) -> LookupQuery:
        """Read the parameters of a query, ``name=value`` each.

        Raises:
            InvalidParameterError: ``page`` or ``count`` is no number in range or comes twice,
                ``page`` comes without ``count``, or there are more than ``MAX_CRITERIA``.

        """
        criteria: list[Criterion] = []
        paging: dict[str, int] = {}
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name not in ("page", "count"):
                criteria.append(Criterion.parse(name, value))
                continue
            if name in paging:
                raise InvalidParameterError("given twice", name)
            if not (value.isascii() and value.isdigit() and len(value) < 10):
                raise InvalidParameterError(f"{name} is no number", value)
            paging[name] = int(value)
        if len(criteria) > MAX_CRITERIA:
            raise InvalidParameterError(f"more than {MAX_CRITERIA} criteria", len(criteria))
        if "page" in paging and "count" not in paging:
            raise InvalidParameterError("page without count", paging["page"])
        if paging.get("count") == 0:
            raise InvalidParameterError("count is not at least 1", 0)
        return cls(tuple(criteria), paging.get("page", 0), paging.get("count"))

    def located(self, is_location: Callable[[str], bool]) -> LookupQuery:
        """Return the query with registrations named by their paths, where it names them by URIs.

        RFC 9176, section 6.2: either is to be recognised. By which names its host is known the
        directory can't tell, so all are taken for one of them.

        Args:
            is_location: whether a path is one of a registration here.

        """
        criteria = tuple(
            replace(one, value=path_of(one.value))
            if one.name == "href" and not one.is_prefix and is_location(path_of(one.value))
            else one
            for one in self.criteria
        )
        return self if criteria == self.criteria else replace(self, criteria=criteria)
