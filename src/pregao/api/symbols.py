"""Resolution of symbols to instruments, from the definitions in captures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pregao.api.message_selection import security_id
from pregao.errors import UsageError
from pregao.name_matching import did_you_mean
from pregao.sbe.model import MessageTemplate
from pregao.umdf.bulk_decoder import BulkDecoder, MessageBatch, WalkedPackets
from pregao.umdf.survey.lines import message_of


def learn_symbols(
    decoder: BulkDecoder,
    walked: WalkedPackets,
    wanted: set[str],
    found: dict[str, set[int]],
    known: set[str] | None = None,
) -> None:
    """Add the instruments of the requested symbols, and all known names, from definitions."""
    for kind in walked.kinds():
        message = message_of(decoder.registry, kind.schema_id, kind.template_id, kind.version)
        if message is None or not _defines(message):
            continue
        for outcome in decoder.decode_kind(walked, kind):
            if not isinstance(outcome, MessageBatch):
                continue
            # Definitions repeat in loops: few of them are new.
            for symbol, number in set(_pairs(outcome)):
                if symbol is None:
                    continue
                upper = symbol.upper()
                if known is not None:
                    known.add(upper)
                if upper in wanted:
                    found.setdefault(upper, set()).add(number)


def _pairs(outcome: MessageBatch) -> Iterator[tuple[str | None, int]]:
    """Return the symbols and numbers of defined instruments."""
    columns = outcome.columns
    if isinstance(columns, list):
        return ((values["symbol"], values["securityID"]) for values in columns)
    symbols, numbers = (columns.column(name).to_pylist() for name in ("symbol", "security_id"))
    return zip(symbols, numbers, strict=True)


def _defines(message: MessageTemplate) -> bool:
    names = {each.name for each in message.fields}
    return "symbol" in names and security_id(message) is not None


def instruments(
    wanted: set[str],
    found: dict[str, set[int]],
    numbers: frozenset[int] | None,
    option: str = "--security-id",
    known: Iterable[str] = (),
) -> frozenset[int]:
    """Return the instruments of symbols, and those given by number.

    For an unknown symbol, the error suggests similar ``known`` ones, and ``option``, with which an
    instrument is given by number.
    """
    missing = sorted(wanted - set(found))
    if missing:
        hints = "".join(did_you_mean(name, sorted(known)) for name in missing)
        raise UsageError(
            f"No definition of {', '.join(missing)} is in the input, so its messages cannot be "
            f"identified. Add the capture of the definition stream, or use {option}.{hints}"
        )
    return frozenset(number for each in found.values() for number in each) | (
        numbers or frozenset()
    )
