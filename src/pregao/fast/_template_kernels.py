"""Kernels of templates: lookup by id, and capacity for the rows of a message."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import part
from pregao.fast import _table as k


@part
def room_for(nodes, template, templates, entries):
    """Whether the rows of a message with at most ``entries`` entries per sequence fit."""
    first, last = templates[template, k.FIRST_NODE], templates[template, k.LAST_NODE]
    if nodes[k.ROOM, first] - nodes[k.USED, first] < 1:
        return False
    enough = True
    for node in range(first + 1, last):
        enough &= nodes[k.ROOM, node] - nodes[k.USED, node] >= entries
    return enough


@part
def template_of(templates, template_id, last):
    """Return the template of an id, usually the previous message's; -1 if there is none."""
    if last >= 0 and templates[last, k.TEMPLATE_ID] == template_id:
        return last
    for template in range(len(templates)):
        if templates[template, k.TEMPLATE_ID] == template_id:
            return template
    return np.int64(-1)
