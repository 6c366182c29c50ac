"""The errors of test beds."""

from __future__ import annotations

from weir._errors import MethodError

__all__ = ["BedError", "TestbedError"]


class TestbedError(ValueError):
    """A test bed cannot be as asked for; the message says what was expected."""

    __test__ = False  # pytest collects classes by their name


class BedError(MethodError):
    """A test bed failed, or one of its nodes did; the message says which and why."""
