"""The exceptions Pregão raises: each one is a sentence that a user can act on."""

from __future__ import annotations


class PregaoError(Exception):
    """The root of every error that Pregão raises on purpose."""


class SchemaError(PregaoError):
    """A schema file is wrong, or a schema that was asked for is not known.

    When the mistake is in a file, the message names the file, the line and the element.
    """


class DecodeError(PregaoError):
    """Bytes that are not what they should be; the only exception that decoders raise.

    ``position`` is where in the given buffer the trouble is, when it is known, and
    ``reason`` a short stable phrase, so that equal faults can be counted together.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        self.reason = reason
        self.position = position
        super().__init__(reason if position is None else f"{reason} (at byte {position})")


class FieldRangeError(DecodeError):
    """A message that is whole, with a number that its field's type cannot represent."""


class EncodeError(PregaoError):
    """A value that cannot be written; the message names the field."""


class CaptureError(PregaoError):
    """A capture file cannot be read; the message names the file, the position and the reason."""


class NetworkError(PregaoError):
    """The network refuses something; the message names the address or interface and the reason."""


class UsageError(PregaoError):
    """Something was asked for that makes no sense; the message says what to do instead."""


class MissingExtraError(UsageError, ImportError):
    """A package that this needs is not installed; the message says which extra brings it."""


class NothingFoundError(UsageError):
    """What was asked for makes sense, but nothing of it is there; commands end with 1."""
