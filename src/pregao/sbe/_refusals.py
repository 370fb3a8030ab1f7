"""Why a message cannot be written: the first field that refuses its value, and its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pregao.errors import EncodeError
from pregao.sbe._to_wire import RefusedError, encoder
from pregao.sbe.model import Block, Presence
from pregao.sbe.values import Reading, readings

_MISSING = object()
"""In place of a value that is required and not given: no field takes it."""


def blanks_of(fields: Sequence[Reading]) -> dict[str, Any]:
    """What fields hold whose values are not given."""
    return {field.name: _MISSING if field.required else None for field in fields}


class EntryRefusals:
    """What the values of a block must be, asked only when something is wrong with them."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._constants = {
            field.name: field.constant
            for field in block.fields
            if field.presence is Presence.CONSTANT
        }
        self.blanks = blanks_of(readings(block))
        """Every name that can be given, in order, with what it is when it is not."""
        self.blanks.update({group.name: None for group in block.groups})
        self.blanks.update({data.name: None for data in block.data})

    def without_constants(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values without the constants among them, which must be right; no unknown names."""
        for name in values:
            if name not in self.blanks:
                self._check_constant(name, values[name])
        known = {name: value for name, value in values.items() if name in self.blanks}
        return {**self.blanks, **known}

    def _check_constant(self, name: str, value: Any) -> None:
        if name not in self._constants:
            raise self._error(RefusedError(f"no such field in {self._block.name}", (name,)))
        constant = self._constants[name]
        if value != constant:
            raise self._error(RefusedError(f"always {constant!r} here, not {value!r}", (name,)))

    def of(self, values: Mapping[str, Any], failure: Exception) -> Exception:
        """What is wrong with values whose writing failed so."""
        for field in readings(self._block):
            try:
                if field.required and field.name not in values:
                    raise RefusedError("a value is required")
                encoder(field)(values.get(field.name))
            except RefusedError as refused:
                return self._error(RefusedError(refused.reason, (field.name, *refused.path)))
        return self._error(failure) if isinstance(failure, RefusedError) else failure

    def _error(self, refused: RefusedError) -> Exception:
        return refused


class MessageRefusals(EntryRefusals):
    """The same of a message, as the error that users see."""

    def _error(self, refused: RefusedError) -> Exception:
        return EncodeError(f"{'.'.join(refused.path)}: {refused.reason}")
