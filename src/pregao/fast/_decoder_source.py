"""Generated decoders: Python source is generated from a template, then compiled.

In the source ``b`` is the message, ``p`` the position, ``m`` the presence map as a number whose
highest bit is the first one, ``d`` the previous values by slot, ``c`` the decoder, ``r`` the
decoded values, ``x`` the current value. Every template, group and entry of a sequence is a separate
function.

Each text that is not in the stream decrements ``c.text_left``. Where such a text is shared with an
earlier one, the decoder checks the limit at the end of the message; where it is newly built, the
generated function checks it immediately.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import Any

from pregao.errors import DecodeError
from pregao.fast import _wire
from pregao.fast._source import ModuleSource, literal, run_of
from pregao.fast.model import (
    MAX_EXPONENT,
    DecimalField,
    FastField,
    FastGroup,
    FastSequence,
    FieldType,
    Operation,
    Operator,
    Part,
    Reference,
    Template,
    Templates,
    constant_text,
)

FastDecode = Callable[[bytes, int, int, list[Any], Any], tuple[dict[str, Any], int]]

_DELTA = 1 << (7 * _wire.MAX_NUMBER_BYTES - 1)
_EMPTY: dict[FieldType, Any] = {FieldType.ASCII: "", FieldType.UNICODE: b"", FieldType.BYTES: b""}


def decoder_of(templates: Templates, template: Template) -> FastDecode:
    """Return the function that decodes the body of a message, after its template id.

    Its arguments are message, position, presence map, previous values and decoder.
    """
    return _Writer(templates).function(template)


class _Writer:
    """Generator of the source of one template."""

    def __init__(self, templates: Templates) -> None:
        self.templates = templates
        self.source = ModuleSource(
            {
                "U": _wire.UNDEFINED,
                "A": _wire.ASCII,
                "N": _wire.NULLABLE_ASCII,
                "unsigned": _wire.unsigned_rest,
                "signed": _wire.signed_rest,
                "ascii": _wire.ascii_rest,
                "raw": _wire.bytes_of,
                "text": _wire.text_of,
                "map_rest": _wire.map_rest,
                "decimal": _wire.decimal_of,
                "same": _wire.same_kind,
                "changed": _wire.changed,
                "tailed": _wire.tailed,
                "exponent_error": _wire.exponent_error,
                "E": DecodeError,
                "MANY_ENTRIES": _wire.MANY_ENTRIES,
                "MUCH_TEXT": _wire.MUCH_TEXT,
            }
        )

    def function(self, template: Template) -> FastDecode:
        name = self.segment(template.parts, template.map_bits, message=True)
        compiled: FastDecode = self.source.compiled(name, f"<decoder of {template.name}>")
        return compiled

    def segment(self, parts: Many[Part], map_bits: int, *, message: bool = False) -> str:
        """Write the function of a template, group or entry; return its name."""
        write = self.source.write
        with self.source.function("b, p, m, d, c" if message else "b, p, d, c") as function:
            if map_bits and not message:
                write("m = b[p]", "p += 1")
                shift = map_bits - 7
                shifted = f"<< {shift}" if shift >= 0 else f">> {-shift}"
                write("if m > 127:", f"    m = (m & 127) {shifted}")
                write("else:", f"    m, p = map_rest(b, p, m, {map_bits})")
            bit = map_bits - 1 - message
            write("r = {}")
            index = 0
            while index < len(parts):
                run = max(1, len(run_of(parts[index:], len(parts)).parts))
                bit = self.run(parts[index : index + run], bit)
                index += run
            write("return r, p")
        return function

    def run(self, parts: Many[Part], bit: int) -> int:
        """Write parts that are usually all absent: test them together, then by halves."""
        if len(parts) < 2:
            return self.part(parts[0], bit)
        run = run_of(parts, len(parts))
        tests = []
        if run.pattern:
            lowest = bit - len(run.pattern) + 1
            mask = ((1 << len(run.pattern)) - 1) << lowest
            pattern = int(run.pattern, 2) << lowest
            tests.append(f"m & {mask} == {pattern}" if pattern else f"not m & {mask}")
        if run.nulls:
            nulls = bytes([0x80]) * run.nulls
            tests.append("b[p] == 128" if run.nulls == 1 else f"b.startswith({nulls!r}, p)")
        with self.source.under(f"if {' and '.join(tests)}:"):
            self.source.write(f"p += {run.nulls}")
        half = len(parts) // 2
        with self.source.under("else:"):
            bit = self.run(parts[:half], bit)
            return self.run(parts[half:], bit)

    def part(self, part: Part, bit: int) -> int:
        """Write the decoding of one part; return the next bit of the presence map."""
        write, target = self.source.write, f"r[{part.name!r}]"
        if isinstance(part, FastField):
            self.field(part.kind, part.optional, part.operation, bit)
            with self.source.under("if x is not None:" if part.optional else ""):
                raw = part.kind is FieldType.UNICODE and part.operation.operator not in _KNOWN_TEXTS
                write(f"{target} = text(x)" if raw else f"{target} = x")
        elif isinstance(part, DecimalField):
            self.decimal(part, target, bit)
        elif isinstance(part, FastGroup):
            inner = self.segment(part.parts, part.map_bits)
            with self.source.under(f"if m & {1 << bit}:" if part.optional else ""):
                write(f"{target}, p = {inner}(b, p, d, c)")
        elif isinstance(part, FastSequence):
            self.sequence(part, target, bit)
        elif isinstance(part, Reference):
            write(f"{target}, p = c.nested(b, p)")
        return bit - part.bits

    def sequence(self, part: FastSequence, target: str, bit: int) -> None:
        write = self.source.write
        inner = self.segment(part.parts, part.map_bits)
        self.field(FieldType.UINT32, part.optional, part.length.operation, bit)
        with self.source.under("if x is not None:" if part.optional else ""):
            reason = f"{part.name}: more entries than there are bytes"
            write("if x > len(b) - p:", f"    raise E({reason!r}, p)")
            write("c.entries_left -= x")
            write("if c.entries_left < 0:", "    raise E(MANY_ENTRIES, p)")
            if constants := constant_text(part.parts):
                write(f"c.text_left -= x * {constants}")
            write(f"q = {target} = []", "for _ in range(x):")
            write(f"    x, p = {inner}(b, p, d, c)", "    q.append(x)")

    # One field: each method writes lines that leave its value, or None, in x.

    def field(self, kind: FieldType, optional: bool, operation: Operation, bit: int) -> None:
        write, under = self.source.write, self.source.under
        initial, mask = operation.initial, 1 << bit if bit >= 0 else 0
        match operation.operator:
            case Operator.NONE:
                self.read(kind, optional)
            case Operator.CONSTANT:
                value = literal(kind, initial)
                write(f"x = {value} if m & {mask} else None" if optional else f"x = {value}")
            case Operator.DEFAULT:
                with under(f"if m & {mask}:"):
                    self.read(kind, optional)
                    if kind is FieldType.UNICODE:
                        write(f"x = text(x){' if x is not None else None' if optional else ''}")
                write("else:", f"    x = {literal(kind, initial)}")
                if isinstance(initial, str | bytes) and initial:
                    write(f"    c.text_left -= {len(initial)}")
            case Operator.DELTA if kind.is_number:
                self.delta(kind, optional, operation)
            case Operator.DELTA:
                self.text_delta(kind, optional, operation)
            case operator:
                with under(f"if m & {mask}:"):
                    self.read(kind, optional)
                    if operator is Operator.TAIL:
                        self.tail(kind, optional, operation)
                    self.keep(kind, optional, operation.slot)
                with under("else:"):
                    self.previous(kind, optional, operation)
                    if not kind.is_number:
                        with under("if x:" if optional else ""):
                            write("c.text_left -= len(x)")

    def previous(self, kind: FieldType, optional: bool, operation: Operation) -> None:
        """Write the value of copy, increment and tail if the stream has none."""
        write = self.source.write
        self.recall(kind, operation.slot, "x")
        with self.source.under("if x is U:"):
            if operation.initial is None and not optional:
                write("raise E('no value, no previous and no initial one (ERR D5)', p)")
            else:
                write(f"x = {operation.initial!r}")
                self.keep(kind, optional, operation.slot)
        if not optional:
            write("elif x is None:", "    raise E('no value and no previous one (ERR D6)', p)")
        if operation.operator is Operator.INCREMENT:
            with self.source.under("elif x is not None:" if optional else "else:"):
                write(f"x = x + 1 if x != {kind.maximum} else {kind.minimum}")
                self.keep(kind, optional, operation.slot)

    def delta(self, kind: FieldType, optional: bool, operation: Operation) -> None:
        write = self.source.write
        self.read_signed(-_DELTA, _DELTA - 1, optional)
        with self.source.under("if x is not None:" if optional else ""):
            self.base(kind, operation, "y", dynamic_empty=True)
            write("x += y")
            write(f"if not {kind.minimum} <= x <= {kind.maximum}:")
            write(f"    raise E('a difference that leaves the range of {kind.value} (ERR R4)', p)")
            self.keep(kind, False, operation.slot)

    def text_delta(self, kind: FieldType, optional: bool, operation: Operation) -> None:
        write = self.source.write
        self.read(FieldType.INT32, optional)
        with self.source.under("if x is not None:" if optional else ""):
            write("z = x")
            self.read(kind, False)
            self.base(kind, operation, "y", dynamic_empty=True)
            write("x = changed(y, z, x)")
            self.count_text()
            self.keep(kind, False, operation.slot)

    def count_text(self) -> None:
        """Write the accounting of a newly built text, with an immediate check of the limit."""
        self.source.write("c.text_left -= len(x)")
        self.source.write("if c.text_left < 0:", "    raise E(MUCH_TEXT, p)")

    def tail(self, kind: FieldType, optional: bool, operation: Operation) -> None:
        with self.source.under("if x is not None:" if optional else ""):
            self.base(kind, operation, "y", dynamic_empty=False)
            self.source.write("x = tailed(y, x)")
            self.count_text()

    def base(
        self, kind: FieldType, operation: Operation, into: str, *, dynamic_empty: bool
    ) -> None:
        """Write the base value to which a delta or tail is applied."""
        write = self.source.write
        start = operation.initial
        start = _EMPTY.get(kind, 0) if start is None else start
        self.recall(kind, operation.slot, into)
        if dynamic_empty:
            write(f"if {into} is U:", f"    {into} = {start!r}")
            write(f"elif {into} is None:")
            write("    raise E('a difference to an empty previous value (ERR D6)', p)")
        else:
            write(f"if {into} is U or {into} is None:", f"    {into} = {start!r}")

    def recall(self, kind: FieldType, slot: int, into: str) -> None:
        """Write the load of the previous value: undefined, empty (None) or a value."""
        self.source.write(f"{into} = d[{slot}]")
        if len(self.templates.slots[slot].kinds) > 1:
            known = self.source.constant(kind)
            self.source.write(f"if {into}.__class__ is tuple:")
            self.source.write(f"    {into} = same({into}, {known})")

    def keep(self, kind: FieldType, optional: bool, slot: int) -> None:
        """Write the store of x as the previous value."""
        if len(self.templates.slots[slot].kinds) == 1:
            self.source.write(f"d[{slot}] = x")
            return
        known = self.source.constant(kind)
        empty = " if x is not None else None" if optional else ""
        self.source.write(f"d[{slot}] = ({known}, x){empty}")

    def decimal(self, part: DecimalField, target: str, bit: int) -> None:
        write = self.source.write
        if part.joint and part.exponent.operator is not Operator.DELTA:
            self.joint_decimal(part, target, bit)
            return
        self.field(FieldType.INT32, part.optional, part.exponent, bit)
        bit -= part.exponent.bits(part.optional)
        with self.source.under("if x is not None:" if part.optional else ""):
            write("e = x")
            self.check_exponent()
            self.field(FieldType.INT64, False, part.mantissa, bit)
            write(f"{target} = decimal(x, e)")
        if part.optional and part.mantissa_bits:
            write("else:", "    m >>= 1")  # the mantissa's bit is absent too

    def check_exponent(self) -> None:
        self.source.write(f"if e > {MAX_EXPONENT} or e < -{MAX_EXPONENT}:")
        self.source.write("    raise exponent_error()")

    def joint_decimal(self, part: DecimalField, target: str, bit: int) -> None:
        """Write a decimal with one operator for both parts: constant, default or copy."""
        write, mask = self.source.write, 1 << bit if bit >= 0 else 0
        exponent, mantissa = part.exponent, part.mantissa
        whole = ""
        if exponent.initial is not None and mantissa.initial is not None:
            value = _wire.decimal_of(int(mantissa.initial), int(exponent.initial))
            whole = self.source.constant(value)
        if exponent.operator is Operator.CONSTANT:
            with self.source.under(f"if m & {mask}:" if part.optional else ""):
                write(f"{target} = {whole}")
            return
        copy = exponent.operator is Operator.COPY
        with self.source.under(f"if m & {mask}:"):
            self.read(FieldType.INT32, part.optional)
            if copy:
                self.keep(FieldType.INT32, part.optional, exponent.slot)
            with self.source.under("if x is not None:" if part.optional else ""):
                write("e = x")
                self.check_exponent()
                self.read(FieldType.INT64, False)
                if copy:
                    self.keep(FieldType.INT64, False, mantissa.slot)
                write(f"{target} = decimal(x, e)")
        if not copy:
            if whole:
                write("else:", f"    {target} = {whole}")
            return
        with self.source.under("else:"):
            self.previous(FieldType.INT32, part.optional, exponent)
            with self.source.under("if x is not None:" if part.optional else ""):
                write("e = x")
                self.recall(FieldType.INT64, mantissa.slot, "x")
                start = 0 if mantissa.initial is None else mantissa.initial
                write("if x is U:", f"    x = {start!r}")
                self.keep(FieldType.INT64, False, mantissa.slot)
                write(f"{target} = decimal(x, e)")

    # Reading: each method writes lines that leave the value in the stream, or None for null, in x.

    def read(self, kind: FieldType, optional: bool) -> None:
        write = self.source.write
        if kind in (FieldType.INT32, FieldType.INT64):
            self.read_signed(kind.minimum, kind.maximum, optional)
        elif kind is FieldType.ASCII:
            write("x = b[p]", "if x > 127:", f"    x = {'N' if optional else 'A'}[x]")
            write("    p += 1", "else:", f"    x, p = ascii(b, p, {optional})")
        else:
            maximum = kind.maximum if kind.is_number else FieldType.UINT32.maximum
            # Two bytes are read inline: a call would take longer.
            less = " - 1" if optional else ""
            write("x = b[p]", "p += 1", "if x > 127:")
            write("    x = x - 129 if x > 128 else None" if optional else "    x &= 127")
            write("elif x and b[p] > 127:", f"    x = (x << 7 | b[p] & 127){less}", "    p += 1")
            write("else:", f"    x, p = unsigned(b, p, x, {maximum + optional})")
            if optional:
                write("    x -= 1")
            if not kind.is_number:
                with self.source.under("if x is not None:" if optional else ""):
                    write("x = raw(b, p, x)", "p += len(x)")

    def read_signed(self, minimum: int, maximum: int, optional: bool) -> None:
        write = self.source.write
        write("x = b[p]", "p += 1", "if x > 127:", "    x = x - 128 if x < 192 else x - 256")
        write("elif 0 < x < 64 and b[p] > 127:", "    x = x << 7 | b[p] & 127", "    p += 1")
        write("else:", f"    x, p = signed(b, p, x, {minimum}, {maximum + optional})")
        if optional:
            write("if x >= 0:", "    x = x - 1 if x else None")


_KNOWN_TEXTS = (Operator.CONSTANT, Operator.DEFAULT)
"""Operators whose Unicode strings are already decoded."""
