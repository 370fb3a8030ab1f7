"""Exceptions of Pregão: each has a message that a user can act on."""

from __future__ import annotations


class PregaoError(Exception):
    """Base class of every error that Pregão raises deliberately."""


class SchemaError(PregaoError):
    """A schema file is invalid, or a requested schema is unknown.

    For a mistake in a file, the message names the file, the line and the element.
    """


class DecodeError(PregaoError):
    """Malformed bytes; the only exception that decoders raise.

    ``position`` is the offset in the given buffer, if known, and ``reason`` a short stable phrase,
    so that equal faults can be counted together.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        self.reason = reason
        self.position = position
        super().__init__(reason if position is None else f"{reason} (at byte {position})")


class FieldRangeError(DecodeError):
    """A complete message with a number that its field's type cannot represent."""


class EncodeError(PregaoError):
    """A value that cannot be encoded; the message names the field."""


class CaptureError(PregaoError):
    """A capture file cannot be read; the message names the file, the position and the reason."""


class NetworkError(PregaoError):
    """A network operation failed; the message names the address or interface and the reason."""


class UsageError(PregaoError):
    """An invalid argument or request; the message states what to do instead."""


class MissingExtraError(UsageError, ImportError):
    """A required package is not installed; the message names the extra that provides it."""


class NothingFoundError(UsageError):
    """A valid request that matches nothing; commands exit with 1."""
