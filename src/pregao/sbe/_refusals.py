"""Errors of messages that cannot be encoded: the first field with an invalid value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pregao.errors import EncodeError
from pregao.sbe._to_wire import ValueRefusedError, encoder
from pregao.sbe.model import Block, Presence
from pregao.sbe.values import ValueSpec, readings

_MISSING = object()
"""Stand-in for a required value that is not given; no field accepts it."""


def blanks_of(fields: Sequence[ValueSpec]) -> dict[str, Any]:
    """Return the values of fields that are not given."""
    return {field.name: _MISSING if field.required else None for field in fields}


class EntryErrors:
    """Diagnosis of a block's values, used only after encoding failed."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._constants = {
            field.name: field.constant
            for field in block.fields
            if field.presence is Presence.CONSTANT
        }
        self.blanks = blanks_of(readings(block))
        """All names that can be given, in order, with their values if they are not given."""
        self.blanks.update({group.name: None for group in block.groups})
        self.blanks.update({data.name: None for data in block.data})

    def without_constants(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values without constants; refuse unknown names and wrong constants."""
        for name in values:
            if name not in self.blanks:
                self._check_constant(name, values[name])
        known = {name: value for name, value in values.items() if name in self.blanks}
        return {**self.blanks, **known}

    def _check_constant(self, name: str, value: Any) -> None:
        if name not in self._constants:
            raise self._error(ValueRefusedError(f"no such field in {self._block.name}", (name,)))
        constant = self._constants[name]
        if value != constant:
            raise self._error(
                ValueRefusedError(f"must be the constant {constant!r}, was {value!r}", (name,))
            )

    def of(self, values: Mapping[str, Any], failure: Exception) -> Exception:
        """Return the error for values whose encoding failed."""
        for field in readings(self._block):
            try:
                if field.required and field.name not in values:
                    raise ValueRefusedError("a value is required")
                encoder(field)(values.get(field.name))
            except ValueRefusedError as refused:
                return self._error(ValueRefusedError(refused.reason, (field.name, *refused.path)))
        return self._error(failure) if isinstance(failure, ValueRefusedError) else failure

    def _error(self, refused: ValueRefusedError) -> Exception:
        return refused


class MessageErrors(EntryErrors):
    """Diagnosis of a message's values, with errors for users."""

    def _error(self, refused: ValueRefusedError) -> Exception:
        return EncodeError(f"{'.'.join(refused.path)}: {refused.reason}")
