"""Places of files: the sources that come with weir, and the cache of builds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import weir
from weir import _cache
from weir.lab._errors import LabError

__all__ = ["cache", "congestion_controls", "digest", "require_own_cache", "sources"]

_PACKAGE = Path(weir.__file__).parent


def sources() -> Path:
    """The folder ``lab`` of a checkout, or its copy in an installation.

    Raises:
        LabError: it is missing.
    """
    return _first("lab/sources", "lab", has="kernel.config")


def congestion_controls() -> Path:
    """The folder ``cc`` of a checkout, or its copy in an installation.

    Raises:
        LabError: it is missing.
    """
    return _first("cc", "cc", has="include/weir_cc.h")


def _first(installed: str, checkout: str, *, has: str) -> Path:
    for folder in (_PACKAGE / installed, _PACKAGE.parent.parent / checkout):
        if (folder / has).is_file():
            return folder
    raise LabError(f"this installation of weir lacks the folder {checkout}, from which the lab is built")


def cache() -> Path:
    """The user's cache folder of builds; it need not exist. XDG_CACHE_HOME overrides its place."""
    return _cache.base() / "lab"


def require_own_cache() -> None:
    """Does nothing if nobody else can write the cache.

    Raises:
        LabError: somebody can.
    """
    if (why := _cache.foreign(cache())) is not None:
        raise LabError(why)


def digest(parts: Iterable[str | bytes]) -> str:
    """A short hash of ``parts``."""
    total = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        total.update(len(content).to_bytes(8, "little") + content)
    return total.hexdigest()[:16]
