"""Schema files of one version, written from the bundled ones, as a user may name them."""

from xml.sax.saxutils import escape, quoteattr

from pregao.schemas.bundle import _tree
from pregao.schemas.evolution import derive

_SBE = "http://fixprotocol.io/2016/sbe"


def write_schema(path, layout, version, semantic_version, without=()):
    """Write the messages of a bundled version under another version's number and name."""
    root = derive(_tree("entrypoint"), layout)
    own = {"version": str(version), "semanticVersion": semantic_version, "xmlns:sbe": _SBE}
    path.write_text(_text(root, root.attributes | own, without))
    return path


def _text(element, attributes, without):
    written = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    inner = "".join(
        _text(child, child.attributes, without)
        for child in element.children
        if child.attributes.get("name") not in without
    )
    tag = f"sbe:{element.tag}" if element.tag in ("messageSchema", "message") else element.tag
    return f"<{tag}{written}>{escape(element.text)}{inner}</{tag}>"
