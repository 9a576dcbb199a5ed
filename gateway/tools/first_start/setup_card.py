"""The file on the boot partition that opens the first start, and its one-time setup code. Pure.

Who has the card in his hand is trusted, and who can read what stands on it. The file holds the code
and, if the card was prepared on another machine, the certificate that the page shows: its
fingerprint is known there before the Pi has power.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import field
from typing import Final

from gateway.tools.provisioning import unit
from light_dataclasses import dataclass

FILE_NAME: Final = unit.FIRST_START_FILE.name
"""On the boot partition."""
FILE_BYTES_MAX: Final = 16 * 1024
ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Without letters that are taken for others (Crockford's base 32)."""
CODE_CHARACTERS: Final = 12
"""60 bits: at one try a second nobody finds it."""
TYPED_CHARACTERS_MAX: Final = 64
_GROUP: Final = 4
_ALIKE: Final = str.maketrans("OIL", "011")
_KEYS: Final = ("code", "certificate", "key")


class SetupCardError(ValueError):
    """The file can't be used: ``str(error)`` is one line without its secrets."""


@dataclass(frozen=True, slots=True)
class SetupCard:
    """The content of the file that sets up a first start.

    Attributes:
        code: the setup code, as `normal` has it; empty: one is made at each start, and shown on
            the screen.
        certificate: what the page shows, in PEM; empty: one is made at each start.
        key: of the certificate, in PEM.

    """

    code: str = field(default="", repr=False)
    certificate: str = ""
    key: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> SetupCard:
        """Read the file.

        Raises:
            SetupCardError: it is no TOML, or says what it can't say.

        """
        if len(text) > FILE_BYTES_MAX:
            raise SetupCardError(f"more than {FILE_BYTES_MAX} bytes")
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            # The message of the error may have a part of the code.
            raise SetupCardError('is not TOML, such as: code = "..."') from error
        for name, value in found.items():
            if name not in _KEYS:
                raise SetupCardError(f"{name[:64]!r}: is not {', '.join(_KEYS)}")
            if not isinstance(value, str):
                raise SetupCardError(f"{name}: is no text")
        card = cls(
            normal(found.get("code", "")), found.get("certificate", ""), found.get("key", "")
        )
        if card.code and (len(card.code) < CODE_CHARACTERS or not set(card.code) <= set(ALPHABET)):
            raise SetupCardError(
                f"code: is not {CODE_CHARACTERS} letters and digits or more: leave it "
                "out, and the gateway shows one on its screen"
            )
        if bool(card.certificate) != bool(card.key):
            raise SetupCardError("certificate and key: there is one of them alone")
        return card

    def as_text(self) -> str:
        """Return the file."""
        pem = "".join(
            f'{name} = """\n{value}"""\n'
            for name, value in (("certificate", self.certificate), ("key", self.key))
            if value
        )
        return f"""\
# Opens the first start of a Hedgerow gateway, once: docs/first-start.md. It is taken away when
# the gateway has an owner. Who reads this file can become the owner.
code = "{shown(self.code)}"
{pem}"""


def new_code(below: Callable[[int], int]) -> str:
    """Return a new code, as `normal` has it.

    Args:
        below: draws a number from 0 on, below the one that it is given.

    """
    return "".join(ALPHABET[below(len(ALPHABET))] for _ in range(CODE_CHARACTERS))


def shown(code: str) -> str:
    """Return a code as people are shown it: in groups."""
    return "-".join(code[at : at + _GROUP] for at in range(0, len(code), _GROUP))


def normal(typed: str) -> str:
    """Return a code as it is compared, however it was typed; empty if it can be none."""
    if len(typed) > TYPED_CHARACTERS_MAX:
        return ""
    return re.sub(r"[\s-]", "", typed).upper().translate(_ALIKE)
