"""Archives of runs: one file with everything that is needed to analyse a run in ten years.

An archive is a gzipped tar file of one folder: the run as it is - scenario, plans, tables, manifests, what was kept of
the machines - and before it ``ARCHIVE.json``, which lists every file with its size and SHA-256, and ``READ-ME.txt``,
which says what the tables mean for readers without weir. Tar, gzip, JSON and Parquet have several readers each.

An archive is a stranger's: nothing of it is written outside of the folder that is asked for, and only what its list
names, with the sizes and checksums of the list.
"""

from __future__ import annotations

from weir.archive._archive import ArchiveError, pack, unpack

__all__ = ["ArchiveError", "pack", "unpack"]
