"""Faults of files of certificates, keys and revocation lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class TlsFileError(ValueError):
    """A file of certificates is not usable: ``str(error)`` is one line.

    Args:
        field: which: ``certificate_file``, ``key_file``, ``client_ca_file``, ``client_crl_file``.
        path: of the file.
        why: what is wrong with it.
        line: where, from 1; 0 if it is no line in particular.
        more: what else is wrong, with this file or another.
        is_over: whether it was right until a time that is past by this machine's clock.

    """

    def __init__(
        self,
        field: str,
        path: Path,
        why: str,
        line: int = 0,
        more: Iterable[TlsFileError] = (),
        *,
        is_over: bool = False,
    ) -> None:
        super().__init__(f"{path}:{line}: {why}" if line else f"{path}: {why}")
        self.field = field
        self.path = path
        self.why = why
        self.line = line
        self.more = tuple(more)
        self.is_over = is_over


class NoGatewayError(TlsFileError):
    """A gateway's own certificate opens no link: neighbours would not take it for the gateway's."""


class TlsFaults:
    """A list of the faults found in files so far: looking goes on behind each.

    What is over by the clock is a fault like others for who asks what is wrong, and none that keeps
    a file from being used: the clock may be wrong, and each handshake is judged by its own time.
    """

    def __init__(self) -> None:
        self._found: list[TlsFileError] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note what is raised within."""
        try:
            yield
        except TlsFileError as error:
            self._found += (error, *error.more)

    @property
    def over(self) -> tuple[TlsFileError, ...]:
        """The faults of what was right until a time that is past by this machine's clock."""
        return tuple(one for one in self._found if one.is_over)

    def hold(self) -> None:
        """Raise the faults, unless all of them are over by the clock.

        Raises:
            TlsFileError: the first, with all others.

        """
        for one in self._found:
            if not one.is_over:
                others = [each for each in self._found if each is not one]
                raise TlsFileError(one.field, one.path, one.why, one.line, others)
