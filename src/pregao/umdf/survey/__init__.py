"""Survey of captures: lines and their streams, sequences, rates, and decoding failures."""

from pregao.umdf.survey.account import LineAccount, Survey, TemplateCount
from pregao.umdf.survey.lines import (
    STREAMS,
    Destination,
    LineNumbers,
    Lines,
    Seen,
    message_of,
    schema_of,
    words,
)
from pregao.umdf.survey.looks import streams_of
from pregao.umdf.survey.rejects import Place, Rejects, decode_kinds, walk_faults
from pregao.umdf.survey.sequencing import Gap, Run, SequenceAudit

__all__ = [
    "STREAMS",
    "Destination",
    "Gap",
    "LineAccount",
    "LineNumbers",
    "Lines",
    "Place",
    "Rejects",
    "Run",
    "Seen",
    "SequenceAudit",
    "Survey",
    "TemplateCount",
    "decode_kinds",
    "message_of",
    "schema_of",
    "streams_of",
    "walk_faults",
    "words",
]
