"""Parser of SBE XML schemas; errors name the file, the line and the element."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from pregao.errors import SchemaError
from pregao.sbe._types import MAX_BLOCK, TypeReader
from pregao.sbe.model import (
    Block,
    Composite,
    Constant,
    Data,
    Dimension,
    EncodedType,
    EnumType,
    Field,
    Group,
    Header,
    LengthField,
    MessageTemplate,
    Nature,
    Presence,
    Schema,
    Type,
)
from pregao.xml_tree import Element, parse_tree, read_tree, schema_error

_XINCLUDE = "http://www.w3.org/2001/XInclude"
_MAX_INCLUDES = 16


def load_schema(path: str | Path) -> Schema:
    """Read a schema file, with the files it includes from its own folder."""
    return schema_from_tree(schema_tree(path))


def schema_tree(path: str | Path) -> Element:
    """Read the XML tree of a schema file, with the files it includes."""
    path = Path(path)
    return _included(read_tree(path), path, [path])


def schema_from_bytes(source: bytes, file_name: str = "<schema>") -> Schema:
    """Read a schema from memory."""
    return schema_from_tree(parse_tree(source, file_name))


def schema_from_tree(root: Element) -> Schema:
    """Build the model of a schema from its XML tree."""
    return _SchemaReader().read(root)


def _included(root: Element, path: Path, included: list[Path]) -> Element:
    """Replace includes by the elements of the included files (same folder, by plain name)."""
    children: list[Element] = []
    for child in root.children:
        if child.tag != "include" or child.namespace != _XINCLUDE:
            children.append(_included(child, path, included))
            continue
        name = child.get("href") or ""
        target = path.parent / name
        if not name or "/" in name or "\\" in name or PurePosixPath(name).name != name:
            raise schema_error(child, f"href must be a file of the same folder, was {name!r}")
        if target in included or len(included) > _MAX_INCLUDES:
            raise schema_error(child, f"includes {name!r} again")
        included.append(target)
        other = _included(read_tree(target), target, included)
        children.extend(other.children if other.tag == "messageSchema" else [other])
    root.children = children
    return root


class _SchemaReader(TypeReader):
    """Reader of the root and the messages; its base class reads the types."""

    def read(self, root: Element) -> Schema:
        if root.tag != "messageSchema":
            raise schema_error(root, "the root element of an SBE schema must be <messageSchema>")
        order = (root.get("byteOrder") or "littleEndian").lower()
        if order not in ("littleendian", "bigendian"):
            raise schema_error(root, f"unknown byteOrder {root.get('byteOrder')!r}")
        self.read_types([child for child in root.children if child.tag == "types"])
        header = self._header(root, root.get("headerType") or "messageHeader")
        messages: dict[int, MessageTemplate] = {}
        names: set[str] = set()
        for element in root.children:
            if element.tag == "message":
                message = self._message(element)
                if message.id in messages:
                    raise schema_error(element, f"another message has the id {message.id}")
                if message.name in names:
                    raise schema_error(element, "another message has this name")
                messages[message.id] = message
                names.add(message.name)
            elif element.tag != "types":
                raise schema_error(element, "not allowed in an SBE schema")
        return Schema(
            package=root.get("package") or "",
            id=self.number(root, "id", 0, 0xFFFF),
            version=self.number(root, "version", 0, 0xFFFF, default=0),
            semantic_version=root.get("semanticVersion") or "",
            big_endian=order == "bigendian",
            header=header,
            types=dict(self.types),
            messages=tuple(messages.values()),
            description=root.get("description") or "",
            file_name=root.file,
        )

    def _header(self, root: Element, name: str) -> Header:
        found = self.types.get(name)
        if not isinstance(found, Composite):
            raise schema_error(root, f"the header type {name!r} is not a composite of this schema")
        return Header(
            found,
            self._length_field(root, found, "blockLength"),
            self._length_field(root, found, "templateId"),
            self._length_field(root, found, "schemaId"),
            self._length_field(root, found, "version"),
        )

    def _length_field(self, element: Element, composite: Composite, name: str) -> LengthField:
        """Return an unsigned number of a header composite."""
        member = composite.member(name)
        if member is None:
            raise schema_error(element, f"the composite {composite.name!r} has no {name!r}")
        found = member.type
        if (
            not isinstance(found, EncodedType)
            or found.presence is Presence.CONSTANT
            or found.length != 1
            or found.primitive.nature is not Nature.UNSIGNED
        ):
            raise schema_error(element, f"{composite.name}.{name} is not an unsigned number")
        maximum = found.primitive.maximum if found.maximum is None else int(found.maximum)
        return LengthField(found.primitive, member.offset, maximum)

    def _message(self, element: Element) -> MessageTemplate:
        fields, groups, data, needed = self._block(element)
        return MessageTemplate(
            name=self.name(element),
            id=self.number(element, "id", 0, 0xFFFF),
            block_length=self._block_length(element, needed),
            fields=fields,
            groups=groups,
            data=data,
            since_version=self.since(element),
            deprecated=self.deprecated(element),
            semantic_type=element.get("semanticType"),
            description=element.get("description") or "",
        )

    def _block_length(self, element: Element, needed: int) -> int:
        length = self.number(element, "blockLength", 0, MAX_BLOCK, default=needed)
        if length < needed:
            raise schema_error(element, f"blockLength {length} is less than its fields' {needed}")
        return length

    def _block(
        self, element: Element
    ) -> tuple[tuple[Field, ...], tuple[Group, ...], tuple[Data, ...], int]:
        """Return the parts of a message or group, and the size of its fields in bytes."""
        fields: list[Field] = []
        groups: list[Group] = []
        data: list[Data] = []
        names: set[str] = set()
        position = 0
        for child in element.children:
            part: Field | Group | Data
            if child.tag == "field":
                if groups or data:
                    raise schema_error(child, "a field must be before all groups and data")
                part = self._field(child, position)
                fields.append(part)
                self.count(child, part.type)
                if part.presence is not Presence.CONSTANT:
                    position = part.offset + part.size
                if position > MAX_BLOCK:
                    raise schema_error(child, f"ends after {MAX_BLOCK:,} bytes")
            elif child.tag == "group":
                if data:
                    raise schema_error(child, "a group must be before all data")
                part = self._group(child)
                self.count(child, part.dimension.type)
                groups.append(part)
            elif child.tag == "data":
                part = self._data(child)
                self.count(child, part.type)
                data.append(part)
            else:
                raise schema_error(child, "not allowed in an SBE message")
            if part.name in names:
                raise schema_error(child, "another part of this block has this name")
            names.add(part.name)
        return tuple(fields), tuple(groups), tuple(data), position

    def _field(self, element: Element, position: int) -> Field:
        kind = self.type_named(element, self.text(element, "type"))
        presence = self.presence(element)
        constant: Constant | None = None
        if isinstance(kind, EncodedType) and kind.presence is Presence.CONSTANT:
            presence = Presence.CONSTANT
            constant = kind.constant
        if presence is Presence.CONSTANT:
            constant = self._constant(element, kind, constant)
        offset = self.number(element, "offset", 0, MAX_BLOCK, default=position)
        if presence is not Presence.CONSTANT and offset < position:
            raise schema_error(element, f"offset {offset} overlaps the field before it")
        return Field(
            name=self.name(element),
            id=self.number(element, "id", 0, 0xFFFF_FFFF),
            type=kind,
            offset=position if presence is Presence.CONSTANT else offset,
            presence=presence,
            constant=constant,
            since_version=self.since(element),
            deprecated=self.deprecated(element),
            semantic_type=element.get("semanticType"),
            description=element.get("description") or "",
        )

    def _constant(self, element: Element, kind: Type, inherited: Constant | None) -> Constant:
        """Return the value of a constant field, from its valueRef, its type or its text."""
        reference = element.get("valueRef")
        if reference is not None:
            owner, member = self.value_ref(element, reference)
            return member.name if owner is kind else member.value
        if inherited is not None:
            return inherited
        if element.text and isinstance(kind, EncodedType):
            return self.constant_text(element, kind.primitive, element.text)
        if element.text and isinstance(kind, EnumType) and kind.member(element.text):
            return element.text
        raise schema_error(element, "a constant field without a value")

    def _group(self, element: Element) -> Group:
        name = element.get("dimensionType") or "groupSizeEncoding"
        found = self.types.get(name)
        if not isinstance(found, Composite):
            raise schema_error(element, f"the dimension type {name!r} is not a composite")
        dimension = Dimension(
            found,
            self._length_field(element, found, "blockLength"),
            self._length_field(element, found, "numInGroup"),
        )
        fields, groups, data, needed = self._block(element)
        return Group(
            name=self.name(element),
            id=self.number(element, "id", 0, 0xFFFF_FFFF),
            dimension=dimension,
            block_length=self._block_length(element, needed),
            fields=fields,
            groups=groups,
            data=data,
            since_version=self.since(element),
            deprecated=self.deprecated(element),
            description=element.get("description") or "",
        )

    def _data(self, element: Element) -> Data:
        name = self.text(element, "type")
        found = self.types.get(name)
        if not isinstance(found, Composite):
            raise schema_error(element, f"the data type {name!r} is not a composite")
        var_data = found.member("varData")
        if var_data is None or not isinstance(var_data.type, EncodedType):
            raise schema_error(element, f"the composite {name!r} has no 'varData'")
        return Data(
            name=self.name(element),
            id=self.number(element, "id", 0, 0xFFFF_FFFF),
            type=found,
            length=self._length_field(element, found, "length"),
            header_size=var_data.offset,
            character_encoding=var_data.type.character_encoding
            or ("ASCII" if var_data.type.primitive.nature is Nature.CHAR else None),
            since_version=self.since(element),
            deprecated=self.deprecated(element),
            semantic_type=element.get("semanticType"),
            description=element.get("description") or "",
        )


def template(schema: Schema, name_or_id: str | int) -> MessageTemplate:
    """Return a message of a schema by id, name, or name without its trailing id."""
    found: Block | None
    if isinstance(name_or_id, int) or name_or_id.isdigit():
        found = schema.by_id.get(int(name_or_id))
    else:
        wanted = name_or_id.lower()
        found = next(
            (
                message
                for message in schema.messages
                if wanted in (message.name.lower(), message.name.lower().rpartition("_")[0])
            ),
            None,
        )
    if found is None:
        raise SchemaError(
            f"version {schema.version} of {schema.package or 'the schema'} has no message "
            f"{name_or_id!r}"
        )
    return found
