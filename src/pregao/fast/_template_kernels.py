"""Kernels of templates: which one a message has, and whether there is room for its rows."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import part
from pregao.fast import _table as k


@part
def room_for(nodes, template, templates, entries):
    """Whether the rows of a message fit that has no more than so many entries of a sequence."""
    first, last = templates[template, k.FIRST_NODE], templates[template, k.LAST_NODE]
    if nodes[k.ROOM, first] - nodes[k.USED, first] < 1:
        return False
    enough = True
    for node in range(first + 1, last):
        enough &= nodes[k.ROOM, node] - nodes[k.USED, node] >= entries
    return enough


@part
def template_of(templates, template_id, last):
    """The template of an id, mostly that of the message before; -1 if there is none."""
    if last >= 0 and templates[last, k.TEMPLATE_ID] == template_id:
        return last
    for template in range(len(templates)):
        if templates[template, k.TEMPLATE_ID] == template_id:
            return template
    return np.int64(-1)
