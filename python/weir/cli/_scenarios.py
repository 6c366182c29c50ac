"""Finding and loading scenarios for the command line: a file, or a name of the catalogue."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from weir.scenario import Scenario, Version

__all__ = [
    "catalogue_files",
    "complete_scenario",
    "load",
    "locate",
    "parse_set",
    "print_problems",
    "scenario_files",
    "scenario_options",
    "settings",
    "slug",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def catalogue_folder() -> Path:
    """The folder of the scenarios that come with weir."""
    import weir

    package = Path(weir.__file__).parent
    inside = package / "catalogue"
    return inside if inside.is_dir() else package.parent.parent / "scenarios"


VALIDATION = "validation"
"""The folder of the grids of ``weir validate``: they make no claims, and are not part of the catalogue."""


def catalogue_files() -> dict[str, Path]:
    """Name (``A/large-flows``) and file of every scenario of the catalogue, sorted by name."""
    return {name: file for name, file in scenario_files().items() if not name.startswith(f"{VALIDATION}/")}


def scenario_files() -> dict[str, Path]:
    """Name and file of every scenario of weir: the catalogue, and the grids of ``weir validate``."""
    root = catalogue_folder()
    files = sorted(root.rglob("*.yaml"))
    return {file.relative_to(root).with_suffix("").as_posix(): file for file in files}


def complete_scenario(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    """Completes names of the catalogue, and files."""
    from click.shell_completion import CompletionItem

    names = [CompletionItem(name) for name in scenario_files() if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


def locate(name: str) -> Path:
    """The file of a scenario: ``name`` is a path, or a name of the catalogue.

    Raises:
        click.BadParameter: it is neither.
    """
    file = Path(name)
    if file.is_file():
        return file
    known = scenario_files()
    if name in known:
        return known[name]
    if file.is_dir():
        raise click.BadParameter(f"{name} is a folder; a scenario is a YAML file")
    close = difflib.get_close_matches(name.casefold(), known, 1, 0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise click.BadParameter(f"there is no file {name!r}, nor a scenario of that name in the catalogue.{hint}")


def load(name: str, *, version: Version = "full", overrides: Sequence[str] = (), quiet: bool = False) -> Scenario:
    """Loads a version of the scenario called ``name``; prints its warnings on standard error unless ``quiet``.

    Raises:
        click.BadParameter: it does not exist, or an override is not ``path=value``.
        weir.scenario.ScenarioError: it is wrong; the error lists every problem.
    """
    from weir import scenario

    loaded = scenario.load(
        locate(name), quick=version == "quick", realtime=version == "realtime", overrides=parse_set(overrides)
    )
    if not quiet:
        print_problems(loaded.problems, file=sys.stderr)
    return loaded


def parse_set(overrides: Sequence[str]) -> dict[str, str]:
    """``path=value`` words as a mapping.

    Raises:
        click.BadParameter: a word has no ``=``, or a path is given twice.
    """
    found: dict[str, str] = {}
    for word in overrides:
        path, equals, value = word.partition("=")
        path = path.strip()
        if not equals or not path:
            raise click.BadParameter(f"{word!r} is not path=value, such as transport.cc=htcp", param_hint="--set")
        if path in found:
            raise click.BadParameter(f"{path!r} is given twice", param_hint="--set")
        found[path] = value
    return found


def settings(*, version: Version, overrides: Sequence[str]) -> dict[str, Any]:
    """The settings that distinguish a changed run from the scenario itself; empty without changes."""
    changed: dict[str, Any] = {} if version == "full" else {version: True}
    return changed | ({"set": parse_set(overrides)} if overrides else {})


def slug(name: str, *, version: Version) -> str:
    """The folder name of a run: ``A/large-flows`` gives ``A-large-flows``, a file its name."""
    is_file = Path(name).is_file()
    base = Path(name).stem if is_file else name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", base).strip("-.") + ("" if version == "full" else f"-{version}")


def scenario_options(function: Function) -> Function:
    """Adds the options that change a scenario, as ``version: Version`` and ``overrides: tuple[str, ...]``."""
    quick = click.option(
        "--quick",
        "version",
        flag_value="quick",
        default="full",
        help="Use the scenario's quick version, with shorter and fewer cells.",
    )
    realtime = click.option(
        "--realtime",
        "version",
        flag_value="realtime",
        default="full",
        help="Use its version for a real clock, which one machine can carry.",
    )
    change = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help="Change one value; repeatable. File names in it are relative to the working directory.",
    )
    return quick(realtime(change(function)))


_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}


def print_problems(problems: Sequence[Any], file: Any = None) -> None:
    """Prints problems as ``file:line:column: message``."""
    from weir.cli._common import console, error_console

    out = error_console() if file is sys.stderr else console()
    for problem in problems:
        out.print(str(problem), style=_STYLES[problem.severity])
