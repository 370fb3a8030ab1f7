"""Generated encoders: Python source is generated from a template, then compiled.

In the source ``o`` is the output, ``w`` the part after the presence map, ``m`` the presence map as
a number whose highest bit is the first one, ``d`` the previous values by slot, ``c`` the encoder,
``v`` the values by name, ``x`` the current value. A field is omitted from the stream wherever its
operator allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Many
from decimal import Decimal
from typing import Any

from pregao.errors import EncodeError
from pregao.fast import _wire
from pregao.fast._source import ModuleSource, OptionalRun, literal, run_of
from pregao.fast.model import (
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
)

Encode = Callable[[bytearray, Mapping[str, Any], list[Any], Any], int]

_EMPTY: dict[FieldType, Any] = {FieldType.ASCII: "", FieldType.UNICODE: b"", FieldType.BYTES: b""}


_HALF = _wire.TWO_BYTES // 2
_WIDE = 1 << 63
_MAX_RUN = 6
"""Maximum number of parts tested together; the more, the likelier one is present."""


def encoder_of(templates: Templates, template: Template) -> Encode:
    """Return the function that encodes the body of a message, after its template id.

    Its arguments are output, values by name, previous values and encoder; it returns the presence
    map. The caller sets the map's highest bit, the template id's.
    """
    return _Writer(templates).function(template)


def entries_of(value: Any, name: str) -> Many[Any]:
    """Return the entries of a sequence; raise `EncodeError` if they are not a list."""
    if value is None:
        raise EncodeError(f"{name}: mandatory, and no value was given")
    if not isinstance(value, (list, tuple)):
        raise EncodeError(f"{name}: {value!r} is not a list of entries")
    return value


def entry_error(name: str, entry: Any, error: Exception) -> EncodeError:
    """Return the error of an entry or group, prefixed with the path to the field."""
    if isinstance(error, EncodeError):
        return EncodeError(f"{name}.{error}")
    return EncodeError(f"{name}: {entry!r} is not named values")


def named(nothing: dict[str, Any], values: Any) -> dict[str, Any]:
    """Return the values by name, with the defaults of absent ones."""
    return nothing | dict(values.items())


def unknown_name(values: Any, known: frozenset[str]) -> EncodeError:
    """Return the error for a value without a field."""
    return EncodeError(f"{next(each for each in values if each not in known)}: no such field")


class _Writer:
    """Generator of the source of one template."""

    def __init__(self, templates: Templates) -> None:
        self.templates = templates
        self.source = ModuleSource(
            {
                "U": _wire.UNDEFINED,
                "unsigned": _wire.unsigned,
                "signed": _wire.signed,
                "nullable_signed": _wire.nullable_signed,
                "ascii": _wire.ascii_bytes,
                "presence_map": _wire.presence_map,
                "number": _wire.number,
                "ascii_text": _wire.ascii_text,
                "raw_bytes": _wire.raw_bytes,
                "scaled": _wire.scaled,
                "rescaled": _wire.rescaled,
                "difference": _wire.difference,
                "tail_of": _wire.tail_of,
                "same": _wire.same_kind,
                "entries_of": entries_of,
                "entry_error": entry_error,
                "unknown_name": unknown_name,
                "named": named,
                "W": _wire.UNSIGNED,
                "S": _wire.SIGNED,
                "D": Decimal,
                "scaleb": _wire.scaleb,
                "E": EncodeError,
            }
        )
        self.shifting = False

    def function(self, template: Template) -> Encode:
        name = self.segment(template.parts, template.map_bits, message=True)
        compiled: Encode = self.source.compiled(name, f"<encoder of {template.name}>")
        return compiled

    def segment(self, parts: Many[Part], map_bits: int, *, message: bool = False) -> str:
        """Write the function of a template, group or entry; return its name."""
        was_shifting, write = self.shifting, self.source.write
        # If the bit of a mantissa is omitted, the bits after it move up by one.
        self.shifting = any(
            isinstance(part, DecimalField) and part.optional and part.mantissa_bits
            for part in parts
        )
        known = self.source.constant(frozenset(part.name for part in parts))
        with self.source.function("o, v, d, c") as function:
            if parts:
                # All fields in template order, then names that are no fields.
                nothing = self.source.constant(dict.fromkeys(part.name for part in parts))
                write(f"z = {nothing} | v if v.__class__ is dict else named({nothing}, v)")
            else:
                write("z = named({}, v)")
            write(f"if len(z) != {len(parts)}:", f"    raise unknown_name(v, {known})")
            write("m = 0")
            write("w = o" if message or not map_bits else "w = bytearray()", "a = w.append")
            if self.shifting:
                write("k = 0")
            bit = map_bits - 1 - message
            names = [f"x{number}" for number in range(len(parts))]
            if parts:
                write(f"{', '.join(names)}, = z.values()")
            index = 0
            while index < len(parts):
                run = run_of(parts[index:], 1 if self.shifting else _MAX_RUN)
                last = index + max(1, len(run.parts))
                bit = self.run(run, parts[index:last], names[index:last], bit)
                index = last
            if message:
                write("return m")
            elif map_bits:
                write(f"o += presence_map(m, {map_bits})", "o += w")
        self.shifting = was_shifting
        return function

    def set_bit(self, bit: int) -> str:
        """Return a line that sets a bit of the presence map."""
        return f"m |= {1 << bit} << k" if self.shifting else f"m |= {1 << bit}"

    def run(self, run: OptionalRun, parts: Many[Part], names: list[str], bit: int) -> int:
        """Write parts that are usually all absent: test them together first."""
        write, several = self.source.write, len(parts) > 1
        if several:
            with self.source.under(f"if {' is '.join(names)} is None:"):
                pattern = int(run.pattern or "0", 2) << (bit - len(run.pattern) + 1)
                write(f"m |= {pattern}")
                if run.nulls:
                    write(f"w += {bytes([0x80]) * run.nulls!r}")
        with self.source.under("else:" if several else ""):
            for part, name in zip(parts, names, strict=True):
                write(f"x = {name}")
                bit = self.part(part, bit)
        return bit

    def part(self, part: Part, bit: int) -> int:
        """Write the encoding of one part, from x; return the next bit of the presence map."""
        write, name = self.source.write, part.name
        if isinstance(part, FastField):
            self.check(part.kind, part.optional, part.operation, name)
            self.field(part.kind, part.optional, part.operation, name, bit)
        elif isinstance(part, DecimalField):
            self.decimal(part, bit)
        elif isinstance(part, FastGroup):
            inner = self.segment(part.parts, part.map_bits)
            with self.source.under("if x is not None:" if part.optional else ""):
                if part.optional:
                    write(self.set_bit(bit))
                else:
                    write("if x is None:", f"    raise E({_missing(name)!r})")
                write("try:", f"    {inner}(w, x, d, c)")
                write("except (E, AttributeError) as error:")
                write(f"    raise entry_error({name!r}, x, error) from None")
        elif isinstance(part, FastSequence):
            self.sequence(part, bit)
        elif isinstance(part, Reference):
            write(f"c.nested(w, x, {name!r})")
        return bit - part.bits

    def sequence(self, part: FastSequence, bit: int) -> None:
        write, name = self.source.write, part.name
        inner = self.segment(part.parts, part.map_bits)
        with self.source.under("if x is not None:" if part.optional else ""):
            write(f"q = entries_of(x, {name!r})", "x = len(q)")
        if part.optional:
            write("else:", "    q = ()")
        self.check_constant(
            FieldType.UINT32, part.optional, part.length.operation, part.length.name
        )
        self.field(FieldType.UINT32, part.optional, part.length.operation, part.length.name, bit)
        with self.source.under("for i, x in enumerate(q):"):
            write("try:", f"    {inner}(w, x, d, c)", "except (E, AttributeError) as error:")
            write(f"    raise entry_error({name!r} + f'[{{i}}]', x, error) from None")

    # One field. Its value, in the form of previous values, is in x.

    def check(self, kind: FieldType, optional: bool, operation: Operation, name: str) -> None:
        """Write the check that x is a value of the field, or None if it is optional."""
        write = self.source.write
        if operation.operator is Operator.CONSTANT:
            self.check_constant(kind, optional, operation, name, shown=True)
            return
        with self.source.under("if x is not None:" if optional else ""):
            if kind.is_number:
                low, high = kind.minimum, kind.maximum
                write(f"if x.__class__ is not int or not {low} <= x <= {high}:")
                write(f"    x = number(x, {name!r}, {low}, {high})")
            elif kind is FieldType.ASCII:
                write("if x.__class__ is not str or not x.isascii() or x < '\\x01':")
                write(f"    x = ascii_text(x, {name!r})")
            else:
                write(f"x = raw_bytes(x, {name!r}, {kind is FieldType.UNICODE})")

    def check_constant(
        self,
        kind: FieldType,
        optional: bool,
        operation: Operation,
        name: str,
        *,
        shown: bool = False,
    ) -> None:
        """Write the check of a constant's value; a mandatory one may be omitted."""
        if operation.operator is not Operator.CONSTANT:
            return
        value = literal(kind, operation.initial)
        reason = f"{name}: always {value} here"
        test = "x is not None and " if optional or shown else ""
        self.source.write(f"if {test}x != {value}:", f"    raise E({reason!r})")

    def field(
        self, kind: FieldType, optional: bool, operation: Operation, name: str, bit: int
    ) -> None:
        write, under = self.source.write, self.source.under
        present = self.set_bit(bit) if operation.bits(optional) else ""
        initial = operation.initial
        match operation.operator:
            case Operator.NONE:
                self.put(kind, optional)
            case Operator.CONSTANT:
                if optional:
                    write("if x is not None:", f"    {present}")
            case Operator.DEFAULT:
                with under(f"if x != {initial!r}:" if initial is not None or optional else ""):
                    write(present)
                    self.put(kind, optional)
            case Operator.DELTA:
                self.delta(kind, optional, operation)
            case operator:
                self.recall(kind, operation.slot)
                if operator is Operator.INCREMENT:
                    write("if y is not U and y is not None:")
                    write(f"    y = y + 1 if y != {kind.maximum} else {kind.minimum}")
                # Without a previous or initial value, a field omitted from the stream is absent.
                write("if y is U:", f"    z = {initial!r}", "else:", "    z = y")
                with under("if x != z:"):
                    write(present)
                    if operator is Operator.TAIL:
                        self.put_tail(kind, optional, operation, name)
                    else:
                        self.put(kind, optional)
                self.keep(kind, optional, operation.slot)

    def put_tail(self, kind: FieldType, optional: bool, operation: Operation, name: str) -> None:
        start = operation.initial
        start = _EMPTY[kind] if start is None else start
        self.source.write("z = x")
        with self.source.under("if x is not None:" if optional else ""):
            self.source.write("if y is U or y is None:", f"    y = {start!r}")
            self.source.write(f"x = tail_of({name!r}, y, x)")
        self.put(kind, optional)
        self.source.write("x = z")

    def delta(self, kind: FieldType, optional: bool, operation: Operation) -> None:
        write = self.source.write
        start = operation.initial
        start = _EMPTY.get(kind, 0) if start is None else start
        if optional:
            write("if x is None:", "    a(128)")
        with self.source.under("else:" if optional else ""):
            self.recall(kind, operation.slot)
            write("if y is U:", f"    y = {start!r}")
            write("elif y is None:", "    raise E('a difference to an empty value (ERR D6)')")
            self.keep(kind, False, operation.slot)
            if kind.is_number:
                write("x -= y")
                self.put(FieldType.INT64, optional, sure=True)
            else:
                write("x, y = difference(y, x)")
                self.put(FieldType.INT32, optional, sure=True)
                write("x = y")
                self.put(kind, False)

    def recall(self, kind: FieldType, slot: int) -> None:
        self.source.write(f"y = d[{slot}]")
        if len(self.templates.slots[slot].kinds) > 1:
            known = self.source.constant(kind)
            self.source.write("if y.__class__ is tuple:", f"    y = same(y, {known})")

    def keep(self, kind: FieldType, optional: bool, slot: int) -> None:
        if len(self.templates.slots[slot].kinds) == 1:
            self.source.write(f"d[{slot}] = x")
            return
        empty = " if x is not None else None" if optional else ""
        self.source.write(f"d[{slot}] = ({self.source.constant(kind)}, x){empty}")

    def decimal(self, part: DecimalField, bit: int) -> None:
        write, name = self.source.write, part.name
        exponent, mantissa = part.exponent, part.mantissa
        constant = Operator.CONSTANT
        if part.joint and exponent.operator is constant:
            self.constant_decimal(part, bit)
            return
        if part.optional:
            write("if x is None:", "    e = None")
        with self.source.under("else:" if part.optional else ""):
            usual = exponent.initial
            if isinstance(usual, int) and usual <= 0:
                # Usually it has the exponent that the template expects.
                known = self.source.constant(_wire.decimal_of(1, usual))
                write(f"if x.__class__ is D and x.same_quantum({known}):")
                write(f"    e, y = {usual}, int(scaleb(x, {-usual}))")
                write(f"    x = y if -{_WIDE} <= y < {_WIDE} else scaled(x, {name!r})[1]")
                write("else:", f"    e, x = scaled(x, {name!r})")
            else:
                write(f"e, x = scaled(x, {name!r})")
            if not part.joint and exponent.operator is constant:
                wanted = int(exponent.initial or 0)
                write(f"if e != {wanted}:", f"    x = rescaled({name!r}, e, x, {wanted})")
                write(f"    e = {wanted}")
        if part.joint and exponent.operator is not Operator.DELTA:
            self.joint_decimal(part, bit)
            return
        write("f = x", "x = e")
        self.field(FieldType.INT32, part.optional, exponent, name, bit)
        bit -= exponent.bits(part.optional)
        if part.optional and part.mantissa_bits:
            write("if e is None:", "    k += 1")
        with self.source.under("if e is not None:" if part.optional else ""):
            write("x = f")
            self.check_constant(FieldType.INT64, False, mantissa, name)
            self.field(FieldType.INT64, False, mantissa, name, bit)

    def constant_decimal(self, part: DecimalField, bit: int) -> None:
        """Write a constant decimal: any other value is refused."""
        exponent, mantissa = part.exponent.initial, part.mantissa.initial
        value = _wire.decimal_of(int(mantissa or 0), int(exponent or 0))
        reason = f"{part.name}: always {value} here"
        with self.source.under("if x is not None:"):
            known = self.source.constant(value)
            self.source.write(f"if x != {known}:", f"    raise E({reason!r})")
            if part.optional:
                self.source.write(self.set_bit(bit))

    def joint_decimal(self, part: DecimalField, bit: int) -> None:
        """Write a decimal with one operator for both parts: default or copy."""
        write = self.source.write
        exponent, mantissa = part.exponent, part.mantissa
        present = self.set_bit(bit)
        if exponent.operator is Operator.DEFAULT:
            write(f"y, z = {exponent.initial!r}, {mantissa.initial!r}")
        else:
            write("f = x")
            self.recall(FieldType.INT64, mantissa.slot)
            write("z = y")
            self.recall(FieldType.INT32, exponent.slot)
            write("if y is U:", f"    y, z = {exponent.initial!r}, {mantissa.initial!r}")
        different = "e != y or (e is not None and x != z)"
        absent = "" if part.optional or exponent.initial is not None else " or e is None"
        with self.source.under(f"if {different}{absent}:"):
            write(present, "f = x", "x = e")
            self.put(FieldType.INT32, part.optional)
            with self.source.under("if e is not None:" if part.optional else ""):
                write("x = f")
                self.put(FieldType.INT64, False)
        if exponent.operator is Operator.COPY:
            with self.source.under("if e is not None:" if part.optional else ""):
                write("x = f")
                self.keep(FieldType.INT64, False, mantissa.slot)
            write("x = e")
            self.keep(FieldType.INT32, part.optional, exponent.slot)

    def put(self, kind: FieldType, optional: bool, *, sure: bool = False) -> None:
        """Write the output of x, or of a null if x is None; ``sure`` if x cannot be None."""
        write = self.source.write
        if optional and not sure:
            write("if x is None:", "    a(128)")
        with self.source.under("else:" if optional and not sure else ""):
            if kind in (FieldType.INT32, FieldType.INT64):
                if optional:
                    write(f"if 0 <= x < {_HALF - 1}:", "    w += S[x + 1]")
                    write("else:", "    w += nullable_signed(x)")
                else:
                    write(f"if {-_HALF} <= x < {_HALF}:", "    w += S[x]")
                    write("else:", "    w += signed(x)")
            elif kind is FieldType.ASCII:
                write("if len(x) == 1 and x != '\\0':", "    a(ord(x) | 128)")
                write("elif x > '\\0':", "    w += x.encode()", "    w[-1] |= 128")
                write("else:", f"    w += ascii(x, {optional})")
            else:
                number = "x" if kind.is_number else "len(x)"
                number += " + 1" if optional else ""
                write(f"if (y := {number}) < {_wire.TWO_BYTES}:", "    w += W[y]")
                write("else:", "    w += unsigned(y)")
                if not kind.is_number:
                    write("w += x")


def _missing(name: str) -> str:
    return f"{name}: mandatory, and no value was given"
