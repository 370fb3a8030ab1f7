"""Messages of the legacy feed in captures, in the common message form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pregao.api.legacy_captures import LegacyReadStatistics, read_messages, reader_of
from pregao.api.messages import Message, Protocol
from pregao.errors import CaptureError, UsageError


def legacy_messages(
    names: Sequence[str],
    templates: Sequence[str],
    since_ns: int | None,
    until_ns: int | None,
    rejects: Counter[str],
) -> Iterator[Message]:
    """Yield the messages of some templates (by name or number) captured within the time range."""
    reader, account = reader_of(None), LegacyReadStatistics()
    known = reader.templates.by_id
    wanted = set(known)
    if templates:
        wanted = {number for number in known if {known[number].name, str(number)} & set(templates)}
        if not wanted:
            names_known = ", ".join(sorted(each.name for each in known.values()))
            raise UsageError(f"There is no template {templates[0]!r}; available: {names_known}.")
    rejects.clear()
    for read in read_messages(names, reader, account):
        message = read.message
        if message is None:
            rejects[read.reason] += 1
            continue
        timely = (since_ns is None or read.time_ns >= since_ns) and (
            until_ns is None or read.time_ns < until_ns
        )
        if timely and message.template_id in wanted:
            yield Message(
                Protocol.LEGACY,
                known[message.template_id].name,
                message.template_id,
                None,
                message.values,
                read.time_ns or None,
                message.sending_time_ns,
                message.number,
                flow=read.flow,
            )
    if account.damaged:
        raise CaptureError(account.damaged[0])
