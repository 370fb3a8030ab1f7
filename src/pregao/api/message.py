"""A message of a capture: its fields, key and times, for all protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pregao.sbe.model import MessageTemplate as Template
from pregao.sbe.model import snake_case
from pregao.sbe.value_specs import readings


class Protocol(StrEnum):
    """Protocol of a message."""

    UMDF = "umdf"
    ENTRYPOINT = "entrypoint"
    LEGACY = "legacy"


@dataclass(frozen=True, slots=True)
class Message:
    """A decoded message.

    Its fields are in ``values`` by the names of the specification (``message["mDEntryPx"]``), and
    attributes by the names of table columns (``message.md_entry_px``). Prices are exact decimals,
    enumerations their names, times nanoseconds since 1970, absent values None.
    """

    protocol: Protocol
    template: str
    """Name of the template, such as ``Trade_53``."""
    template_id: int
    schema_version: int | None
    """Schema version of the message; None for the legacy feed."""
    values: Mapping[str, Any]
    capture_time_ns: int | None
    sending_time_ns: int | None
    sequence_number: int | None
    """Number of its packet (market data) or its own (EntryPoint, legacy); None if it has none."""
    channel: int | None = None
    """This and the next three: market data only."""
    stream: str | None = None
    sequence_version: int | None = None
    index_in_packet: int | None = None
    sender: str | None = None
    """EntryPoint only: client, exchange, or None if unknown."""
    flow: str | None = None
    """EntryPoint and the legacy feed: source and destination, or the destination."""
    layout: Template | None = field(default=None, repr=False, compare=False)
    """The template in the schema."""

    def __getitem__(self, name: str) -> Any:
        """Return a field by its name in the specification."""
        return self.values[name]

    def __getattr__(self, name: str) -> Any:
        """Return a field by its column name."""
        # Slots that are not set yet, while a copy is made, are not fields.
        if not name.startswith("_") and name not in Message.__slots__:
            own = self._names().get(name)
            if own is not None:
                return self.values.get(own)
        raise AttributeError(f"A message of {self.template} has no {name!r}.")

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._names()]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by their column names."""
        return {column: self.values.get(name) for column, name in self._names().items()}

    def _names(self) -> dict[str, str]:
        if self.layout is None:
            return {snake_case(name): name for name in self.values}
        known = _COLUMNS.get(id(self.layout))
        if known is None:
            known = _COLUMNS[id(self.layout)] = self.layout, _columns(self.layout)
        return known[1]


_COLUMNS: dict[int, tuple[Template, dict[str, str]]] = {}
"""By the identity of the template, which is kept: comparing templates is slow."""


def _columns(template: Template) -> dict[str, str]:
    """Return the fields of a template by their column names."""
    found = {reading.column: reading.name for reading in readings(template)}
    for group in template.groups:
        found[snake_case(group.name)] = group.name
    for data in template.data:
        found[snake_case(data.name)] = data.name
    return found
