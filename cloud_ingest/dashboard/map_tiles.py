"""The tiles that the map is drawn on, where an operator names a server of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

CREDIT_MAX: Final = 200
URL_MAX: Final = 1_000
_FIELDS: Final = ("{z}", "{x}", "{y}")
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_REST: Final = re.compile(r"[\x21-\x7e]*")


class TilesError(ValueError):
    """An address of tiles, or what names their makers, is wrong; the message says how."""


@dataclass(frozen=True, slots=True)
class MapTiles:
    """Tiles of 256 pixels in the plane of Web Mercator, as most servers of maps have them.

    Attributes:
        url: with ``{z}``, ``{x}`` and ``{y}`` for level, column and row.
        credit: what stands on the map, as the makers of tiles ask for; may be empty.

    """

    url: str
    credit: str = ""

    @classmethod
    def parse(cls, url: str, credit: str = "") -> Self:
        """Check an address and what names the makers.

        Raises:
            TilesError: browsers could not fetch from it, or more than from its host alone.

        """
        wanted = "tiles are at an address as https://tiles.example.org/{z}/{x}/{y}.png"
        if len(url) > URL_MAX or len(credit) > CREDIT_MAX:
            raise TilesError(
                f"an address of tiles has up to {URL_MAX} characters, and what names their makers "
                f"up to {CREDIT_MAX}"
            )
        try:
            found = urlsplit(url)
        except ValueError as error:
            raise TilesError(f"{url!r} is no address: {wanted}") from error
        # The host goes into a header that tells browsers what a page may fetch.
        is_host = _HOST.fullmatch(found.netloc) is not None
        if found.scheme not in ("http", "https") or not is_host or not _REST.fullmatch(url):
            raise TilesError(f"{url!r}: {wanted}")
        for field in _FIELDS:
            if (found.path + "?" + found.query).count(field) != 1:
                raise TilesError(f"{url!r}: {field} stands not once in it; {wanted}")
        return cls(url, credit)

    @property
    def source(self) -> str:
        """Return scheme, host and port, as a content security policy names them."""
        found = urlsplit(self.url)
        return f"{found.scheme}://{found.netloc}"
