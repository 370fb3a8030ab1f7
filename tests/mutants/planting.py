"""Small faults planted in source code: which there are in a file, and the file with one of them."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass

_INVERTED = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A fault: where it is, what is replaced, and by what."""

    path: str
    """Path of the file within the package."""
    function: str
    """Qualified name of the function, as Python gives it."""
    line: int
    kind: str
    start: int
    end: int
    """Bytes of the file that are replaced."""
    old: str
    text: str
    number: int
    """Number of the fault among equal ones of its function."""

    @property
    def name(self) -> str:
        """Identity of the mutant in results: it survives changes of other functions."""
        old, text = (" ".join(each.split()) for each in (self.old, self.text))
        again = f" ({self.number})" if self.number > 1 else ""
        return f"{self.path} {self.function}: {self.kind}: {old} → {text}{again}"

    def planted(self, source: str) -> str:
        """Return the source with this fault."""
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()


class _Planter(ast.NodeVisitor):
    def __init__(self, path: str, source: str) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._data = source.encode()
        self._names: list[str] = []
        self._depth = 0
        self._equal: Counter[tuple[str, str, str, str]] = Counter()
        self._offsets = [0]
        for line in self._data.splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._names += [node.name, "<locals>"]
        self._depth += 1
        for statement in node.body:
            self.visit(statement)
        self._depth -= 1
        del self._names[-2:]

    visit_FunctionDef = _function  # noqa: N815
    visit_AsyncFunctionDef = _function  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def _add(self, node: ast.expr | ast.stmt, kind: str, text: str) -> None:
        if not self._depth:
            return
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._offsets[node.lineno - 1] + node.col_offset
        end = self._offsets[node.end_lineno - 1] + node.end_col_offset
        function = ".".join(self._names[:-1])
        old = self._data[start:end].decode()
        self._equal[function, kind, old, text] += 1
        number = self._equal[function, kind, old, text]
        self.found.append(
            Mutant(self._path, function, node.lineno, kind, start, end, old, text, number)
        )

    def _text(self, node: ast.AST) -> str:
        return ast.unparse(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        inverted = _INVERTED.get(type(node.ops[0]))
        if len(node.ops) == 1 and inverted is not None:
            changed = ast.Compare(node.left, [inverted()], node.comparators)
            self._add(node, "comparison inverted", f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self._add(node, "constant + 1", str(node.value + 1))
        elif type(node.value) is bool:
            self._add(node, "constant negated", str(not node.value))

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        rest = [self._text(each) for each in node.values[1:]]
        joined = (" and " if isinstance(node.op, ast.And) else " or ").join(rest)
        self._add(node, "condition dropped", f"({joined})")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self._add(node.test, "condition always false", "False")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        symmetric = isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
        starred = any(isinstance(each, ast.Starred) for each in node.args[:2])
        if len(node.args) >= 2 and not symmetric and not starred:
            one, other = (self._text(each) for each in node.args[:2])
            changed = ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]],
                               node.keywords)  # fmt: skip
            if one != other:
                self._add(node, "arguments swapped", ast.unparse(changed))
        self.generic_visit(node)

    def _deleted(self, node: ast.stmt) -> None:
        value = getattr(node, "value", None)
        if not (isinstance(node, ast.Expr) and isinstance(value, ast.Constant)):
            self._add(node, "statement deleted", "pass")
        self.generic_visit(node)

    visit_AugAssign = _deleted  # noqa: N815
    visit_Expr = _deleted  # noqa: N815

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and self._text(node.value) not in ("None", "True", "False"):
            self._add(node.value, "return replaced", "None")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts of messages are not of interest."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Texts of errors are not of interest."""


def mutants(path: str, source: str) -> list[Mutant]:
    """Return the faults that can be planted in a file; the text of few is not valid Python."""
    planter = _Planter(path, source)
    planter.visit(ast.parse(source))
    return planter.found


def is_valid(mutant: Mutant, source: str) -> bool:
    """Whether a file with a fault can be compiled."""
    try:
        ast.parse(mutant.planted(source))
    except SyntaxError:
        return False
    return True
