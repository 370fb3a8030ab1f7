"""A plain interpreter of FAST templates, by the book: what the fast decoders are compared with.

It walks the model field by field, with presence maps as lists of bits and a dictionary of previous
values. Nothing is generated, nothing is shared with the decoders under test but the model.
"""

from decimal import Context, Decimal

from pregao.errors import DecodeError
from pregao.fast.model import (
    DecimalField,
    FastField,
    FastGroup,
    FastSequence,
    FieldType,
    Operator,
    Reference,
)

EMPTY = object()
EXACT = Context(prec=100)
RANGES = {
    FieldType.UINT32: (0, 2**32 - 1),
    FieldType.INT32: (-(2**31), 2**31 - 1),
    FieldType.UINT64: (0, 2**64 - 1),
    FieldType.INT64: (-(2**63), 2**63 - 1),
}


class Bits:
    """A presence map: bits that are not there are zero."""

    def __init__(self, entity):
        self.bits = [byte >> bit & 1 for byte in entity for bit in range(6, -1, -1)]
        self.next = 0

    def take(self):
        self.next += 1
        return self.next <= len(self.bits) and self.bits[self.next - 1] == 1


class PlainDecoder:
    """Decodes message after message."""

    def __init__(self, templates, *, reset_each_message=False):
        self.templates = templates
        self.reset_each_message = reset_each_message
        self.previous = {}
        self.template_id = None
        self.depth = 0

    def decode(self, message):
        """The template's name, the values and where they end."""
        if self.reset_each_message:
            self.previous, self.template_id = {}, None
        self.message, self.position = message, 0
        self.depth = 0
        try:
            name, values = self.nested()
        except DecodeError:
            self.previous, self.template_id = {}, None
            raise
        return name, values, self.position

    def nested(self):
        bits = Bits(self.entity())
        if bits.take():
            self.template_id = self.unsigned(2**32 - 1)
        if self.template_id is None or self.template_id not in self.templates.by_id:
            raise DecodeError(f"no template {self.template_id}")
        template = self.templates.by_id[self.template_id]
        if template.reset:
            self.previous = {}
        return template.name, self.parts(template.parts, bits)

    # What is in the stream.

    def byte(self):
        if self.position >= len(self.message):
            raise DecodeError("the end")
        self.position += 1
        return self.message[self.position - 1]

    def entity(self):
        """The seven bits of each byte up to the one with the stop bit."""
        found = [self.byte()]
        while found[-1] < 128:
            found.append(self.byte())
        return [byte & 127 for byte in found]

    def unsigned(self, maximum):
        entity = self.entity()
        if len(entity) > 1 and entity[0] == 0:
            raise DecodeError("overlong")
        value = 0
        for seven in entity:
            value = value * 128 + seven
        if value > maximum:
            raise DecodeError("range")
        return value

    def signed(self, low, high):
        entity = self.entity()
        if len(entity) > 1 and (entity[0], entity[1] & 64) in ((0, 0), (127, 64)):
            raise DecodeError("overlong")
        value = -1 if entity[0] & 64 else 0
        for seven in entity:
            value = value * 128 + seven
        if not low <= value <= high:
            raise DecodeError("range")
        return value

    def number(self, kind, nullable, bounds=None):
        low, high = bounds or RANGES[kind]
        if kind in (FieldType.INT32, FieldType.INT64):
            value = self.signed(low, high + nullable)
            if nullable and value >= 0:
                return value - 1 if value else None
            return value
        value = self.unsigned(high + nullable)
        if nullable:
            return value - 1 if value else None
        return value

    def transferred(self, kind, nullable):
        if kind in RANGES:
            return self.number(kind, nullable)
        if kind is FieldType.ASCII:
            text = "".join(map(chr, self.entity()))
            zeros = (
                {"\0": None, "\0\0": "", "\0\0\0": "\0"} if nullable else {"\0": "", "\0\0": "\0"}
            )
            if text[0] == "\0":
                if text not in zeros:
                    raise DecodeError("overlong")
                return zeros[text]
            return text
        length = self.number(FieldType.UINT32, nullable)
        if length is None:
            return None
        if length > len(self.message) - self.position:
            raise DecodeError("the end")
        self.position += length
        return self.message[self.position - length : self.position]

    # What fields make of it.

    def parts(self, parts, bits):
        values = {part.name: self.part(part, bits) for part in parts}
        return {name: value for name, value in values.items() if value is not None}

    def part(self, part, bits):
        if isinstance(part, FastField):
            value = self.field(part.kind, part.optional, part.operation, bits)
            if part.kind is FieldType.UNICODE and value is not None:
                try:
                    return value.decode()
                except UnicodeDecodeError:
                    raise DecodeError("UTF-8") from None
            return value
        if isinstance(part, DecimalField):
            return self.decimal(part, bits)
        if isinstance(part, FastGroup):
            if part.optional and not bits.take():
                return None
            return self.parts(part.parts, self.map_of(part))
        if isinstance(part, FastSequence):
            length = self.field(FieldType.UINT32, part.optional, part.length.operation, bits)
            if length is None:
                return None
            if length > len(self.message) - self.position:
                raise DecodeError("the end")
            return [self.parts(part.parts, self.map_of(part)) for _ in range(length)]
        assert isinstance(part, Reference)
        self.depth += 1
        if self.depth > 16:
            raise DecodeError("depth")
        found = self.nested()
        self.depth -= 1
        return found

    def map_of(self, part):
        return Bits(self.entity() if any(each.bits for each in part.parts) else [])

    def decimal(self, part, bits):
        exponent, mantissa = part.exponent, part.mantissa
        if part.joint and exponent.operator is not Operator.DELTA:
            both = self.joint(part, bits)
            if both is None:
                return None
            power, whole = both
        else:
            power = self.field(FieldType.INT32, part.optional, exponent, bits)
            if power is None:
                return None
            whole = self.field(FieldType.INT64, False, mantissa, bits)
        if not -63 <= power <= 63:
            raise DecodeError("exponent")
        return EXACT.scaleb(Decimal(whole), power)

    def joint(self, part, bits):
        exponent, mantissa = part.exponent, part.mantissa
        initial = None if exponent.initial is None else (exponent.initial, mantissa.initial)
        if exponent.operator is Operator.CONSTANT:
            return initial if not part.optional or bits.take() else None
        if bits.take():
            power = self.number(FieldType.INT32, part.optional)
            found = None if power is None else (power, self.number(FieldType.INT64, False))
            if exponent.operator is Operator.COPY:
                self.keep(exponent, FieldType.INT32, EMPTY if found is None else found[0])
                if found is not None:
                    self.keep(mantissa, FieldType.INT64, found[1])
            return found
        if exponent.operator is Operator.DEFAULT:
            return initial
        power = self.copied(FieldType.INT32, part.optional, exponent)
        if power is None:
            return None
        whole = self.recall(mantissa, FieldType.INT64)
        if whole is None:
            whole = mantissa.initial or 0
            self.keep(mantissa, FieldType.INT64, whole)
        return power, whole

    def field(self, kind, optional, operation, bits):
        match operation.operator:
            case Operator.NONE:
                return self.transferred(kind, optional)
            case Operator.CONSTANT:
                return operation.initial if not optional or bits.take() else None
            case Operator.DEFAULT:
                return self.transferred(kind, optional) if bits.take() else operation.initial
            case Operator.DELTA:
                return self.delta(kind, optional, operation)
        if not bits.take():
            return self.copied(kind, optional, operation)
        value = self.transferred(kind, optional)
        if operation.operator is Operator.TAIL and value is not None:
            base = self.recall(operation, kind)
            base = self.start(kind, operation) if base is None or base is EMPTY else base
            value = base[: max(0, len(base) - len(value))] + value
        self.keep(operation, kind, EMPTY if value is None else value)
        return value

    def copied(self, kind, optional, operation):
        """Copy, increment and tail without a value in the stream."""
        value = self.recall(operation, kind)
        if value is None:
            value = EMPTY if operation.initial is None else operation.initial
        elif operation.operator is Operator.INCREMENT and value is not EMPTY:
            low, high = RANGES[kind]
            value = low if value == high else value + 1
        if value is EMPTY and not optional:
            raise DecodeError("no value")
        self.keep(operation, kind, value)
        return None if value is EMPTY else value

    def delta(self, kind, optional, operation):
        if kind in RANGES:
            difference = self.number(FieldType.INT64, optional, (-(2**69), 2**69 - 1))
            if difference is None:
                return None
            value = self.base(kind, operation) + difference
            low, high = RANGES[kind]
            if not low <= value <= high:
                raise DecodeError("range")
        else:
            taken = self.number(FieldType.INT32, optional)
            if taken is None:
                return None
            added = self.transferred(kind, False)
            base = self.base(kind, operation)
            if (taken if taken >= 0 else -taken - 1) > len(base):
                raise DecodeError("taken")
            value = base[: len(base) - taken] + added if taken >= 0 else added + base[-taken - 1 :]
            if len(value) > 65535:
                raise DecodeError("long")
        self.keep(operation, kind, value)
        return value

    def base(self, kind, operation):
        base = self.recall(operation, kind)
        if base is EMPTY:
            raise DecodeError("empty")
        return self.start(kind, operation) if base is None else base

    def start(self, kind, operation):
        if operation.initial is not None:
            return operation.initial
        return 0 if kind in RANGES else "" if kind is FieldType.ASCII else b""

    def recall(self, operation, kind):
        """The previous value; None is undefined."""
        known, value = self.previous.get(operation.slot, (kind, None))
        if known is not kind and value is not EMPTY:
            raise DecodeError("kind")
        return value

    def keep(self, operation, kind, value):
        self.previous[operation.slot] = kind, value
