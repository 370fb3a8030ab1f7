"""Template ids and flag bits come from the schemas, and are stated nowhere else."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from pregao.errors import SchemaError
from pregao.sbe.model import EnumType, SetType
from pregao.schemas.bundle import (
    bundled,
    bundled_message_ids,
    bundled_values,
    bundled_versions,
)
from pregao.umdf import templates

VERSIONS = [version.number for version in bundled_versions("umdf")]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_template_of_every_version_is_known_by_its_name(version):
    for message in bundled("umdf", version).messages:
        assert templates.template_id(message.name) == message.id


def test_an_unknown_name_is_an_error():
    with pytest.raises(SchemaError, match="has a message Order_MBO_99"):
        templates.template_id("Order_MBO_99")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_bit_for_implied_orders_follows_the_version(version):
    """000 §18: the bit is LastImpliedMsg up to version 9."""
    found = bundled("umdf", version).types["MatchEventIndicator"]
    assert isinstance(found, SetType)
    expected = sum(1 << choice.bit for choice in found.choices if choice.name == "Implied")
    assert templates.implied_mask(version) == expected
    assert templates.implied_masks(np.array([version])).tolist() == [expected]


def test_flags_mean_the_same_in_every_version():
    for version in VERSIONS:
        types = bundled("umdf", version).types
        flags = {choice.name: 1 << choice.bit for choice in types["MatchEventIndicator"].choices}
        assert flags["EndOfEvent"] == templates.END_OF_EVENT
        assert flags["RecoveryMsg"] == templates.RECOVERY
        conditions = {choice.name: 1 << choice.bit for choice in types["TradeCondition"].choices}
        assert conditions["OutOfSequence"] == templates.OUT_OF_SEQUENCE


ENUMERATIONS = sorted(
    {
        kind.name
        for version in VERSIONS
        for kind in bundled("umdf", version).types.values()
        if isinstance(kind, EnumType)
    }
)


@pytest.mark.parametrize("enumeration", ENUMERATIONS)
def test_values_are_known_by_their_names_in_every_version(enumeration):
    expected, newest = {}, {}
    for version in VERSIONS:
        kind = bundled("umdf", version).types.get(enumeration)
        for member in kind.members if isinstance(kind, EnumType) else ():
            assert expected.setdefault(member.name, member.value) == member.value
            newest[member.value] = member.name
    assert bundled_values("umdf", enumeration) == expected
    current = {name: newest[value] for name, value in expected.items()}
    assert templates.current_names(enumeration) == current
    for value in newest:
        names = {name for name, number in expected.items() if number == value}
        assert templates.value_names(enumeration, value) == names
    chosen = dict.fromkeys(list(newest)[:2], "chosen")
    rule = {name: "chosen" for name, value in expected.items() if value in chosen}
    assert templates.by_name(enumeration, chosen) == rule


def test_a_renamed_value_has_both_names():
    assert templates.value_names("TrdSubType", 105) == {"RFQ_TRADE", "RF_TRADE"}
    assert templates.current_names("TrdSubType")["RFQ_TRADE"] == "RF_TRADE"
    assert templates.value_names("TradingSessionSubID", 18) == {"FORBIDDEN", "PRE_CLOSE"}
    assert templates.value_names("TradingSessionSubID", 21) == {"RESERVED", "PRE_OPEN"}
    assert templates.value_names("OptPayoutType", 2) == {"CAPPED", "VANILLA_CASH_SETTLEMENT"}


def test_a_value_or_enumeration_that_no_version_has_is_an_error():
    with pytest.raises(SchemaError, match="no bundled UMDF schema has TrdSubType 99"):
        templates.by_name("TrdSubType", {99: 1, 101: 2})
    with pytest.raises(SchemaError, match="has an enumeration TrdSubTypes"):
        templates.value_names("TrdSubTypes", 1)
    with pytest.raises(SchemaError, match=r"CANCEL_ON_MIDPOINT_BROKER_ONLY_REMOVAL .*several"):
        bundled_values("entrypoint", "ExecRestatementReason")


BY_NUMBER = ("umdf", "feed", "live", "api", "exchange/publisher")
"""Packages that process messages, and so must not compare the name of any value."""


def literals(package):
    for path in sorted((SOURCES / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.relative_to(SOURCES).as_posix(), node.lineno, node.value


def test_rules_compare_numbers_not_names():
    """A version may rename a value, and a comparison with its name would fail silently."""
    values = {each: bundled_values("umdf", each) for each in ENUMERATIONS if each != "MessageType"}
    names = {name for known in values.values() for name in known}
    assert [each for package in BY_NUMBER for each in literals(package) if each[2] in names] == []
    renamed = {
        name
        for known in values.values()
        for name, value in known.items()
        if list(known.values()).count(value) > 1
    }
    assert renamed == {
        *("RFQ_TRADE", "RF_TRADE", "CAPPED", "VANILLA_CASH_SETTLEMENT"),
        *("FORBIDDEN", "PRE_CLOSE", "RESERVED", "PRE_OPEN"),
    }
    found = [each for package in ("lake", "plot", "web") for each in literals(package)]
    assert [each for each in found if each[2] in renamed] == []


SOURCES = Path(templates.__file__).parents[1]
ELSEWHERE = ("umdf/templates.py", "sbe/", "fast/", "capture/", "schemas/")
"""What states them, what knows nothing of them, and what still has to take them from there."""
IDS = bundled_message_ids("umdf")


def stated():
    """By the names that a constant may have: the numbers that are not to be written down."""
    found = {}
    for name, number in IDS.items():
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        for known in (snake, re.sub(r"_\d+$", "", snake), re.sub(r"(_MBO)?_\d+$", "", snake)):
            found.setdefault(known, set()).add(number)
    for name, value in vars(templates).items():
        if name.isupper() and isinstance(value, int):
            found.setdefault(name, set()).add(value)
    for name in ("MatchEventIndicator", "TradeCondition", "ImbalanceCondition"):
        for choice in bundled("umdf").types[name].choices:
            snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", choice.name).upper()
            found.setdefault(snake, set()).update({choice.bit, 1 << choice.bit})
    for name in ("END_OF_EVENT", "RECOVERY", "IMPLIED", "OUT_OF_SEQUENCE"):
        found[name].add(getattr(templates, name).bit_length() - 1)
    return found


def number_in(node):
    """The number that an expression of plain numbers gives."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.BinOp(left, ast.LShift(), right):
            parts = number_in(left), number_in(right)
            return None if None in parts else parts[0] << parts[1]
    return None


