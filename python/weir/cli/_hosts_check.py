"""``weir hosts check``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli import _errors
from weir.cli._common import (
    console,
    emit_json,
    error_console,
    examples,
    json_option,
    plural,
    print_table,
    say,
    time_option,
)
from weir.cli._on import method_on
from weir.cli._scenarios import complete_scenario, load, scenario_options

if TYPE_CHECKING:
    from weir.hosts.facts import Facts, Interface, Rights
    from weir.hosts.fitness import Finding, Wish
    from weir.hosts.survey import Survey
    from weir.inventory import Inventory, Node
    from weir.plan import Plan
    from weir.scenario import Version

__all__ = ["check"]

_MAX_CELLS = 50
"""Cells of a scenario that are judged; of more, a regular selection."""
_EPILOG = examples(
    ("weir hosts check grid.yaml", "ask every node what it is"),
    ("weir hosts check grid.yaml --for my.yaml", "and what it lacks for a scenario"),
    ("weir hosts check grid.yaml --json", "for a program"),
)


@click.command(epilog=_EPILOG)
@click.argument("inventory", type=click.Path(path_type=Path))
@click.option(
    "--for", "wanted", metavar="FILE|NAME", shell_complete=complete_scenario, help="Say what is missing for a scenario."
)
@scenario_options
@time_option("--patience", "patience_s", "How long a node may take to answer. Default: 30s.")
@click.option("-q", "--quiet", is_flag=True, help="Print only what is missing.")
@json_option
def check(
    inventory: Path,
    wanted: str | None,
    version: Version,
    overrides: tuple[str, ...],
    patience_s: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Ask every node of an inventory at once what it is, and say what is missing.

    It reads only, and changes nothing on any node. Exits with 1 if something is missing.
    """
    from weir.hosts import fitness
    from weir.hosts.ssh import PATIENCE_S
    from weir.hosts.survey import survey
    from weir.inventory import load as load_inventory

    machines, findings = _known(load_inventory(inventory))
    wants = [] if wanted is None else _wants(machines, _plans(wanted, version, overrides))
    tools = sorted({tool for want in wants for tool in fitness.tools_of(want.plan)})
    with _progress(machines, quiet or as_json) as progress:
        found = survey(
            machines,
            tools=tools,
            programs=_programs(),
            parameters=sorted({name for want in wants for name in want.parameters()}),
            patience_s=patience_s or PATIENCE_S,
            progress=lambda node, state: progress(node, state),
        )
    findings += fitness.in_general(machines, found.facts, found.failed)
    findings += fitness.of_distances(found.distances)
    for want in wants:
        findings += fitness.for_scenario(machines, want.plan, found.facts, want.wishes)
        findings += [fitness.Finding("missing", text) for text in want.obstacles]
    findings = list(dict.fromkeys(findings))
    missing = [finding for finding in findings if finding.severity == "missing"]
    if as_json:
        emit_json(_json(machines, found, findings, wanted))
    else:
        _print(machines, found, findings, wanted, quiet=quiet)
    if missing:
        raise click.exceptions.Exit(_errors.FAILED)


def _known(machines: Inventory) -> tuple[Inventory, list[Finding]]:
    """The inventory with the nodes that are reserved by now, and a finding if a scheduler does not say which."""
    from weir.hosts.fitness import Finding
    from weir.inventory.reserved import with_known_nodes
    from weir.reserve import ReserveError

    try:
        return with_known_nodes(machines), []
    except ReserveError as error:
        return machines, [Finding("missing", str(error))]


