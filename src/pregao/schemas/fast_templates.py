"""Bundled FAST templates, derived from one file that defines each field and message once.

The head of the file describes its format. It is converted to the tree of a FAST template file, so
that all templates are checked and read by `pregao.fast.xml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from pregao.errors import SchemaError
from pregao.fast.model import (
    DecimalField,
    FastField,
    FastGroup,
    FastSequence,
    Part,
    Template,
    Templates,
)
from pregao.fast.xml import templates_from_tree
from pregao.xml_tree import Element

_FILE = "legacy/legacy.templates"
_MEMBER = re.compile(
    r"(?P<name>\w+)(?P<optional>\?)?"
    r"(?: (?P<type>u?[iI]nt(?:32|64)|string|unicode|byteVector))?"
    r"(?: (?P<operators>[a-z]+(?:=[^\s/]+)?(?:/[a-z]+(?:=\S+)?)?))?"
    r"(?: @ (?P<templates>[0-9. ]+))?"
)


@cache
def bundled_templates() -> Templates:
    """Return the bundled templates of UMDF FIX/FAST, named after their message and id."""
    return templates_from_tree(_source().tree())


@cache
def bundled_tags() -> dict[int, tuple[str, ...]]:
    """Return the names of tags; a tag that changed its meaning has two, the newer one first."""
    names: dict[int, tuple[str, ...]] = {}
    for each in _source().fields.values():
        names[each.tag] = (*names.get(each.tag, ()), each.name)
    return names


@cache
def bundled_entries() -> dict[int, str]:
    """Return the names of sequences by the tag of their length."""
    return {each.tag: each.entries for each in _source().fields.values() if each.entries}


def renamed(templates: Templates) -> Templates:
    """Return templates with fields and sequences renamed to the bundled names of their tags.

    So a newer template file of the exchange needs no new code, however it spells its names.
    """
    own = tuple(
        Template(each.name, each.id, _renamed(each.parts), each.reset)
        for each in templates.templates
    )
    return Templates(own, templates.slots, templates.file_name)


def _renamed(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return renamed parts; if two would have the same name, both keep their own."""
    names = [_known_name(part) for part in parts]
    return tuple(
        _with_name(part, name if names.count(name) == 1 else part.name)
        for part, name in zip(parts, names, strict=True)
    )


def _known_name(part: Part) -> str:
    if isinstance(part, FastSequence):
        return bundled_entries().get(part.length.id or 0, part.name)
    if isinstance(part, (FastField, DecimalField)):
        known = bundled_tags().get(part.id or 0, (part.name,))
        return part.name if part.name in known else known[0]
    return part.name


def _with_name(part: Part, name: str) -> Part:
    if isinstance(part, FastField):
        return FastField(name, part.id, part.kind, part.optional, part.operation)
    if isinstance(part, DecimalField):
        return DecimalField(name, part.id, part.optional, part.exponent, part.mantissa, part.joint)
    if isinstance(part, FastGroup):
        return FastGroup(name, part.id, part.optional, _renamed(part.parts))
    if isinstance(part, FastSequence):
        return FastSequence(name, part.id, part.optional, part.length, _renamed(part.parts))
    return part


@dataclass(frozen=True, slots=True)
class _FieldLine:
    """A field of the file: tag, name, type, and for a length the name of its entries."""

    tag: int
    name: str
    type: str
    entries: str


@dataclass(slots=True)
class _MemberLine:
    """A member of a message, and the members of its entries."""

    number: int
    known: _FieldLine
    type: str
    optional: bool
    operators: list[str]
    templates: frozenset[int]
    members: list[_MemberLine] = field(default_factory=list)


@dataclass(slots=True)
class _MessageLine:
    """A message, with the ids of its templates, oldest first."""

    number: int
    name: str
    ids: list[int]
    members: list[_MemberLine] = field(default_factory=list)


