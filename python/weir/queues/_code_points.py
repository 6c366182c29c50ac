"""Names of differentiated-services code points (RFC 2474, RFC 2597, RFC 3246)."""

from __future__ import annotations

__all__ = ["DSCP_NAMES", "named_point"]

DSCP_NAMES = {
    "default": 0,
    "cs1": 8,
    "af11": 10,
    "af12": 12,
    "af13": 14,
    "cs2": 16,
    "af21": 18,
    "af22": 20,
    "af23": 22,
    "cs3": 24,
    "af31": 26,
    "af32": 28,
    "af33": 30,
    "cs4": 32,
    "af41": 34,
    "af42": 36,
    "af43": 38,
    "cs5": 40,
    "ef": 46,
    "cs6": 48,
    "cs7": 56,
}


def named_point(point: int) -> str:
    """A code point for a message: its name with its number, or the number alone.

    >>> named_point(46), named_point(1)
    ('`ef` (46)', '1')
    """
    name = next((name for name, number in DSCP_NAMES.items() if number == point), None)
    return f"`{name}` ({point})" if name else str(point)
