"""Runs code inside a network namespace, from a process that stays outside.

A thread enters the namespace, calls a function and ends. Sockets that the function opened stay in the namespace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from weir.hosts._queues import enter

__all__ = ["within"]

Result = TypeVar("Result")


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
            enter(namespace)
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
