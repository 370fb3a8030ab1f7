"""Replay of the journal: at a start, and after a failure without the record that failed."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final, cast

from pregao.entrypoint.events import SessionEvent
from pregao.entrypoint.framing import StreamFrame, frame_of
from pregao.entrypoint.gateway_connection import GatewayConnection
from pregao.entrypoint.gateway_sessions import Reader, read_frame
from pregao.entrypoint.messages import messages
from pregao.entrypoint.session_store import unpack_record
from pregao.errors import UsageError
from pregao.exchange.engine.model.commands import RestateOrders
from pregao.exchange.host.admin.control_requests import (
    ControlRequest,
    journaled_request,
    parse_request,
)
from pregao.exchange.host.base_host import BaseHost
from pregao.exchange.host.checkpoints.checkpoints import resume
from pregao.exchange.host.faults import MAX_SET_ASIDE, unpack_void
from pregao.exchange.host.gateway.order_requests import request_readers
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.journal.journal_file import JournalRecord, RecordKind
from pregao.safe_io.documents import DocumentError, parse_json

if TYPE_CHECKING:
    from pregao.exchange.host.host import ExchangeHost

TIME_ITSELF: Final = 0
"""Number in a VOID record of a failed market timer instead of a failed request."""


class _ReplayAgainError(Exception):
    """A record of the journal is void: the replay must restart without it."""


class ReplayedHost(BaseHost):
    """An exchange that restores its state from its journal.

    A step is completed (`_done`), or undone with everything that it wrote (`_undo`).
    """

    def replay(self) -> int:
        """Restore the state from the journal; return the number of records replayed."""
        if self._journal is None:
            return 0
        self._again = True
        try:
            for _ in range(1 + MAX_SET_ASIDE):  # at most one pass ends with the voided requests
                with suppress(_ReplayAgainError):
                    return self._replay(self._journal)
                self.blank()
        finally:
            self._again = False
        raise UsageError(
            f"More than {MAX_SET_ASIDE} records of the journal cannot be replayed; use the version "
            "that wrote it, or start with another --journal."
        )

    def _replay(self, journal: Journal) -> int:
        """Restore the state from the journal; raise _ReplayAgainError if a record is void."""
        count = 0
        start = resume(cast("ExchangeHost", self), journal)
        aside = self.faults.skipped_records
        records = journal.records(start)
        for record in records:
            count += 1
            self._now_ns = max(self._now_ns, record.time_ns)
            if aside and journal.reading in aside:
                continue
            try:
                self._once_more(record)
            except UsageError:
                raise
            except Exception as error:
                # The record may be half applied, so the replay restarts without it. A request that
                # a later record voids fails again, while the record after it is replayed.
                position = journal.reading
                if not self._find_voids(chain([record], records)):
                    self.faults.skip_record(position, record.kind.name, error)
                raise _ReplayAgainError from error
            if len(self.request_router.units) > 1000:
                self.request_router.units.clear()  # already published
        self.request_router.units.clear()
        return count

    def _find_voids(self, records: Iterable[JournalRecord]) -> bool:
        """Add the requests that these records void; return whether any was unknown."""
        known = len(self._void)
        for record in records:
            if record.kind is RecordKind.VOID:
                with suppress(struct.error):
                    key = unpack_void(record.body)
                    if key[1] != TIME_ITSELF:
                        self._void.add(key)
        return len(self._void) > known

    def _once_more(self, record: JournalRecord) -> None:
        now = record.time_ns
        if self._risk.on_their_way:
            self._arrivals(now)
        match record.kind:
            case RecordKind.REQUEST:  # by far the most frequent
                self._request_again(record.session, frame_of(record.body), now)
            case RecordKind.SESSION:
                session_id, change = unpack_record(record.body)
                self.store.record(session_id, change)
            case RecordKind.CONTROL:
                try:
                    request = journaled_request(parse_json(record.body))
                    self._control(*parse_request(request), now)
                except (UsageError, DocumentError) as error:
                    # Earlier versions journaled commands that they refused.
                    assert self._journal is not None
                    self.faults.skip_record(self._journal.reading, record.kind.name, error)
            case RecordKind.CANCEL:
                self._cancel(record.session, record.body.decode(), now)
            case RecordKind.TIME:
                self.request_router.advance(now)
            case RecordKind.START:
                self._started(parse_json(record.body))
            case RecordKind.RESTATE:
                self.request_router.apply(RestateOrders(record.session), now)
            case RecordKind.HANDSHAKE:
                pass
            case RecordKind.VOID:
                key = unpack_void(record.body)
                if key[1] == TIME_ITSELF:
                    self.engine.drop_due(key[2])
                elif key not in self._void:
                    raise _ReplayAgainError

    def _request_again(self, session_id: int, frame: StreamFrame, now_ns: int) -> None:
        session = self._owner(session_id)
        if session is None:
            raise UsageError(
                f"The journal has requests of session {session_id}, which is no longer "
                "configured; add it again, or start with another --journal."
            )
        name, read = _reader(frame.header.version, frame.header.template_id)
        if read is None:
            reading = read_frame(messages(frame.header.version), name, frame)
        else:
            reading = read(frame)
        if self._void and (session_id, reading.number, now_ns) in self._void:
            session.record_accepted(reading.number)
            return
        self._event(session.accept(name, frame, reading, now_ns), now_ns)

    # Steps

    def _done(self, now_ns: int) -> None:
        """Complete a step: encode its events, and keep its records for the next commit."""
        self._publish(now_ns)
        self._keep()

    def _publish(self, now_ns: int) -> None:
        """Encode the events of the steps since the last call."""
        request_router = self.request_router
        if request_router.units and self.publish is not None and not self._again:
            units, request_router.units = request_router.units, []
            self.publish(units, now_ns)
            self._units_before = 0

    def _publish_earlier(self, now_ns: int) -> None:
        """Encode the events of earlier steps, and drop those of the failed step."""
        del self.request_router.units[self._units_before :]
        self._publish(now_ns)

    def _keep(self) -> None:
        """Keep the records and events of the last step."""
        self._units_before = len(self.request_router.units)
        if self._journal is not None:
            self._mark = self._journal.mark()

    def _discard_records(self) -> None:
        """Drop the journal records of the failed step."""
        if self._journal is not None:
            self._journal.discard_after(self._mark)

    def _undo(self) -> None:
        """Restore the state before the failed step.

        Without a journal there is no earlier state: the changes of the failed step remain.
        """
        del self.request_router.units[self._units_before :]
        if self._journal is None:
            return
        self._discard_records()
        units = self.request_router.units
        sessions = [each for gateway in self.gateways.values() for each in gateway]
        connections = [each.connection for each in sessions]
        try:
            self._journal.commit()
            self._mark = 0
            for each in sessions:
                each.connection = None  # the replay must not send anything
            self.blank()
            self.replay()
        except Exception as error:
            self._lost = error
            raise
        finally:
            for each, connection in zip(sessions, connections, strict=True):
                each.connection = connection
        self.request_router.units = units
        for gateway in self.gateways.values():
            gateway.restored()
        for each, connection in zip(sessions, connections, strict=True):
            if connection is not None:
                connection.withdraw(each.state.next_outgoing)

    # Handlers of events

    @abstractmethod
    def _event(
        self, event: SessionEvent, now_ns: int, connection: GatewayConnection | None = None
    ) -> None:
        """Apply an event of a connection."""

    @abstractmethod
    def _control(self, name: str, request: ControlRequest, now_ns: int) -> None:
        """Apply a command of market operations."""

    @abstractmethod
    def _cancel(self, session_id: int, reason: str, now_ns: int) -> None:
        """Cancel the orders of a session."""

    @abstractmethod
    def _arrivals(self, now_ns: int) -> None:
        """Process the requests that have passed the risk engine."""


@cache
def _reader(version: int, template_id: int) -> tuple[str, Reader | None]:
    """Return the name of a request's template, and its reader if it is a frequent one."""
    name = messages(version).named(template_id)
    assert name is not None
    return name, request_readers(version).get(template_id)
