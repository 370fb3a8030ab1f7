"""Which instruments symbols mean, as the definitions in captures tell."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from pregao.api.message_selection import security_id
from pregao.errors import UsageError
from pregao.names import did_you_mean
from pregao.sbe import Message
from pregao.umdf.bulk import Batch, BulkDecoder, Walked
from pregao.umdf.survey import message_of


def learn_symbols(
    decoder: BulkDecoder,
    walked: Walked,
    wanted: set[str],
    found: dict[str, set[int]],
    known: set[str] | None = None,
) -> None:
    """Take the instruments of wanted symbols, and all names, from definitions among messages."""
    for kind in walked.kinds():
        message = message_of(decoder.registry, kind.schema_id, kind.template_id, kind.version)
        if message is None or not _defines(message):
            continue
        for outcome in decoder.decode_kind(walked, kind):
            if not isinstance(outcome, Batch):
                continue
            symbols = pc.utf8_upper(outcome.columns.column("symbol"))
            if known is not None:
                known.update(pc.unique(symbols).drop_null().to_pylist())
            rows = pc.is_in(symbols, pa.array(sorted(wanted), pa.string()))
            for symbol, number in zip(
                symbols.filter(rows).to_pylist(),
                outcome.columns.column("security_id").filter(rows).to_pylist(),
                strict=True,
            ):
                found.setdefault(symbol, set()).add(number)


def _defines(message: Message) -> bool:
    names = {each.name for each in message.fields}
    return "symbol" in names and security_id(message) is not None


def instruments(
    wanted: set[str],
    found: dict[str, set[int]],
    numbers: frozenset[int] | None,
    option: str = "--security-id",
    known: Iterable[str] = (),
) -> frozenset[int]:
    """The instruments of symbols, and those named by number; ``option`` is how to name them so.

    Where there is no such symbol, those of the ``known`` ones that are like it are offered.
    """
    missing = sorted(wanted - set(found))
    if missing:
        hints = "".join(did_you_mean(name, sorted(known)) for name in missing)
        raise UsageError(
            f"No definition of {', '.join(missing)} is in the input, so that its messages cannot "
            f"be told. Add the capture of the definition stream, or use {option}.{hints}"
        )
    return frozenset(number for each in found.values() for number in each) | (
        numbers or frozenset()
    )
