"""Write the members of the exchange's enumerations from the schemas, keeping their docstrings.

Run it after a change to the schema files: python packaging/wire_enums.py
"""

import ast
import re
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path

import pregao
from pregao.sbe.model import EnumType, SetType, snake_case
from pregao.schemas.bundle import PROTOCOLS
from pregao.schemas.registry import Registry

MODEL = Path(pregao.__file__).parent / "exchange/engine/model"
MODULES = ("enums", "instruments")
TYPES = {
    "OrderSide": ("umdf", "Side", ""),
    "TradingStatus": ("umdf", "SecurityTradingStatus", ""),
    "TradingSession": ("umdf", "TradingSessionID", "_TRADING_SESSION"),
    "ImbalanceCondition": ("umdf", "ImbalanceCondition", "IMBALANCE_"),
    "PriceBandMidpoint": ("umdf", "PriceBandMidpointPriceType", ""),
}
"""Protocol and type of enumerations with a name of ours, and the part of its names left out."""
ABSENT = {"ImbalanceCondition": "BALANCED", "RoutingInstruction": "NONE"}
"""Names of ours for a field without a value, which is 0."""
OURS = {"ProtectionScope"}
"""Enumerations without a type in the schemas."""


@cache
def types():
    """The members of the schemas' types, by protocol and type, over all versions."""
    found = {}
    for protocol, schema_id in PROTOCOLS.items():
        registry = Registry.bundled()
        for version in registry.versions(schema_id):
            for name, kind in registry.get(schema_id, version).types.items():
                members = found.setdefault((protocol, name), {})
                if isinstance(kind, EnumType):
                    members |= {each.name: each.value for each in kind.members}
                elif isinstance(kind, SetType):
                    members |= {each.name: 1 << each.bit for each in kind.choices}
    return found


def members_of(cls: type[Enum]) -> dict[str, object]:
    """The members that an enumeration has according to the schemas; numbers in order."""
    name = cls.__name__
    of_feed = ("umdf", name) if types().get(("umdf", name)) else ("entrypoint", name)
    protocol, kind, without = TYPES.get(name, (*of_feed, ""))
    found = {ABSENT[name]: 0} if name in ABSENT else {}
    for own, value in types()[protocol, kind].items():
        label = own if own.isupper() else snake_case(own).upper()
        text = chr(value) if isinstance(value, int) and issubclass(cls, str) else value
        if protocol == "entrypoint" and issubclass(cls, int) and kind.startswith("PosMaint"):
            text = int(chr(value))  # digits, which the engine counts with
        found[label.replace(without, "")] = text
    if issubclass(cls, int):
        found = dict(sorted(found.items(), key=lambda member: member[1]))
    return found


def rendered(module: str) -> str:
    """A module with the members of its enumerations as the schemas have them."""
    source = (MODEL / f"{module}.py").read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    loaded = import_module(f"pregao.exchange.engine.model.{module}")
    for node in reversed(ast.parse(source).body):
        cls = getattr(loaded, node.name, None) if isinstance(node, ast.ClassDef) else None
        if not (isinstance(cls, type) and issubclass(cls, Enum)) or cls.__name__ in OURS:
            continue
        notes, last = {}, None
        for statement in node.body[1:]:
            if isinstance(statement, ast.Assign):
                last = statement.targets[0].id
            else:
                text = lines[statement.lineno - 1 : statement.end_lineno]
                notes[last] = "".join(text)
        body = "".join(
            f"    {name} = {shown(cls, value)}\n{notes.get(name, '')}"
            for name, value in members_of(cls).items()
        )
        lines[node.body[1].lineno - 1 : node.end_lineno] = [body]
    return "".join(lines)


def shown(cls: type[Enum], value: object) -> str:
    """A value as Python: bits of a set as shifts, text in double quotes."""
    if isinstance(value, str):
        return f'"{value}"'
    is_set = re.search(r"Condition$", cls.__name__) and value
    return f"1 << {value.bit_length() - 1}" if is_set else str(value)


if __name__ == "__main__":
    for each in MODULES:
        (MODEL / f"{each}.py").write_text(rendered(each), encoding="utf-8")