class _Source:
    """Parsed template file."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.fields: dict[str, _FieldLine] = {}
        self.messages: list[_MessageLine] = []
        self._open: list[list[_MemberLine]] = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                self._read(number, line)

    def _read(self, number: int, line: str) -> None:
        words = line.split()
        if line == "fields":
            return
        if words[0] == "message" and not line.startswith(" "):
            message = _MessageLine(number, words[1], [int(word) for word in words[2:]])
            self.messages.append(message)
            self._open = [message.members]
        elif not self.messages:
            if len(words) not in (3, 4) or not words[0].isdecimal():
                raise self._mistake(number, line, "a field needs a tag, a name and a type")
            tag, name, kind = words[:3]
            self.fields[name] = _FieldLine(int(tag), name, kind, "".join(words[3:]))
        else:
            self._read_member(number, line)

    def _read_member(self, number: int, line: str) -> None:
        depth = (len(line) - len(line.lstrip())) // 2
        match = _MEMBER.fullmatch(line.strip())
        if match is None or not 0 < depth <= len(self._open):
            raise self._mistake(number, line, "not a member of a message")
        known = self.fields.get(match["name"])
        if known is None:
            raise self._mistake(number, line, "no field of that name is defined")
        around = self._open[depth - 2][-1].templates if depth > 1 else None
        ids = self.messages[-1].ids
        templates = frozenset(ids) if around is None else around
        if match["templates"]:
            templates &= frozenset(self._chosen(number, match["templates"], ids))
        member = _MemberLine(
            number, known, match["type"] or known.type, bool(match["optional"]),
            (match["operators"] or "").split("/") if match["operators"] else [], templates,
        )  # fmt: skip
        del self._open[depth:]
        self._open[-1].append(member)
        self._open.append(member.members)

    def _chosen(self, number: int, text: str, ids: list[int]) -> Iterator[int]:
        for word in text.split():
            first, dots, last = word.partition("..")
            try:
                low = ids.index(int(first)) if first else 0
                high = ids.index(int(last)) if last else len(ids) - 1
            except ValueError:
                raise self._mistake(number, text, "not templates of this message") from None
            yield from ids[low : (high if dots else low) + 1]

    def _mistake(self, number: int, line: str, reason: str) -> SchemaError:
        return SchemaError(f"{self.file}:{number}: {line.strip()!r}: {reason}")

    def tree(self) -> Element:
        """Return the tree of the equivalent FAST template file."""
        root = self._element("templates", 1)
        for message in self.messages:
            for number in message.ids:
                name = f"{message.name}_{number}"
                attributes = {"name": name, "id": str(number), "dictionary": str(number)}
                template = self._element("template", message.number, **attributes)
                template.children = self._members(message.members, number)
                root.children.append(template)
        return root

    def _members(self, members: list[_MemberLine], template: int) -> list[Element]:
        return [self._member(each, template) for each in members if template in each.templates]

    def _member(self, member: _MemberLine, template: int) -> Element:
        line, tag, name = member.number, str(member.known.tag), member.known.name
        presence = {"presence": "optional"} if member.optional else {}
        if member.known.entries:
            length = self._element("length", line, name=name, id=tag)
            element = self._element("sequence", line, name=member.known.entries, **presence)
            element.children = [length, *self._members(member.members, template)]
            return element
        kind = "string" if member.type == "unicode" else member.type
        element = self._element(kind, line, name=name, id=tag, **presence)
        if member.type == "unicode":
            element.attributes["charset"] = "unicode"
        operators = [self._operator(line, each) for each in member.operators]
        if len(operators) == 2:
            for part, operator in zip(("exponent", "mantissa"), operators, strict=True):
                element.children.append(self._element(part, line))
                element.children[-1].children.append(operator)
        else:
            element.children += operators
        return element

    def _operator(self, line: int, text: str) -> Element:
        operator, given, value = text.partition("=")
        return self._element(operator, line, **({"value": value} if given else {}))

    def _element(self, tag: str, line: int, **attributes: str) -> Element:
        return Element(tag, None, attributes, self.file, line)


@cache
def _source() -> _Source:
    source = files("pregao.schemas").joinpath(_FILE).read_text("utf-8")
    return _Source(source, _FILE)
