"""``weir hosts deploy``, ``configure``, ``collect``, ``archive`` and ``clean``: stages of an experiment, each alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli import _errors
from weir.cli._clean_nodes import clean_nodes
from weir.cli._common import console, emit_json, examples, json_option, plural, print_table

if TYPE_CHECKING:
    from weir.deploy import Keeper
    from weir.stages import Done

__all__ = ["archive", "clean", "collect", "configure", "deploy"]

_INVENTORY = click.argument("inventory", type=click.Path(path_type=Path, dir_okay=False))
_RUN = click.argument("run", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))


@click.command(epilog=examples(("weir hosts deploy nodes.yaml", "before a run, to see that it is possible")))
@_INVENTORY
@json_option
def deploy(inventory: Path, as_json: bool) -> None:
    """Bring weir's agent to every node of an INVENTORY.

    It stays in ~/.cache/weir of the user there, under its hash, and is verified before each use. Runs bring it
    themselves. Before, this calls the hooks that the INVENTORY names for this stage; `weir hosts clean` undoes them.
    """
    from weir.deploy import deploy as bring

    done = _call("deploy", inventory, None)
    if not as_json:
        _show(done)
    _on_each(inventory, lambda keeper: bring(keeper, "weir-agent"), as_json=as_json, title="weir-agent", done=done)


@click.command(epilog=examples(("weir hosts configure nodes.yaml", "try the hooks that configure equipment")))
@_INVENTORY
@json_option
def configure(inventory: Path, as_json: bool) -> None:
    """Call the hooks that an INVENTORY names for the stage configure.

    Runs call them before each cell, and tell them its factors; here there is no cell. What they answer is printed.
    `weir hosts clean` undoes it. Nodes are changed by runs only, which know what a scenario needs.
    """
    done = _call("configure", inventory, None)
    if as_json:
        emit_json({"hooks": [one.to_json() for one in done]})
        return
    _show(done)
    if not done:
        console().print(f"{inventory} names no hook for this stage")


@click.command(epilog=examples(("weir hosts collect nodes.yaml runs/my", "keep what the nodes are, beside a run")))
@_INVENTORY
@_RUN
@json_option
def collect(inventory: Path, run: Path, as_json: bool) -> None:
    """Keep the environment of every node of an INVENTORY in DIR/environment.

    Kernel, processor, memory, parameters, addresses, routes, queueing disciplines, offloads. Runs keep the same of
    their nodes, in the first cell that each is used for. Before, this calls the hooks that the INVENTORY names for this
    stage, and keeps what they answer in DIR/hooks.
    """
    import json

    from weir._inside import Folder
    from weir.stages import keep

    done = _call("collect", inventory, run)
    with Folder(run) as folder:
        keep(done, "hooks/collect.json", folder)
    if not as_json:
        _show(done)

    def take(keeper: Keeper) -> str:
        facts = keeper.ask("facts")
        with Folder(run) as folder, folder.inner("environment", make=True) as inner:
            return str(inner.write(f"{keeper.name}.json", (json.dumps(facts, indent=1) + "\n").encode()))

    _on_each(inventory, take, as_json=as_json, title="file", done=done)


@click.command(epilog=examples(("weir hosts archive runs/my", "into my.weir.tar.gz; `weir open` reads it")))
@_RUN
@click.option("-o", "--out", type=click.Path(path_type=Path), help="File. Default: NAME.weir.tar.gz beside DIR.")
def archive(run: Path, out: Path | None) -> None:
    """Put the run in DIR, with everything needed to analyse it in ten years, into one file."""
    from weir.archive import pack
    from weir.stages import tasks

    file = out or run.absolute().with_name(f"{run.absolute().name}.weir.tar.gz")
    with tasks.Tasks(run if tasks.exists(run) else None, fresh=False).task("archive"):
        count = pack(run, file)
    console().print(f"{plural(count, 'file')}, {file.stat().st_size / 1e6:.1f} MB: {file}")


@click.command(epilog=examples(("weir hosts clean nodes.yaml", "the same as weir clean --on nodes.yaml")))
@_INVENTORY
@click.option(
    "--all", "everything", is_flag=True, help="Also machines in use by an active experiment, which then fails."
)
@click.option("--dry-run", is_flag=True, help="Only list what would be undone.")
@json_option
def clean(inventory: Path, everything: bool, dry_run: bool, as_json: bool) -> None:
    """Undo what lost experiments changed on the nodes of an INVENTORY, from their journals alone.

    Then call the hooks of the INVENTORY that have something to undo, of lost runs and of stages that were called alone.
    """
    clean_nodes(inventory, everything=everything, dry_run=dry_run, as_json=as_json)


def _call(stage: str, inventory: Path, run: Path | None) -> list[Done]:
    """Calls the hooks of ``stage``; what they have to undo stays until the nodes are cleaned.

    Raises:
        HookError: one has failed.
    """
    from weir.inventory import load
    from weir.inventory.reserved import with_known_nodes
    from weir.stages import Hooks

    held = load(inventory)
    return Hooks(with_known_nodes(held), run=run, kept=True).call(stage) if stage in held.hooks else []


def _show(done: list[Done]) -> None:
    """What hooks have answered."""
    import json

    for one in done:
        facts = f": {json.dumps(dict(one.answer.facts))}" if one.answer.facts else ""
        files = f", {plural(len(one.answer.files), 'file')}" if one.answer.files else ""
        console().print(f"{one.command[0]}: {one.seconds:.1f} s{files}{facts}", markup=False)


def _on_each(inventory: Path, act: Callable[[Keeper], str], *, as_json: bool, title: str, done: list[Done]) -> None:
    """Does ``act`` on every node, several at a time, and prints what it returns."""
    from concurrent.futures import ThreadPoolExecutor

    from weir.deploy import Keeper
    from weir.hosts.ssh import connect_all
    from weir.inventory import load
    from weir.methods import MethodError

    nodes = {node.name: node for node in load(inventory).nodes}

    def one(name: str) -> dict[str, Any]:
        try:
            return {"node": name, "result": act(Keeper(made.places[name], nodes[name].python)), "error": None}
        except MethodError as error:
            return {"node": name, "result": None, "error": str(error)}

    with connect_all(nodes.values()) as made, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(one, made.places))
    found += [{"node": name, "result": None, "error": str(error)} for name, error in made.failed.items()]
    if as_json:
        emit_json({"nodes": found, "hooks": [one.to_json() for one in done]})
    else:
        print_table(("node", title), [(one["node"], one["error"] or one["result"]) for one in found])
    if any(one["error"] for one in found):
        raise click.exceptions.Exit(_errors.FAILED)
