"""Message codec: converts one FAST message at a time between bytes and named values.

Values are numbers, texts, bytes and decimals that keep their exponent; groups are dictionaries,
sequences lists of dictionaries. Absent fields are not in the dictionary; an encoder also accepts
None for them. A message inside a message (dynamic templateRef) is a `NestedMessage`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pregao.errors import DecodeError, EncodeError
from pregao.fast._decoder_source import FastDecode, decoder_of
from pregao.fast._encoder_source import Encode, encoder_of
from pregao.fast._wire import (
    MUCH_TEXT,
    UNDEFINED,
    map_rest,
    presence_map,
    unsigned,
    unsigned_rest,
)
from pregao.fast.model import (
    MAX_ENTRIES,
    TEXT_ALLOWANCE,
    TEXT_FACTOR,
    Reference,
    Template,
    Templates,
    slots_of,
    walk,
)

MAX_NESTED = 16
"""Maximum nesting depth of messages inside messages."""

_MAX_ID = (1 << 32) - 1


@dataclass(slots=True)
class FastMessage:
    """A decoded message: its template, its values, and where it ends in the buffer."""

    template: Template
    values: dict[str, Any]
    end: int

    def __getitem__(self, name: str) -> Any:
        """Return a value by field name; None if it is absent."""
        return self.values.get(name)


class NestedMessage(NamedTuple):
    """A message inside a message: the name of its template and its values."""

    template: str
    values: Mapping[str, Any]


class _State:
    """Previous values of a stream."""

    def __init__(self, templates: Templates, reset_each_message: bool) -> None:
        self.templates = templates
        self.reset_each_message = reset_each_message
        self.previous: list[Any] = [UNDEFINED] * len(templates.slots)
        self.last_id: int | None = None
        self.depth = 0
        self._blank = list(self.previous)

    def reset(self) -> None:
        """Reset all previous values, including the template id."""
        self.previous[:] = self._blank
        self.last_id = None

    def span(self, template: Template) -> tuple[slice, list[Any]]:
        """Return the slots that a message of a template can use, and their initial content."""
        span = _span(template, len(self._blank))
        return span, self._blank[span]


def _span(template: Template, count: int) -> slice:
    """Return the range of slots that a template uses."""
    if any(isinstance(part, Reference) for part in walk(template.parts)):
        return slice(0, count)
    slots = slots_of(template.parts)
    return slice(min(slots), max(slots) + 1) if slots else slice(0, 0)


class Decoder:
    """Decoder of the messages of a stream, one at a time.

    With ``reset_each_message`` previous values are reset before every message. They are also reset
    after an error, because the values that the message would have set are unknown.
    """

    def __init__(self, templates: Templates, *, reset_each_message: bool = False) -> None:
        self.templates = templates
        self._state = _State(templates, reset_each_message)
        self._functions: dict[int, tuple[Template, FastDecode, int, slice, list[Any]]] = {}
        # Remaining limits of the current message; generated functions decrement them.
        self.entries_left = self.text_left = 0

    def reset(self) -> None:
        """Reset all previous values."""
        self._state.reset()

    def decode(self, buffer: Any, position: int = 0, end: int | None = None) -> FastMessage:
        """Decode the message at ``position``; it must end at or before ``end``."""
        if end is None:
            end = len(buffer)
        entire = buffer.__class__ is bytes and not position and end == len(buffer)
        message = buffer if entire else bytes(buffer[position:end])
        if self._state.reset_each_message:
            self._state.last_id = None
        self.entries_left = MAX_ENTRIES
        self.text_left = TEXT_FACTOR * len(message) + TEXT_ALLOWANCE
        try:
            template, values, stop = self._message(message, 0)
            if self.text_left < 0:
                raise DecodeError(MUCH_TEXT, stop)
        except IndexError:
            self._failed()
            raise DecodeError("the message ends in the middle of a field", end) from None
        except DecodeError as error:
            self._failed()
            offset = position if error.position is None else position + error.position
            raise DecodeError(error.reason, offset) from None
        return FastMessage(template, values, position + stop)

    def _failed(self) -> None:
        self._state.depth = 0
        self._state.reset()

    def _message(self, message: bytes, position: int) -> tuple[Template, dict[str, Any], int]:
        state = self._state
        start = position
        # The template id's bit is the first one: it is known before the length of the map.
        first = message[position]
        position += 1
        if first & 0x40:
            after = position
            while message[after - 1] < 128:
                after += 1
            number = message[after]
            after += 1
            if number > 127:
                number &= 127
            else:
                number, after = unsigned_rest(message, after, number, _MAX_ID)
        else:
            if state.last_id is None:
                raise DecodeError("no template id, and no previous one (ERR D5)", start)
            number, after = state.last_id, -1
        known = self._functions.get(number) or self._function(number, start)
        template, decode, bits, span, blank = known
        if first > 127:
            shift = bits - 7
            presence = (first & 127) << shift if shift >= 0 else (first & 127) >> -shift
        else:
            presence, position = map_rest(message, position, first, bits)
        state.last_id = number
        if state.reset_each_message and not state.depth:
            state.previous[span] = blank
        elif template.reset:
            state.reset()
            state.last_id = number
        after = position if after < 0 else after
        values, stop = decode(message, after, presence, state.previous, self)
        return template, values, stop

    def _function(
        self, number: int, position: int
    ) -> tuple[Template, FastDecode, int, slice, list[Any]]:
        template = self.templates.by_id.get(number)
        if template is None:
            raise DecodeError(f"template {number} is not known (ERR D9)", position)
        function = decoder_of(self.templates, template)
        span = self._state.span(template)
        known = self._functions[number] = template, function, template.map_bits, *span
        return known

    def nested(self, message: bytes, position: int) -> tuple[NestedMessage, int]:
        """Decode a message inside a message; generated functions call it."""
        self._state.depth += 1
        if self._state.depth > MAX_NESTED:
            raise DecodeError(f"messages nested deeper than {MAX_NESTED}", position)
        template, values, position = self._message(message, position)
        self._state.depth -= 1
        return NestedMessage(template.name, values), position


class Encoder:
    """Encoder of the messages of a stream, one at a time.

    A message that cannot be encoded leaves the previous values unchanged.
    """

    def __init__(self, templates: Templates, *, reset_each_message: bool = False) -> None:
        self.templates = templates
        self._state = _State(templates, reset_each_message)
        self._functions: dict[str, tuple[Template, Encode, int, slice, list[Any], bytes]] = {}

    def reset(self) -> None:
        """Reset all previous values."""
        self._state.reset()

    def encode(self, name: str, values: Mapping[str, Any]) -> bytes:
        """Encode a message with the template of that name."""
        state = self._state
        kept = None
        if state.reset_each_message:
            state.last_id = None
        else:
            kept = state.last_id, state.previous.copy()
        try:
            return self._message(name, values)
        except (EncodeError, DecodeError) as error:
            state.depth = 0
            if kept is not None:
                state.last_id, state.previous[:] = kept
            raise EncodeError(str(error)) from None

    def _message(self, name: str, values: Mapping[str, Any]) -> bytes:
        state = self._state
        known = self._functions.get(name) or self._function(name)
        template, encode, bits, span, blank, named = known
        number = template.id
        assert number is not None
        if values.__class__ is not dict and not isinstance(values, Mapping):
            raise EncodeError(f"{name}: {values!r} is not named values")
        if state.reset_each_message and not state.depth:
            state.previous[span] = blank
        elif template.reset:
            last = state.last_id
            state.reset()
            state.last_id = last
        body = bytearray()
        same, state.last_id = number == state.last_id, number
        presence = encode(body, values, state.previous, self)
        if same:
            return presence_map(presence, bits) + body
        return presence_map(presence | 1 << (bits - 1), bits) + named + body

    def _function(self, name: str) -> tuple[Template, Encode, int, slice, list[Any], bytes]:
        template = self.templates.by_name.get(name)
        if template is None or template.id is None:
            raise EncodeError(f"{name}: no template of that name has an id")
        function = encoder_of(self.templates, template)
        span = self._state.span(template)
        named = unsigned(template.id)
        known = self._functions[name] = template, function, template.map_bits, *span, named
        return known

    def nested(self, out: bytearray, value: Any, name: str) -> None:
        """Encode a message inside a message; generated functions call it."""
        if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], str):
            raise EncodeError(f"{name}: {value!r} is not a template's name and values")
        self._state.depth += 1
        if self._state.depth > MAX_NESTED:
            raise EncodeError(f"{name}: messages nested deeper than {MAX_NESTED}")
        out += self._message(*value)
        self._state.depth -= 1
