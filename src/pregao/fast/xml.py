"""Parser of FAST template files; errors name the file, the line and the element."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pregao.errors import SchemaError
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
    Slot,
    Template,
    Templates,
    Value,
)
from pregao.xml_tree import Element, Leaves, parse_tree, read_tree, schema_error

NAMESPACE = "http://www.fixprotocol.org/ns/fast/td/1.1"
MAX_DEPTH = 64
"""Maximum nesting depth of groups and sequences, including references."""

_MAX_ID = (1 << 32) - 1
_NUMBERS = {kind.value: kind for kind in FieldType if kind.is_number}
_OPERATORS = {operator.value: operator for operator in Operator if operator is not Operator.NONE}
_IDENTIFIER = re.compile(r"[0-9]{1,20}")
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL = re.compile(r"([+-]?)([0-9]{0,40})(?:\.([0-9]{0,40}))?")
_FOR_NUMBERS = {Operator.INCREMENT: True, Operator.TAIL: False}
"""Operators for integers only (True), or for texts and bytes only (False)."""


def load_templates(path: str | Path) -> Templates:
    """Read a template file."""
    return templates_from_tree(read_tree(Path(path)))


def templates_from_bytes(source: bytes, file_name: str = "<templates>") -> Templates:
    """Read templates from memory."""
    return templates_from_tree(parse_tree(source, file_name))


def templates_from_tree(root: Element) -> Templates:
    """Build the model of templates from their XML tree."""
    return _Reader(root).read()


@dataclass(frozen=True, slots=True)
class _Context:
    """Context of an element: dictionary, namespace of names, template and type."""

    dictionary: str = "global"
    namespace: str = ""
    template: str = ""
    type: str = ""

    def inside(self, element: Element) -> _Context:
        """Return the context inside an element."""
        dictionary, namespace = element.get("dictionary"), element.get("ns")
        kind = next((child for child in _children(element) if child.tag == "typeRef"), None)
        context = self
        if dictionary is not None:
            context = replace(context, dictionary=dictionary)
        if namespace is not None:
            context = replace(context, namespace=namespace)
        if kind is not None:
            context = replace(context, type=f"{kind.get('ns') or ''} {_required(kind, 'name')}")
        return context

    @property
    def dictionary_name(self) -> str:
        """Unique name of the dictionary that the context refers to."""
        if self.dictionary == "template":
            return f"template {self.template}"
        if self.dictionary == "type":
            return f"type {self.type}"
        return "global" if self.dictionary == "global" else f"named {self.dictionary}"


def _children(element: Element) -> Iterator[Element]:
    """Return the children in FAST's namespace; those of other namespaces are ignored."""
    return (child for child in element.children if child.namespace in (None, NAMESPACE))


def _required(element: Element, name: str) -> str:
    value = element.get(name)
    if not value:
        raise schema_error(element, f"has no {name!r} (ERR S1)")
    return value


def _identifier(element: Element) -> int | None:
    text = element.get("id")
    if text is None:
        return None
    if not _IDENTIFIER.fullmatch(text.strip()) or int(text) > _MAX_ID:
        raise schema_error(element, f"the id {text!r} is not a number up to {_MAX_ID} (ERR S1)")
    return int(text)


def _optional(element: Element) -> bool:
    presence = element.get("presence") or "mandatory"
    if presence not in ("mandatory", "optional"):
        raise schema_error(element, f"presence {presence!r} is not known (ERR S1)")
    return presence == "optional"


def _resets(element: Element) -> bool:
    """Whether the template resets all previous values; the attribute may be namespaced."""
    for name, text in element.attributes.items():
        if name == "reset" or name.endswith("}reset"):
            if text not in ("yes", "no"):
                raise schema_error(element, f"reset {text!r} is neither yes nor no (ERR S1)")
            return text == "yes"
    return False