def _plans(name: str, version: Version, overrides: Sequence[str]) -> list[dict[str, Any]]:
    cells = load(name, version=version, overrides=overrides, quiet=True).cells()
    return [cell.plan() for cell in cells[:: -(-len(cells) // _MAX_CELLS)]]


@dataclass(frozen=True)
class _Want:
    """A plan, what it changes on nodes, and what of it no nodes could execute."""

    plan: Plan
    wishes: Mapping[int, tuple[Wish, ...]]
    obstacles: tuple[str, ...]

    def parameters(self) -> Iterator[str]:
        """The kernel's parameters that it changes."""
        for several in self.wishes.values():
            yield from (wish.parameter for wish in several if wish.parameter is not None)


def _wants(machines: Inventory, plans: Sequence[dict[str, Any]]) -> list[_Want]:
    from weir import methods
    from weir.inventory import InventoryError
    from weir.plan import typed

    name = method_on(Path(machines.file))
    method = None if name is None else methods.get(name, machines.file)
    found = []
    for plan in plans:
        made = typed(plan)
        try:
            machines.bind(made)
        except InventoryError:  # what is wrong is said by the judgement itself
            method = None
        why = None if method is None else method.obstacle(plan)
        wishes = method.wishes(plan) if method is not None and why is None else {}
        found.append(_Want(made, wishes, () if why is None else (why,)))
    return found


def _programs() -> dict[str, str]:
    """The hashes of weir's programs that run on nodes, by name; without those that are not built."""
    import hashlib

    from weir._programs import ProgramError, find

    found = {}
    for name in ("weir-agent",):
        with contextlib.suppress(ProgramError, OSError):
            found[name] = hashlib.sha256(find(name).read_bytes()).hexdigest()
    return found


@contextlib.contextmanager
def _progress(inventory: Inventory, quiet: bool) -> Iterator[Callable[[Node, str], None]]:
    """A line that counts, on a terminal."""
    out = error_console()
    if quiet or not out.is_terminal:
        yield lambda _node, _state: None
        return
    done: dict[str, str] = {}
    total = len(inventory.nodes)
    with out.status(f"0 of {plural(total, 'node')}") as status:

        def told(node: Node, state: str) -> None:
            done[node.name] = state
            asked = sum(each == "asked" for each in done.values())
            lost = sum(each == "missing" for each in done.values())
            text = f"{asked} of {plural(total, 'node')}" + (f", {lost} cannot be reached" if lost else "")
            status.update(text)

        yield told


def _print(
    inventory: Inventory, found: Survey, findings: Sequence[Finding], wanted: str | None, *, quiet: bool
) -> None:
    if not quiet:
        headers = ("node", "kernel", "processors", "network", "qdisc", "clock", "rights", "memory", "disk", "agent")
        rows = [_row(node, found.facts.get(node.name)) for node in inventory.nodes]
        if rows:
            print_table(headers, rows)
            say()
    out = console()
    shown = [finding for finding in findings if finding.severity == "missing" or not quiet]
    for text, nodes, severity in _grouped(shown):
        where = _names(nodes)
        out.print(f"{severity}: {where}{text}", style="red" if severity == "missing" else "dim")
    missing = sum(finding.severity == "missing" for finding in findings)
    reached = f"{len(found.facts)} of {plural(len(inventory.nodes), 'node')} reached"
    purpose = "" if wanted is None else f" for {wanted}"
    if not quiet:
        say(
            f"{reached}; {plural(missing, 'thing')} missing{purpose}"
            if missing
            else f"{reached}; nothing missing{purpose}"
        )


def _grouped(findings: Sequence[Finding]) -> list[tuple[str, list[str], str]]:
    """Findings with equal words once, with all their nodes; what is missing first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for finding in sorted(findings, key=lambda finding: finding.severity != "missing"):
        nodes = groups.setdefault((finding.severity, finding.text), [])
        if finding.node:
            nodes.append(finding.node)
    return [(text, nodes, severity) for (severity, text), nodes in groups.items()]


def _names(nodes: Sequence[str]) -> str:
    if not nodes:
        return ""
    most = 6
    more = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return ", ".join(nodes[:most]) + more + ": "


def _row(node: Node, facts: Facts | None) -> tuple[str, ...]:
    if facts is None:
        return (node.name, "not reached", *[""] * 8)
    interface = facts.interface(node.interface, node.experiment_address)
    return (
        node.name,
        f"{facts.kernel}, Python {facts.python}",
        f"{facts.processors} x {facts.processor or facts.machine}" + (f", {facts.governor}" if facts.governor else ""),
        "unknown" if interface is None else _network(interface),
        "" if interface is None else interface.qdisc or "",
        _clock(facts),
        _rights(facts.rights),
        _size(facts.memory_free_bytes),
        _size(facts.disk_free_bytes),
        "cached" if all(facts.programs.values()) and facts.programs else "no",
    )


def _network(interface: Interface) -> str:
    from weir.language import show_rate

    speed = show_rate(interface.speed_bps) if interface.speed_bps else "virtual" if interface.virtual else "?"
    offloads = " ".join(interface.offloads) or "no offloads"
    return f"{interface.name} {speed} MTU {interface.mtu_bytes or '?'} {interface.driver or '?'} ({offloads})"


def _clock(facts: Facts) -> str:
    kept = {True: "NTP", False: "no NTP", None: "?"}[facts.synchronised]
    offset_ms = facts.clock_offset_s * 1e3
    return f"{offset_ms:+.1f} ms, {kept}" if abs(offset_ms) < 1e4 else f"{facts.clock_offset_s:+.0f} s, {kept}"


def _rights(rights: Rights) -> str:
    if rights.root:
        return "root"
    can = [
        *(["sudo"] if "ALL" in rights.sudo else [f"sudo for {len(rights.sudo)}"] if rights.sudo else []),
        *(["network"] if rights.network else []),
        *(["BPF"] if rights.bpf else []),
    ]
    return ", ".join(can) or "none"


def _size(count: int | None) -> str:
    return "?" if count is None else f"{count / 1e9:.1f} GB"


def _json(inventory: Inventory, found: Survey, findings: Sequence[Finding], wanted: str | None) -> dict[str, Any]:
    nodes = []
    for node in inventory.nodes:
        facts = found.facts.get(node.name)
        error = found.failed.get(node.name)
        nodes.append(
            {
                "name": node.name,
                "set": node.set,
                "address": node.address,
                "reached": facts is not None,
                "error": None if error is None else str(error),
                "facts": None if facts is None else _plain(facts),
            }
        )
    return {
        "inventory": inventory.file,
        "scenario": wanted,
        "nodes": nodes,
        "distances": [asdict(distance) for distance in found.distances],
        "findings": [asdict(finding) for finding in findings],
    }


def _plain(facts: Facts) -> dict[str, Any]:
    made = asdict(facts)
    made["rights"] = {**made["rights"], "capabilities": sorted(facts.rights.capabilities)}
    return made
