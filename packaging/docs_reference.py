"""Pages that `make docs` adds: the reference, generated from the code and the schemas.

MkDocs calls the functions whose names begin with ``on_``. Links to files of the project that are
not pages become the names of these files; a file that is not there fails the build.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)#]+)(#[^)]*)?\)")
_MAX_SIGNATURE = 88
_API = (
    "read", "Capture", "Message", "Book", "follow", "Lake", "simulate", "Live", "State",
)  # fmt: skip


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference."""
    for name, text in pages():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_config(config: Any) -> Any:
    """State the version, and link the repository that the checkout comes from."""
    from pregao._version import __version__

    config.site_name = f"Pregão {__version__}"
    config.copyright = f"Pregão {__version__} · Apache-2.0"
    if address := _repository():
        config.repo_url = address
        config.repo_name = address.partition("://")[2].partition("/")[2]
    return config


def _repository() -> str:
    """Return the address of the repository: ``PREGAO_REPOSITORY``, or Git's ``origin``."""
    found = os.environ.get("PREGAO_REPOSITORY", "")
    if not found:
        asked = subprocess.run(
            ["git", "-C", ROOT, "remote", "get-url", "origin"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        found = asked.stdout.strip()
    if named := re.fullmatch(r"git@([\w.-]+):(.+)", found):
        found = f"https://{named[1]}/{named[2]}"
    return found.removesuffix(".git") if re.fullmatch(r"https://[\w.-]+/.+", found) else ""


def on_page_content(html: str, **_others: Any) -> str:
    """Put figures into their pages, where they take the colors that the reader chose."""

    def inlined(found: re.Match[str]) -> str:
        return (ROOT / "docs" / "figures" / found[1]).read_text(encoding="utf-8")

    return re.sub(r'<img [^>]*src="(?:\.\./)*figures/(\w+\.svg)"[^>]*>', inlined, html)


def on_page_markdown(markdown: str, page: Any, **_others: Any) -> str:
    """Make links out of the pages name the file."""
    depth = page.file.src_uri.count("/")

    def named(found: re.Match[str]) -> str:
        words, up, rest, _anchor = found.groups()
        if len(up) // 3 <= depth:  # it stays among the pages
            return found[0]
        if not (ROOT / rest).exists():
            raise PluginError(f"{page.file.src_uri}: there is no file {rest}.")
        plain = words.replace("`", "")
        return f"`{rest}`" if plain in rest else f"{words} (`{rest}`)"

    return _LINK.sub(named, markdown)


def pages() -> Iterator[tuple[str, str]]:
    """The names and texts of the reference's pages."""
    yield "commands", "\n".join(_commands())
    yield "api", "\n".join(_api())
    yield "umdf", "\n".join(_messages("umdf", "Binary UMDF"))
    yield "entrypoint", "\n".join(_messages("entrypoint", "Binary EntryPoint"))
    yield "legacy", "\n".join(_templates())


def _commands() -> Iterator[str]:
    import typer

    from pregao.cli.main import app

    yield "# Commands\n"
    yield "Every command and option, as in `pregao COMMAND --help`. "
    yield "[The command line](../cli.md) shows them at work.\n"

    def walk(command: Any, words: list[str]) -> Iterator[str]:
        inner = getattr(command, "commands", {})
        if words and (not inner or command.invoke_without_command):
            yield from _command(command, words)
        for name, each in sorted(inner.items()):
            yield from walk(each, [*words, name])

    yield from walk(typer.main.get_command(app), [])


def _command(command: Any, words: list[str]) -> Iterator[str]:
    yield f"## pregao {' '.join(words)}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    if shown:
        yield "| Argument or option | Purpose |\n|---|---|"
        for each in shown:
            if each.param_type_name == "argument":
                name = (each.metavar or each.name).upper()
            else:
                name = ", ".join(each.opts) + (f" {each.metavar}" if each.metavar else "")
            yield f"| `{_cell(name)}` | {_cell(each.help or '')} |"
        yield ""
    examples = [line for line in (command.epilog or "").split("\n\n") if line.startswith("pregao ")]
    if examples:
        yield "```\n" + "\n".join(examples) + "\n```\n"


def _api() -> Iterator[str]:
    import pregao
    from pregao import entrypoint, plot

    yield "# Python\n"
    yield "What `import pregao` offers. [The guide](../api.md) shows it at work.\n"
    for name in _API:
        yield from _described(f"pregao.{name}", getattr(pregao, name))
    yield from _described("pregao.entrypoint.Client", entrypoint.Client)
    for name in plot.__all__:
        if name != "Chart":
            yield from _described(f"pregao.plot.{name}", getattr(plot, name))


def _described(name: str, what: Any) -> Iterator[str]:
    yield f"## {name}\n"
    if inspect.isclass(what):
        yield f"{_documented(what)}\n"
        for own, member in vars(what).items():
            if own.startswith("_") or not inspect.getdoc(member):
                continue
            if inspect.isfunction(member):
                yield f"### {own}\n\n{_signature(own, member)}\n{_documented(member)}\n"
            elif isinstance(member, property):
                yield f"### {own}\n\n{_documented(member)}\n"
    else:
        yield f"{_signature(name, what)}\n{_documented(what)}\n"


def _signature(name: str, what: Any) -> str:
    """Return a signature as a block of code; a long one has a line for each parameter."""
    made = inspect.signature(what)
    kept = [each for each in made.parameters.values() if each.name != "self"]
    text = name + str(made.replace(parameters=kept)).replace("'", "")
    if len(text) > _MAX_SIGNATURE and kept:
        lines, last = [], None
        for each in kept:
            if each.kind is each.KEYWORD_ONLY and last not in (
                each.KEYWORD_ONLY,
                each.VAR_POSITIONAL,
            ):
                lines.append("    *,")
            lines.append(f"    {each},".replace("'", ""))
            last = each.kind
        end = str(made.replace(parameters=[])).removeprefix("(").replace("'", "")
        text = "\n".join([f"{name}(", *lines, end])
    return f"```python\n{text}\n```\n"


_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Example|Examples|Attributes):\n", re.MULTILINE)


def _documented(what: Any) -> str:
    """Return a docstring in Markdown: sections as lists, examples as code."""
    summary, *parts = _SECTION.split(inspect.getdoc(what) or "")
    text = [summary.rstrip()]
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        lines = inspect.cleandoc(" " * 4 + body.strip("\n").lstrip()).splitlines()
        if heading.startswith("Example"):
            text.append("```python\n" + "\n".join(lines) + "\n```")
        elif heading in ("Returns", "Yields"):
            text.append(f"**{heading}:** " + " ".join(lines))
        else:
            items: list[str] = []
            for line in lines:
                if line.startswith(" ") and items:
                    items[-1] += " " + line.strip()
                else:
                    items.append(line)
            text.append(f"**{heading}:**\n\n" + "\n".join(map(_item, items)))
    return "\n\n".join(text)


def _item(text: str) -> str:
    name, colon, words = text.partition(": ")
    return f"- `{name}`: {words}" if colon else f"- {text}"


def _messages(protocol: str, title: str) -> Iterator[str]:
    from pregao.schemas.description import choose, contents, described

    schema, versions = choose(protocol, None, None)
    yield f"# Messages of {title}\n"
    yield (
        f"Schema version {schema.version} ({schema.semantic_version}). Known versions: "
        f"{', '.join(versions)}. `pregao schema --protocol {protocol} NAME` shows any of them.\n"
    )
    known = contents(schema, versions)
    for each in known["messages"]:
        message = described(schema, each["name"])
        yield f"## {message['name']}\n"
        yield f"Template {message['template']}, {message['block_length']} bytes. "
        yield f"{message['description'] or ''}\n"
        yield from _fields(message)
        for group in message["groups"]:
            yield f"Group `{group['name']}`, {group['block_length']} bytes each. "
            yield f"{group['description'] or ''}\n"
            yield from _fields(group)
        for data in message["data"]:
            yield f"Data `{data['name']}` ({data['type']}). {data['description'] or ''}\n"
    yield "# Types\n"
    for name in known["types"]:
        kind = described(schema, name)
        if kind["kind"] in ("enum", "set"):
            yield f"## {kind['name']}\n"
            yield f"{kind['description'] or ''}\n"
            yield "| Name | Value | Meaning |\n|---|---|---|"
            for member in kind["members"]:
                value = member["value"] if "value" in member else f"bit {member['bit']}"
                yield f"| {member['name']} | `{value}` | {_cell(member['description'] or '')} |"
            yield ""


def _fields(block: dict[str, Any]) -> Iterator[str]:
    yield "| Field | Column | Offset | Type | Presence | Meaning |\n|---|---|---|---|---|---|"
    for field in block["fields"]:
        offset = "" if field["offset"] is None else field["offset"]
        yield (
            f"| {field['name']} | `{field['column'] or '–'}` | {offset} | {field['type']} "
            f"| {field['presence']} | {_cell(field['description'] or '')} |"
        )
    yield ""


def _templates() -> Iterator[str]:
    from pregao.schemas.fast_templates import bundled_templates

    yield "# Messages of UMDF FIX/FAST\n"
    yield "The bundled templates (5.1.13). [The legacy feed](../legacy.md) explains how "
    yield "they are used.\n"
    for each in bundled_templates().templates:
        yield f"## {each.name}\n"
        yield f"Template {each.id}.\n"
        yield "| Field | Tag | Type | Presence | Operator |\n|---|---|---|---|---|"
        yield from _parts(each.parts, "")
        yield ""


def _parts(parts: Any, indent: str) -> Iterator[str]:
    for part in parts:
        presence = "optional" if getattr(part, "optional", False) else "mandatory"
        inner = getattr(part, "parts", None)
        if inner is not None:
            kind = type(part).__name__.lower()
            yield f"| {indent}{part.name} | {part.id or ''} | {kind} | {presence} | |"
            yield from _parts(inner, indent + "&emsp;")
            continue
        kind = part.kind.value if hasattr(part, "kind") else "decimal"
        operation = getattr(part, "operation", None)
        operator = operation.operator.value if operation is not None else ""
        number = getattr(part, "id", None) or ""
        yield f"| {indent}{part.name} | {number} | {kind} | {presence} | {operator} |"


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")
