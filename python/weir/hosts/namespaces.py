"""Runs code inside a network namespace, from a process that stays outside.

A thread enters the namespace, calls a function and ends. Sockets that the function opened stay in the namespace.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["within"]

Result = TypeVar("Result")
_CLONE_NEWNET = 0x4000_0000


def within(namespace: str, function: Callable[[], Result]) -> Result:
    """Calls ``function`` inside the namespace at the path ``namespace``; returns its result.

    Raises:
        OSError: the namespace cannot be entered.
        BaseException: whatever ``function`` raised.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            _enter(namespace)
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _enter(namespace: str) -> None:
    """Moves this thread alone into a network namespace; Python's library has ``setns`` from 3.12 on.

    Raises:
        OSError: the namespace does not exist, or this process may not enter it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(fd, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), namespace)
    finally:
        os.close(fd)
