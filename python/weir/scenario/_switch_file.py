"""Switches in files of their own, such as those that ``weir switch characterise`` writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weir.language.problem import Log
from weir.language.spec import Struct
from weir.language.tree import read

from ._lang_switch import Switch

__all__ = ["completed"]

_MAX_BYTES = 1 << 20


def completed(switch: Switch, folder: str, log: Log) -> Switch:
    """The switch with what its file says; its own keys come before those of the file.

    ``folder`` is the scenario's; a path of the command line is relative to the working directory.

    Raises:
        Invalid: the file cannot be read, or is no switch; the reasons are in ``log``.
    """
    if switch.file is None:
        return switch
    mark = switch.at("file")
    if switch.preset is not None:
        raise log.error(mark, "`file` and `preset` both say which switch it is; give one")
    path = Path(mark.base(folder), switch.file)
    found = Struct(Switch).parse(read(_content(path, switch, log), log, str(path)), log)
    if found.file is not None:
        raise log.error(found.at("file"), "a switch in a file names no other file")
    own = {name: value for name in switch.marks if name != "file" and (value := getattr(switch, name)) is not None}
    return replace(found, **own, mark=switch.mark, marks={**found.marks, **switch.marks})


def _content(path: Path, switch: Switch, log: Log) -> bytes:
    mark = switch.at("file")
    try:
        if not path.is_file():
            raise log.error(mark, f"{path} is not a file" if path.exists() else f"there is no file {path}")
        if path.stat().st_size > _MAX_BYTES:
            raise log.error(mark, f"{path} has more than {_MAX_BYTES >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise log.error(mark, f"{path}: {error.strerror}") from None
