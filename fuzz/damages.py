"""Damages a run folder, from a seed.

Files are deleted, cut, swapped; links, pipes and devices take their places; fields of JSON are changed; bits are
flipped.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from weir.run import checksums

__all__ = ["change_field", "damage_folder", "flip_bit", "forget_checksums", "seal_anew"]

_WORDS = (
    "",
    "x",
    "../../../etc/passwd",
    "\x1b]0;title\x07",
    "\u202egnp.exe",
    "a\nb",
    "\ud800",
    "é" * 300,
    "9" * 400,
    "1e999",
    "goodput.mean > 0",
    "(" * 400 + "1" + ")" * 400,
    "NaN",
)
_NUMBERS = (
    0,
    1,
    -1,
    2,
    255,
    65_536,
    2**31 - 1,
    2**31,
    2**32,
    2**53 + 1,
    2**60,
    2**63,
    2**64,
    10**30,
    10**300,
    0.5,
    -0.0,
)
_OTHERS = (1e308, -1e308, float("nan"), float("inf"), True, False, None)


def damage_folder(run: Path, random_: random.Random, other: Path) -> str:
    """Damages the files of ``run``; ``other`` is a run of the same shape to take files from. Returns a description."""
    return random_.choice(_FOLDERS)(run, random_, other)


def flip_bit(run: Path, random_: random.Random) -> str:
    """Flips one bit of one file, small files as often as large ones. Returns a description."""
    file = random_.choice(_files(run))
    content = bytearray(file.read_bytes())
    if not content:
        return f"nothing: {_name(file, run)} is empty"
    at, bit = random_.randrange(len(content)), random_.randrange(8)
    content[at] ^= 1 << bit
    file.write_bytes(content)
    return f"bit {bit} of byte {at} of {_name(file, run)}"


def change_field(run: Path, random_: random.Random) -> str:
    """Changes a field of a JSON file by its type. Returns a description."""
    file = random_.choice([f for f in _files(run) if f.suffix == ".json"])
    document = json.loads(file.read_text(encoding="utf-8"))
    places = list(_places(document))
    holder, key, path = random_.choice(places)
    said = _change(holder, key, random_)
    file.write_text(json.dumps(document), encoding="utf-8")
    return f"{_name(file, run)}: {path} {said}"


def forget_checksums(run: Path) -> None:
    """Makes ``run`` one of an older version: removes all checksums."""
    for file, document in _manifests(run):
        document.pop("checksums", None)
        document["format"] = 1
        for entry in _cells(document):
            entry.pop("checksum", None)
        file.write_text(json.dumps(document), encoding="utf-8")


def seal_anew(run: Path) -> None:
    """Gives ``run`` the checksums of its current content, as after deliberate damage."""
    own = {}
    for file, document in _manifests(run):
        if "checksums" not in document:
            continue
        for entry in _cells(document):
            if "checksum" in entry:
                entry["checksum"] = own.get(str(entry.get("id")), entry["checksum"])
        names = document["checksums"].get("files") if isinstance(document["checksums"], dict) else None
        there = [n for n in names if (file.parent / n).is_file()] if isinstance(names, dict) else []
        sealed = checksums.seal(document, file.parent, there)
        own[file.parent.name] = sealed["checksums"]["manifest"]
        file.write_text(json.dumps(sealed), encoding="utf-8")


def _manifests(run: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Manifests of the cells, then that of the run, which names them."""
    for file in (*sorted(run.glob("cells/*/manifest.json")), run / ".run.json", run / "manifest.json"):
        if file.is_file():
            document = json.loads(file.read_text(encoding="utf-8"))
            if isinstance(document, dict):
                yield file, document


def _cells(document: dict[str, Any]) -> list[dict[str, Any]]:
    cells = document.get("cells")
    return [c for c in cells if isinstance(c, dict)] if isinstance(cells, list) else []


def _files(run: Path) -> list[Path]:
    derived = {"report.html", ".lock"}
    return sorted(f for f in run.rglob("*") if f.is_file() and f.name not in derived)


def _name(file: Path, run: Path) -> str:
    return str(file.relative_to(run))