class _Reader:
    """State of reading one file: the elements of templates, and the allocated slots."""

    def __init__(self, root: Element) -> None:
        self.root = root
        self.elements: dict[tuple[str, str], tuple[Element, _Context]] = {}
        self.slots: dict[tuple[str, str], int] = {}
        self.kinds: list[set[FieldType]] = []
        self.open: list[Element] = []
        self.leaves = Leaves()
        self.depth = 0

    def read(self) -> Templates:
        context = _Context()
        elements = [self.root]
        if self.root.tag == "templates":
            context = context.inside(self.root)
            elements = list(_children(self.root))
        for element in elements:
            if element.tag != "template" or element.namespace not in (None, NAMESPACE):
                raise schema_error(
                    element, "a FAST template file must have <template> here (ERR S1)"
                )
            name, space = _required(element, "name"), self._template_space(element)
            if (name, space) in self.elements:
                raise schema_error(element, "another template has this name (ERR S1)")
            inner = replace(context.inside(element), template=f"{space} {name}")
            self.elements[name, space] = (element, inner)
        templates: list[Template] = []
        ids: set[int] = set()
        for (name, _space), (element, inner) in self.elements.items():
            identifier = _identifier(element)
            if identifier in ids:
                raise schema_error(element, f"another template has the id {identifier} (ERR S1)")
            if identifier is not None:
                ids.add(identifier)
            self.open = [element]
            parts = self._parts(element, inner)
            templates.append(Template(name, identifier, parts, _resets(element)))
        slots = tuple(
            Slot(dictionary, key, frozenset(kinds))
            for (dictionary, key), kinds in zip(self.slots, self.kinds, strict=True)
        )
        return Templates(tuple(templates), slots, self.root.file)

    def _template_space(self, element: Element) -> str:
        return element.get("templateNs") or self.root.get("templateNs") or ""

    def _parts(self, element: Element, context: _Context) -> tuple[Part, ...]:
        parts: list[Part] = []
        names: set[str] = set()
        references = 0
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise schema_error(element, f"nested deeper than {MAX_DEPTH} levels")
        for child in _children(element):
            # References count too, even to templates without fields.
            self.leaves.add(child)
            for part in self._part(child, element, context):
                if isinstance(part, Reference):
                    references += 1
                    name = f"{part.name}{references}" if references > 1 else part.name
                    parts.append(Reference(name))
                else:
                    parts.append(part)
                name = parts[-1].name
                if name in names:
                    raise schema_error(
                        child, f"the name {name!r} is used twice in this group (ERR S1)"
                    )
                names.add(name)
        self.depth -= 1
        return tuple(parts)

    def _part(self, child: Element, parent: Element, context: _Context) -> Iterator[Part]:
        match child.tag:
            case "typeRef":
                return
            case "length" if parent.tag == "sequence":
                return
            case "templateRef":
                yield from self._reference(child, context)
            case "decimal":
                yield self._decimal(child, context)
            case "group":
                inner = context.inside(child)
                name = _required(child, "name")
                parts = self._parts(child, inner)
                yield FastGroup(name, _identifier(child), _optional(child), parts)
            case "sequence":
                yield self._sequence(child, context)
            case _:
                yield self._field(child, context)

    def _reference(self, element: Element, context: _Context) -> Iterator[Part]:
        """Yield the fields of the named template; or a `Reference` if no name is given."""
        name = element.get("name")
        if name is None:
            yield Reference("templateRef")
            return
        space = element.get("templateNs") or self.root.get("templateNs") or ""
        if (name, space) not in self.elements:
            raise schema_error(element, "no template of that name is in this file (ERR D8)")
        target, inner = self.elements[name, space]
        if target in self.open:
            raise schema_error(element, "the template refers to itself (ERR S1)")
        self.open.append(target)
        # The type of the context applies to the template too, unless it names its own.
        yield from self._parts(target, replace(inner, type=inner.type or context.type))
        self.open.pop()

    def _field(self, element: Element, context: _Context) -> FastField:
        name = _required(element, "name")
        kind = _NUMBERS.get(element.tag)
        if element.tag == "string":
            charset = element.get("charset") or "ascii"
            if charset not in ("ascii", "unicode"):
                raise schema_error(element, f"charset {charset!r} is not known (ERR S1)")
            kind = FieldType.UNICODE if charset == "unicode" else FieldType.ASCII
        elif element.tag == "byteVector":
            kind = FieldType.BYTES
        if kind is None:
            raise schema_error(element, "FAST templates allow no such element here (ERR S1)")
        optional = _optional(element)
        operation = self._operation(element, kind, optional, context.inside(element), name)
        return FastField(name, _identifier(element), kind, optional, operation)

    def _sequence(self, element: Element, context: _Context) -> FastSequence:
        inner = context.inside(element)
        name, optional = _required(element, "name"), _optional(element)
        lengths = [child for child in _children(element) if child.tag == "length"]
        if len(lengths) > 1:
            raise schema_error(lengths[1], "a sequence must have only one length (ERR S1)")
        length = FastField(f"{name} length", None, FieldType.UINT32, optional)
        if lengths:
            own = lengths[0]
            length_name = own.get("name") or length.name
            operation = self._operation(
                own, FieldType.UINT32, optional, inner.inside(own), length_name
            )
            length = FastField(length_name, _identifier(own), FieldType.UINT32, optional, operation)
        parts = self._parts(element, inner)
        if not any(_takes_a_byte(part) for part in parts):
            raise schema_error(element, "its entries have no bytes, so their number is unbounded")
        return FastSequence(name, _identifier(element), optional, length, parts)

    def _decimal(self, element: Element, context: _Context) -> DecimalField:
        name, optional = _required(element, "name"), _optional(element)
        inner = context.inside(element)
        children = {child.tag: child for child in _children(element)}
        exponent = mantissa = Operation()
        if "exponent" in children or "mantissa" in children:
            for child in _children(element):
                if child.tag not in ("exponent", "mantissa"):
                    reason = "not allowed next to an exponent or mantissa with its own operator"
                    raise schema_error(child, f"{reason} (ERR S1)")
            if "exponent" in children:
                own = children["exponent"]
                key = f"{name} exponent"
                exponent = self._operation(own, FieldType.INT32, optional, inner.inside(own), key)
                if exponent.initial is not None and abs(int(exponent.initial)) > MAX_EXPONENT:
                    raise schema_error(
                        own, f"the exponent must be -{MAX_EXPONENT} to {MAX_EXPONENT} (ERR R1)"
                    )
            if "mantissa" in children:
                own = children["mantissa"]
                key = f"{name} mantissa"
                mantissa = self._operation(own, FieldType.INT64, False, inner.inside(own), key)
            return DecimalField(name, _identifier(element), optional, exponent, mantissa)
        found = self._operator(element)
        if found is None:
            return DecimalField(name, _identifier(element), optional)
        child, operator = found
        if operator in _FOR_NUMBERS:
            raise schema_error(child, "not an operator for a decimal (ERR S2)")
        initial = _scaled(child)
        self._check_initial(child, operator, initial is not None, optional)
        slots = (-1, -1)
        if operator.remembers:
            # Both parts of a value are always kept together.
            slots = (
                self._slot(child, inner, name, FieldType.INT32, " decimal exponent"),
                self._slot(child, inner, name, FieldType.INT64, " decimal mantissa"),
            )
        exponent = Operation(operator, initial and initial[0], slots[0])
        mantissa = Operation(operator, initial and initial[1], slots[1])
        return DecimalField(name, _identifier(element), optional, exponent, mantissa, joint=True)

    def _operator(self, element: Element) -> tuple[Element, Operator] | None:
        """Return the operator of a field, or None."""
        found: tuple[Element, Operator] | None = None
        for child in _children(element):
            if child.tag == "length" and element.tag in ("string", "byteVector"):
                continue  # only names the length of the bytes
            if child.tag not in _OPERATORS:
                raise schema_error(child, "not an operator of FAST (ERR S1)")
            if found is not None:
                raise schema_error(child, "a field must have only one operator (ERR S1)")
            found = child, _OPERATORS[child.tag]
        return found

    def _operation(
        self, element: Element, kind: FieldType, optional: bool, context: _Context, name: str
    ) -> Operation:
        found = self._operator(element)
        if found is None:
            return Operation()
        child, operator = found
        if _FOR_NUMBERS.get(operator, kind.is_number) is not kind.is_number:
            raise schema_error(child, f"not an operator for {kind.value} (ERR S2)")
        initial = _initial(child, kind)
        self._check_initial(child, operator, initial is not None, optional)
        slot = self._slot(child, context, name, kind) if operator.remembers else -1
        return Operation(operator, initial, slot)

    def _check_initial(
        self, element: Element, operator: Operator, given: bool, optional: bool
    ) -> None:
        if operator is Operator.CONSTANT and not given:
            raise schema_error(element, "a constant must have a value (ERR S4)")
        if operator is Operator.DEFAULT and not given and not optional:
            raise schema_error(
                element, "the default of a mandatory field must have a value (ERR S5)"
            )

    def _slot(
        self, element: Element, context: _Context, name: str, kind: FieldType, part: str = ""
    ) -> int:
        """Return the slot of a previous value, by dictionary and key."""
        inner = context.inside(element)
        key = element.get("key")
        space = inner.namespace if key is None else element.get("keyNs") or inner.namespace
        slot_key = (inner.dictionary_name, f"{space} {name if key is None else key}{part}")
        if slot_key not in self.slots:
            self.slots[slot_key] = len(self.slots)
            self.kinds.append(set())
        slot = self.slots[slot_key]
        self.kinds[slot].add(kind)
        return slot


