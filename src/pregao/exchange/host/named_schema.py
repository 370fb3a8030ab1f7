"""Exchange sessions that use a schema file named by the user."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pregao.entrypoint.messages import read_schema, use_schema
from pregao.errors import PregaoError, UsageError
from pregao.exchange.host.report_messages import report_messages
from pregao.exchange.host.requests import request_readers
from pregao.exchange.host.settings import ExchangeSettings


def with_schema(settings: ExchangeSettings, path: Path) -> ExchangeSettings:
    """Return settings that also accept sessions of the version of a schema file.

    In this process, the file replaces a bundled schema of the same version. It is read and checked
    immediately: UsageError names what it lacks.
    """
    schema = read_schema(path)
    use_schema(schema)
    request_readers.cache_clear()
    report_messages.cache_clear()
    try:
        request_readers(schema.version)
        report_messages(schema.version)
    except (KeyError, PregaoError) as error:
        raise UsageError(
            f"{path}: the schema lacks messages or fields that the exchange needs: {error}."
        ) from None
    versions = tuple(sorted({*settings.rules.versions, schema.version}))
    return replace(settings, rules=replace(settings.rules, versions=versions))