def _places(value: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every field: its container, its key there, and its path."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        place = f"{path}.{key}"
        yield value, key, place
        yield from _places(inner, place)


def _change(holder: Any, key: Any, random_: random.Random) -> str:
    match random_.randrange(10):
        case 0:
            del holder[key]
            return "deleted"
        case 1 if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
            return "renamed"
        case 2:
            deep: Any = 1
            for _ in range(random_.choice((70, 500, 900))):
                deep = [deep] if random_.random() < 0.5 else {"a": deep}
            holder[key] = deep
            return "nested deeply"
        case 3 if isinstance(holder[key], list):
            holder[key] = holder[key] * random_.choice((0, 2, 1000 // max(len(holder[key]), 1)))
            return "repeated"
        case 4 | 5 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = holder[key] * random_.choice((2, 10, 1000, 10**6, 10**9, -1)) + random_.choice((0, 0, 1, -1))
            return f"becomes {holder[key]!r}"[:200]
    holder[key] = _value(random_)
    return f"becomes {holder[key]!r}"[:200]


def _value(random_: random.Random) -> Any:
    simple = random_.choice((random_.choice(_NUMBERS), random_.choice(_WORDS), random_.choice(_OTHERS)))
    return random_.choice((simple, simple, simple, [simple], [], {}, {"a": simple}))


# Folders -------------------------------------------------------------------------------------------------------------


def _delete(run: Path, random_: random.Random, _other: Path) -> str:
    file = random_.choice(_files(run))
    file.unlink()
    return f"{_name(file, run)} deleted"


def _delete_folder(run: Path, random_: random.Random, _other: Path) -> str:
    folder = random_.choice([run / "cells", *_cell_folders(run), *_cell_folders(run)])
    shutil.rmtree(folder)
    return f"{_name(folder, run)} deleted"


def _cut(run: Path, random_: random.Random, _other: Path) -> str:
    file = random_.choice(_files(run))
    size = random_.choice((0, 1, random_.randrange(file.stat().st_size + 1), file.stat().st_size - 1))
    os.truncate(file, size)
    return f"{_name(file, run)} cut to {size} bytes"


def _append(run: Path, random_: random.Random, _other: Path) -> str:
    file = random_.choice(_files(run))
    with file.open("ab") as opened:
        opened.write(random_.randbytes(random_.choice((1, 100, 10_000))))
    return f"{_name(file, run)} got bytes at its end"


def _grow(run: Path, random_: random.Random, _other: Path) -> str:
    file = random_.choice(_files(run))
    os.truncate(file, 20_000_000_000)  # a hole: it takes no space, but reading it all takes the memory
    return f"{_name(file, run)} has a hole of 20 GB"


def _overwrite(run: Path, random_: random.Random, _other: Path) -> str:
    file = random_.choice(_files(run))
    size = file.stat().st_size
    begin = random_.randrange(size)
    length = min(size - begin, random_.choice((1, 8, 512, 4096)))
    filling = random_.choice((bytes(length), random_.randbytes(length)))
    with file.open("r+b") as opened:
        opened.seek(begin)
        opened.write(filling)
    return f"{length} bytes of {_name(file, run)} overwritten from {begin}"


def _swap(run: Path, random_: random.Random, _other: Path) -> str:
    one, two = random_.sample(_files(run), 2)
    between = run / "between"
    one.rename(between)
    two.rename(one)
    between.rename(two)
    return f"{_name(one, run)} and {_name(two, run)} swapped"


def _swap_tables(run: Path, random_: random.Random, _other: Path) -> str:
    """The likeliest mistake: swaps the same file of two cells."""
    one, two = random_.sample(_cell_folders(run), 2)
    name = random_.choice(sorted(f.name for f in one.iterdir()))
    between = run / "between"
    (one / name).rename(between)
    (two / name).rename(one / name)
    between.rename(two / name)
    return f"{name} of {one.name} and {two.name} swapped"


def _swap_cells(run: Path, random_: random.Random, _other: Path) -> str:
    one, two = random_.sample(_cell_folders(run), 2)
    between = run / "between"
    one.rename(between)
    two.rename(one)
    between.rename(two)
    return f"{one.name} and {two.name} swapped"


def _copy_cell(run: Path, random_: random.Random, _other: Path) -> str:
    cell = random_.choice(_cell_folders(run))
    name = random_.choice((f"{cell.name} (copy)", "0099-r0", "a\nb", "\x1b[31m", os.fsdecode(b"\xff\xfe")))
    shutil.copytree(cell, cell.with_name(name))
    return f"{cell.name} copied to {name!r}"


def _foreign_file(run: Path, random_: random.Random, other: Path) -> str:
    file = random_.choice(_files(run))
    source = other / file.relative_to(run)
    if not source.exists():
        return f"nothing: the other run has no {_name(file, run)}"
    shutil.copy(source, file)
    return f"{_name(file, run)} of another run"


def _foreign_cell(run: Path, random_: random.Random, other: Path) -> str:
    cell = random_.choice(_cell_folders(run))
    shutil.rmtree(cell)
    shutil.copytree(other / cell.relative_to(run), cell)
    return f"{_name(cell, run)} of another run"


_KINDS = ("folder", "pipe", "loop", "zero", "dangling", "link", "elsewhere", "device", "socket")


def _other_kind(run: Path, random_: random.Random, other: Path) -> str:
    """Replaces a file by something else of the same name; includes files that readers do not open."""
    file = random_.choice([*_files(run), *_files(run), run / ".lock", run / "report.html"])
    return _become(run, file, random_.choice(_KINDS), other)


def _other_kind_of_folder(run: Path, random_: random.Random, other: Path) -> str:
    """Replaces a folder by something else of the same name, or creates something under the name of one that weir
    creates.
    """
    places = (run / "cells", *_cell_folders(run), run / ".partial", run / "figures", run / ".partial" / ".token")
    return _become(run, random_.choice(places), random_.choice(("elsewhere", *_KINDS[1:])), other)


def _become(run: Path, place: Path, kind: str, other: Path) -> str:
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    match kind:
        case "folder":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
        case "loop":
            place.symlink_to(place.name)
        case "zero":
            place.symlink_to("/dev/zero")
        case "link":  # to the same of another run, as plausible as a link can be
            place.symlink_to(other / place.relative_to(run))
        case "elsewhere":
            place.symlink_to(other)
        case "device" if os.geteuid() == 0:
            os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        case "socket":
            os.mknod(place, stat.S_IFSOCK | 0o666)
        case _:
            place.symlink_to("nowhere")
    return f"{_name(place, run)} becomes a {kind}"


def _cell_folders(run: Path) -> list[Path]:
    return sorted(p for p in (run / "cells").iterdir() if p.is_dir())


_FOLDERS: tuple[Callable[[Path, random.Random, Path], str], ...] = (
    _delete,
    _delete,
    _delete_folder,
    _cut,
    _cut,
    _append,
    _grow,
    _overwrite,
    _overwrite,
    _swap,
    _swap_tables,
    _swap_cells,
    _copy_cell,
    _foreign_file,
    _foreign_cell,
    _other_kind,
    _other_kind,
    _other_kind_of_folder,
    _other_kind_of_folder,
)
