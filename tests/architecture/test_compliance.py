"""The compliance tables are true to the tests: every row has a status, every named test exists."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "compliance"
FILES = sorted(path.name for path in FOLDER.glob("*.md") if path.name != "README.md")
STATUSES = ("done", "partly", "open")
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
CELL_END = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table that has a column for the status."""

    location: str
    cells: dict[str, str]


def rows_of(text, name="a file"):
    """The rows of the tables that state what is done; other tables have no status."""
    rows = []
    heads = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            heads = None
            continue
        cells = [cell.strip() for cell in CELL_END.split(line)[1:-1]]
        if heads is None:
            heads = cells
        elif set(line) - set("|-: ") and "Status" in heads:
            rows.append(Row(f"{name}:{number}", dict(zip(heads, cells, strict=True))))
    return rows


@cache
def names_in(path):
    """The names of the test functions of a file, and of state machines that are run as tests."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef(name=name) if name.startswith("test_"):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="TestCase")):
                names.add(name)
    return frozenset(names)


def faults_of(text, name="a file", folder=FOLDER):
    """Errors in the rows and links of a file."""
    faults = []
    for row in rows_of(text, name):
        status = row.cells["Status"]
        if status not in STATUSES:
            faults.append(f"{row.location}: the status is {status!r}, not one of {STATUSES}")
        if status in ("done", "partly") and not LINK.search(row.cells.get("Tests", "")):
            faults.append(f"{row.location}: nothing shows that it is {status}")
        if status == "partly" and "Open:" not in row.cells["Extent and reading"]:
            faults.append(f"{row.location}: it does not say what is open")
    for words, target in LINK.findall(text):
        path = (folder / target).resolve()
        if not path.exists():
            faults.append(f"{name}: {target} does not exist")
        elif words.startswith(("test_", "Test")) and not words.endswith(".py"):
            if words not in names_in(path):
                faults.append(f"{name}: {target} has no test {words}")
        elif "tests" in path.parts and words != path.name:
            faults.append(f"{name}: the link {words!r} names no test")
    return faults


def test_the_specifications_have_their_files():
    assert FILES == ["entrypoint.md", "legacy.md", "umdf.md"]


@pytest.mark.parametrize("name", [*FILES, "README.md"])
def test_every_row_has_a_status_and_every_named_test_exists(name):
    assert faults_of((FOLDER / name).read_text(), name) == []


@pytest.mark.parametrize("name", FILES)
def test_every_row_that_looks_like_a_section_is_counted(name):
    text = (FOLDER / name).read_text()
    sections = [line for line in text.splitlines() if re.match(r"\| (§|App\.)", line)]
    stated = [row for row in rows_of(text) if re.match(r"§|App\.", row.cells.get("Section", ""))]
    assert len(stated) == len(sections) > 0


DOCUMENTS = sorted(
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_between_documents_lead_somewhere(name):
    text = (ROOT / name).read_text()
    targets = [target.partition("#")[0] for _, target in LINK.findall(text) if "://" not in target]
    # The pages of the reference are made with the site; test_docs_site.py checks links to them.
    targets = [target for target in targets if not target.startswith("reference/")]
    assert [
        target for target in targets if not (ROOT / name).parent.joinpath(target).exists()
    ] == []


def test_umdf_has_a_row_for_every_template():
    cells = [row.cells for row in rows_of((FOLDER / "umdf.md").read_text())]
    named = {cell["Subject"] for cell in cells if cell.get("Section", "").startswith("§9.2.")}
    templates = {int(name.rpartition("_")[2]) for name in named}
    expected = {1, 2, 3, 5, 9, 10, 11, 12, 15, 16, 17, 19, 21, 22, 24, 25, 27, 28, 29, 30, 71}
    assert templates == expected | set(range(50, 58))


HEAD = "| Section | Subject | Status | Extent and reading | Tests |\n|---|---|---|---|---|\n"
MODULE = "../../tests/architecture/test_compliance.py"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| §1 | a | | | |", "the status is ''"),
        ("| §1 | a | yes | | |", "the status is 'yes'"),
        ("| §1 | a | done | all of it | |", "nothing shows that it is done"),
        (
            f"| §1 | a | partly | a part | [test_the_specifications_have_their_files]({MODULE}) |",
            "it does not say what is open",
        ),
        (f"| §1 | a | done | | [test_that_nobody_wrote]({MODULE}) |", "has no test"),
        ("| §1 | a | done | | [test_x](../../tests/house/test_nothing.py) |", "does not exist"),
        (f"| §1 | a | done | | [this one]({MODULE}) |", "names no test"),
    ],
)
def test_an_error_in_a_table_is_found(row, fault):
    (found,) = faults_of(HEAD + row)
    assert fault in found


def test_an_intact_table_has_no_faults():
    row = f"| §1 | a | partly | Open: b | [test_an_intact_table_has_no_faults]({MODULE}) |"
    assert faults_of(f"{HEAD}{row}\n| §2 | c | open | | |") == []
