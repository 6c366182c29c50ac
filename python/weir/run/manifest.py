"""Manifests of runs and cells: read, verified against their own checksum, fields with their types.

All fields that readers use are verified here once, so that the mapping can be passed on: an existing field has its
type. Unused fields are kept unverified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir._inside import exists
from weir.run.checksums import Checksums, checksums_in
from weir.run.documents import Fields, read_document
from weir.run.printable import printable

__all__ = [
    "INTENDED",
    "MANIFEST",
    "STATE",
    "CellManifest",
    "Listed",
    "RunManifest",
    "read_begun",
    "read_cell_manifest",
    "read_run_manifest",
]

MANIFEST = "manifest.json"
STATE = ".run.json"
"""Which run a folder holds, from its first moment on."""
INTENDED = "intended"
"""In ``STATE``: the summary and the cells of the complete run, as its manifest will have them."""
_MAX_REPEATS = (1 << 32) - 1


@dataclass(frozen=True)
class CellManifest:
    """The manifest of a cell."""

    id: str
    factors: Mapping[str, str]
    repeat: int
    checksums: Checksums | None
    """``None``: written by a version without checksums, or not asked for."""
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class Listed:
    """A cell as listed in the manifest of its run."""

    id: str
    digest: str | None
    """Checksum of the cell's manifest; ``None`` if the cell has no result, or in a run of an older version."""


@dataclass(frozen=True)
class RunManifest:
    """The manifest of a run."""

    cells: tuple[Listed, ...]
    checksums: Checksums | None
    raw: Mapping[str, Any]


def read_cell_manifest(folder: Path, *, verify: bool) -> CellManifest:
    """Reads the manifest of the cell in ``folder``; ``verify`` checks its checksum.

    Raises:
        RunError: it is missing, or a field is malformed.
        DamageError: it does not match its checksum.
    """
    file = folder / MANIFEST
    raw = read_document(file)[1]
    checksums = checksums_in(file, raw) if verify else None
    fields = Fields(file, raw)
    for name in ("method", "plan_hash", "key"):
        fields.maybe(fields.text, name)
    fields.maybe(fields.number, "wall_s")
    fields.maybe(fields.object, "stats")
    fields.maybe(fields.integer, "seed", 0, 1 << 64)
    _said(fields)
    return CellManifest(
        fields.maybe(fields.text, "id") or folder.name,
        fields.maybe(fields.words, "factors") or {},
        fields.maybe(fields.integer, "repeat", 0, _MAX_REPEATS) or 0,
        checksums,
        raw,
    )


def read_run_manifest(folder: Path, *, verify: bool) -> RunManifest:
    """Reads the manifest of the run in ``folder``; ``verify`` checks its checksum.

    Raises:
        RunError: it is missing, or a field is malformed.
        DamageError: it does not match its checksum.
    """
    file = folder / MANIFEST
    raw = read_document(file)[1]
    checksums = checksums_in(file, raw) if verify else None
    fields = Fields(file, raw)
    for name in ("title", "method", "commit", "start", "end"):
        fields.maybe(fields.text, name)
    fields.maybe(fields.number, "wall_s")
    for name in ("versions", "host", "settings"):
        fields.maybe(fields.object, name)
    _said(fields)
    _check_scenario(fields)
    if "expect" in raw:
        _check_claims(fields)
    _check_summary(fields)
    cells = tuple(_listed(entry) for entry in fields.objects("cells")) if "cells" in raw else ()
    return RunManifest(cells, checksums, raw)


def read_begun(folder: Path, *, verify: bool) -> Mapping[str, Any]:
    """What the interrupted run in ``folder`` was to be; empty if nothing says it, as in a run of an older version.

    Raises:
        RunError: a field is malformed.
        DamageError: the file does not match its checksum.
    """
    file = folder / STATE
    if not exists(file):
        return {}
    raw = read_document(file)[1]
    if verify:
        checksums_in(file, raw)
    fields = Fields(file, raw)
    identity, intended = fields.maybe(fields.object, "identity"), fields.maybe(fields.object, INTENDED)
    if identity is None or intended is None:
        return {}
    for name in ("title", "method"):
        identity.maybe(identity.text, name)
    identity.maybe(identity.object, "settings")
    _check_summary(intended)
    for entry in intended.objects("cells") if "cells" in intended.raw else ():
        _listed(entry)
    return {**{k: identity.raw[k] for k in ("title", "method", "settings") if k in identity.raw}, **intended.raw}


def _check_summary(fields: Fields) -> None:
    for figure in fields.objects("summary") if "summary" in fields.raw else ():
        figure.text("value")
        figure.maybe(figure.text, "title")


def _said(fields: Fields) -> None:
    for name in ("warnings", "notes", "unobserved"):
        fields.maybe(fields.texts, name)


def _check_scenario(fields: Fields) -> None:
    if isinstance(fields.raw.get("scenario"), str):
        return
    scenario = fields.maybe(fields.object, "scenario")
    if scenario is not None:
        for name in ("path", "text", "sha256"):
            scenario.maybe(scenario.text, name)


def _check_claims(fields: Fields) -> None:
    for claim in fields.objects("expect"):
        claim.text("check")
        for name in (
            "claim",
            "source",
            "note",
            "expected",
            "id",
            "paper",
            "tolerance",
            "refuted_by",
            "fitted",
            "beyond",
            "chance",
        ):
            claim.maybe(claim.text, name)
        where = claim.maybe(claim.object, "where")
        for name, value in where.raw.items() if where is not None else ():
            if not isinstance(value, str | int | float | list):
                raise claim.wrong("where", f"a text, a number or a list of them for {printable(name)}")


def _listed(entry: Fields) -> Listed:
    entry.maybe(entry.words, "factors")
    entry.maybe(entry.text, "error")
    entry.maybe(entry.integer, "repeat", 0, _MAX_REPEATS)
    return Listed(entry.text("id"), entry.maybe(entry.text, "checksum"))