def _takes_a_byte(part: Part) -> bool:
    """Whether a part uses at least a bit of the presence map or a byte after it."""
    if isinstance(part, FastField):
        return part.operation.operator is not Operator.CONSTANT or part.optional
    if isinstance(part, DecimalField):
        constant = Operator.CONSTANT
        both = part.exponent.operator is constant and part.mantissa.operator is constant
        return part.optional or not both
    if isinstance(part, FastGroup):
        return part.optional or any(_takes_a_byte(inner) for inner in part.parts)
    if isinstance(part, FastSequence):
        return _takes_a_byte(part.length)
    return True


def _wrong(element: Element, text: str, what: str) -> SchemaError:
    return schema_error(element, f"the value {text!r} is not {what} (ERR S3)")


def _initial(element: Element, kind: FieldType) -> Value | None:
    """Return the initial value of an operator, in its field's type."""
    text = element.get("value")
    if text is None:
        return None
    if kind.is_number:
        stripped = text.strip()
        if not _WHOLE.fullmatch(stripped) or not kind.minimum <= int(stripped) <= kind.maximum:
            raise _wrong(element, text, f"an {kind.value}" if kind.signed else f"a {kind.value}")
        return int(stripped)
    if kind is FieldType.UNICODE:
        return text.encode()
    if kind is FieldType.BYTES:
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise _wrong(element, text, "bytes in hexadecimal") from None
    if not text.isascii() or (text[:1] == "\0" and len(text) > 1):
        raise _wrong(element, text, "an ASCII string")
    return text


def _scaled(element: Element) -> tuple[int, int] | None:
    """Return exponent and mantissa of a decimal's initial value, without trailing zeros."""
    text = element.get("value")
    if text is None:
        return None
    match = _DECIMAL.fullmatch(text.strip())
    if match is None or not (match[2] or match[3]):
        raise _wrong(element, text, "a decimal")
    fraction = match[3] or ""
    mantissa, exponent = int(match[2] + fraction), -len(fraction)
    while mantissa and mantissa % 10 == 0:
        mantissa, exponent = mantissa // 10, exponent + 1
    exponent = exponent if mantissa else 0
    mantissa = -mantissa if match[1] == "-" else mantissa
    low, high = FieldType.INT64.minimum, FieldType.INT64.maximum
    if not low <= mantissa <= high or abs(exponent) > MAX_EXPONENT:
        raise _wrong(element, text, "a decimal that fits 64 bits")
    return exponent, mantissa
