"""An exchange whose sessions are held with a schema file that a user named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pregao.entrypoint.messages import read_schema, use_schema
from pregao.errors import PregaoError, UsageError
from pregao.exchange.host.report_messages import report_messages
from pregao.exchange.host.requests import request_readers
from pregao.exchange.host.settings import ExchangeSettings


def with_schema(settings: ExchangeSettings, path: Path) -> ExchangeSettings:
    """Accept sessions of the version of a schema file too, and hold them with it.

    The file takes the place of a bundled schema of the same version, for this process. It is read
    and tried before anything is served: UsageError names what it lacks.
    """
    schema = read_schema(path)
    use_schema(schema)
    request_readers.cache_clear()
    report_messages.cache_clear()
    try:
        request_readers(schema.version)
        report_messages(schema.version)
    except (KeyError, PregaoError) as error:
        raise UsageError(f"{path} lacks what the exchange needs: {error}.") from None
    versions = tuple(sorted({*settings.rules.versions, schema.version}))
    return replace(settings, rules=replace(settings.rules, versions=versions))
