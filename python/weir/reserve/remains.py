"""Reservations that dead processes left: for ``weir clean``."""

from __future__ import annotations

from weir.reserve import _records
from weir.reserve._reservation import Reservation, give_back

__all__ = ["find", "release"]


def find() -> list[Reservation]:
    """All reservations of this user's that weir has a record of, the oldest first; ``record.alive`` if in use."""
    return [Reservation(record) for record in _records.records()]


def release(reservation: Reservation) -> None:
    """Gives it back, if it was ever made, and forgets it.

    Raises:
        ReserveError: the scheduler is out of reach, or refuses.
    """
    give_back(reservation.record)