def numbers_in(node):
    """The numbers of a literal, alone or in a collection."""
    match node:
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple"), args=[inner]):
            return numbers_in(inner)
        case ast.Set(elts=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            found = [number_in(part) for part in parts]
            return [] if None in found else found
    found = number_in(node)
    return [] if found is None else [found]


def is_template(node):
    """Whether an expression is the id of a template."""
    match node:
        case ast.Name(id="template" | "template_id"):
            return True
        case ast.Attribute(attr="template_id"):
            return True
        case ast.Attribute(attr="id", value=ast.Name(id=owner) | ast.Attribute(attr=owner)):
            return owner in ("message", "template")
    return False


def restated(source):
    """The lines of a module in which template ids or flag bits are written as numbers."""
    known, found, tree = stated(), [], ast.parse(source)

    def check_constant(target, value):
        if not isinstance(target, ast.Name):
            return
        name = re.sub(r"_(BIT|FLAG|MASK|ID|TEMPLATE)$", "", target.id.lstrip("_"))
        numbers = numbers_in(value)
        forbidden = known.get(name, set()) if len(numbers) == 1 else set(IDS.values())
        if numbers and set(numbers) <= forbidden:
            found.append(value.lineno)

    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    check_constant(target, value)
            case ast.Assign(targets=[target], value=value):
                check_constant(target, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                check_constant(target, value)
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(map(is_template, sides)) and any(map(numbers_in, sides)):
                    found.append(node.lineno)
            case ast.Match(subject=subject, cases=cases) if is_template(subject):
                for case in cases:
                    found += [
                        inner.lineno
                        for inner in ast.walk(case.pattern)
                        if isinstance(inner, ast.MatchValue) and numbers_in(inner.value)
                    ]
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called), args=[first, *_]
            ) if called in ("message_table", "messages", "snapshots") and numbers_in(first):
                found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "TRADE = 53",
        "_EXECUTION_SUMMARY: Final = 55",
        "ORDER, DELETE = 50, 51",
        "ONLY_SNAPSHOT = frozenset({30, 71})",
        "END_OF_EVENT = 1 << 7",
        "_RECOVERY_BIT = 5",
        "def f(x): return x.template_id == 9",
        "def f(x): return x.message.id != 50",
        "def f(template): return template in (50, 51)",
        "def f(day): return day.messages(53)",
        "match template:\n    case 50 | 51: pass",
    ],
)
def test_a_number_that_is_written_down_is_found(line):
    assert restated(line)


@pytest.mark.parametrize(
    "line",
    [
        "TRADE = 0",
        "OLDEST_JAVA = 17",
        "BOOK_TEMPLATES = (ORDER, DELETE)",
        "IMPLIED_BIT = 1",
        "LOWEST, HIGHEST = 0, 71",
        "def f(schema): return schema.id == 2",
    ],
)
def test_other_numbers_are_not(line):
    assert not restated(line)


def test_no_other_module_states_a_template_id_or_a_flag():
    faults = []
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        if not name.startswith(ELSEWHERE):
            faults += [f"{name}:{line}" for line in restated(path.read_text())]
    assert faults == []
