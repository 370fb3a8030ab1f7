"""Process from which workers are forked when it has loaded what their tasks need.

So a worker starts in milliseconds, with modules and kernels that all workers share. The fork server
of `multiprocessing` would import the user's main module too, so that a script without
``if __name__ == "__main__"`` would run again in every worker.

Neither the server nor its workers receive interrupts: the runner ends them. They also end, at
once, with the process that started them, however that ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from pregao.errors import PregaoError
from pregao.lake.execution.worker import serve

_FORK, _WAIT = 0, 1
_REQUEST = struct.Struct("=Bq")
"""Kind of the request, and the process to wait for."""
_ANSWER = struct.Struct("=q")
"""Process forked, or its exit code; for a fork that failed, its error number below 0."""
_END_SECONDS = 10
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that keep numpy's libraries from starting a thread per core in every worker."""


class ForkServer:
    """Running server, and the connection to it.

    It imports the module of ``work`` and calls ``prepare`` first; both are functions of a module.
    """

    def __init__(self, work: Callable[..., Any], prepare: Callable[[], None]) -> None:
        self._control, theirs = socket.socketpair()
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; "
            f"main({theirs.fileno()}, {_name(work)}, {_name(prepare)})"
        )
        # The server inherits that interrupts are blocked, from its first instruction on.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # has the data of a command
                env={**dict.fromkeys(_ONE_THREAD, "1"), **os.environ},
                pass_fds=[theirs.fileno()],
            )
        except OSError as error:
            self._control.close()
            raise PregaoError(
                f"Cannot start worker processes with {sys.executable}: {error.strerror}."
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def fork(self) -> tuple[int, Connection]:
        """Start a worker; return its process number and the connection to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            answer = self._ask(_FORK, 0, theirs.fileno())
        if answer < 0:
            ours.close()
            raise PregaoError(f"Cannot start a worker process: {os.strerror(-answer)}.")
        return answer, Connection(ours.detach())

    def wait(self, process: int) -> int:
        """Wait for the end of a worker and return its exit code, below 0 for a signal."""
        return self._ask(_WAIT, process)

    def close(self) -> None:
        """End all workers, whatever they do, and the server."""
        self._control.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, kind: int, process: int, *descriptors: int) -> int:
        try:
            socket.send_fds(self._control, [_REQUEST.pack(kind, process)], descriptors)
            received = self._control.recv(_ANSWER.size, socket.MSG_WAITALL)
        except OSError:
            received = b""
        if len(received) < _ANSWER.size:
            raise PregaoError("The process that starts workers ended; run the command again.")
        answer: int = _ANSWER.unpack(received)[0]
        return answer


def _name(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def main(descriptor: int, work: tuple[str, str], prepare: tuple[str, str]) -> NoReturn:
    """Fork workers on request; when the connection is closed, end them and exit."""
    control = socket.socket(fileno=descriptor)
    if sys.platform == "linux":  # elsewhere the system's libraries may not be forked in use
        # Errors are raised again by the tasks, which need the same.
        with contextlib.suppress(Exception):
            importlib.import_module(work[0])
            getattr(importlib.import_module(prepare[0]), prepare[1])()
        with contextlib.suppress(Exception):
            _load_kernels()
    gc.disable()  # a collection would write to the memory that workers share
    gc.freeze()
    workers: set[int] = set()
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, _REQUEST.size, 1)
        if not request:
            break
        kind, process = _REQUEST.unpack(request)
        if kind == _FORK:
            answer = _fork(control, descriptors[0])
            if answer > 0:
                workers.add(answer)
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            workers.discard(process)
        control.sendall(_ANSWER.pack(answer))
    for worker in workers:
        os.kill(worker, signal.SIGKILL)  # not yet waited for, so the number is still its own
    for worker in workers:
        os.waitpid(worker, 0)
    # Not by return: frozen objects of libraries would be reported as leaked.
    os._exit(0)


def _load_kernels() -> None:
    """Load the cached code of imported kernels, which numba otherwise does at their first call."""
    from numba.core.dispatcher import Dispatcher

    for name, module in list(sys.modules.items()):
        if name.startswith("pregao."):
            for kernel in list(vars(module).values()):
                if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == name:
                    for signature in _cached(kernel):
                        kernel.compile(signature)


def _cached(kernel: Any) -> Iterator[Any]:
    """Yield the signatures for which the cache has code of a kernel for this processor."""
    cache = kernel._cache
    codegen = kernel.targetctx.codegen()
    for key in cache._cache_file._load_index() if hasattr(cache, "_cache_file") else ():
        if key == cache._index_key(key[0], codegen):
            yield key[0]


def _fork(control: socket.socket, descriptor: int) -> int:
    """Fork a worker that serves a connection; return its process number, or -errno."""
    try:
        with warnings.catch_warnings():
            # Threads of memory allocators, which know forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            worker = os.fork()
    except OSError as error:
        os.close(descriptor)
        return -(error.errno or 1)
    if worker:
        os.close(descriptor)
        return worker
    try:
        control.close()
        gc.enable()
        os.set_inheritable(descriptor, False)
        serve(Connection(descriptor))
    finally:
        os._exit(0)
