"""``weir testbed``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir._duration import clock_text
from weir.cli import _errors
from weir.cli._common import console, emit_json, examples, json_option, plural, print_table, say, time_option

if TYPE_CHECKING:
    from weir.testbed import Bed, Step

__all__ = ["command"]

_EPILOG = examples(
    ("weir testbed up --nodes 12 --rtt 18ms", "a1 ... a12 and b1 ... b12, 18 ms apart"),
    ("weir testbed exec a1 -- ip address", "run a command in a node"),
    ('ssh -F "$(weir testbed status --config)" a1', "the same as on a real machine"),
    ("weir testbed start a1", "bring a node back that has ended"),
    ("weir testbed down", "remove every trace"),
)


@click.group(epilog=_EPILOG)
def command() -> None:
    """Make hosts on this machine, to rehearse experiments on real ones.

    Each node has its own network, files, host name, processes and OpenSSH server. They share this machine's processor
    and kernel. weir writes an inventory for --on, with a key and the nodes' host keys.
    """


_UP = examples(
    ("weir testbed up --nodes 12 --rtt 18ms", "two sites with 12 nodes each"),
    ("weir testbed up --rate 100Mbps --queue 0.5bdp --loss 0.1%", "a slower link between two sites"),
    ("weir testbed up --nodes 12 --slurm", "with a Slurm that reserves them"),
    ("weir testbed up --emulator", "with a node that emulates each scenario's network"),
    ("weir testbed up --name other --sites 3 --nodes 1", "a second test bed beside the first"),
)
_name_option = click.option("--name", default="bed", show_default=True, help="Name of the test bed.")


@command.command(epilog=_UP)
@click.option("--sites", type=int, default=2, show_default=True, help="Number of sites.")
@click.option("--nodes", type=int, default=2, show_default=True, help="Number of nodes at each site.")
@click.option("--rtt", metavar="TIME", help="Round-trip time between two sites. Default: 18ms.")
@click.option("--rate", metavar="RATE", help="Rate of the link between two sites. Default: 1Gbps.")
@click.option(
    "--queue", metavar="QUEUE", help="Queue before it: a size such as 100packets, or a discipline. Default: 1bdp."
)
@click.option("--loss", metavar="LOSS", help="Random losses on it, in each direction, such as 0.1%. Default: none.")
@click.option(
    "--links",
    "link_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with `connections`: links of single pairs of sites.",
)
@click.option("--access", metavar="RATE", help="Rate of each node's link. Default: 1Gbps.")
@click.option("--mtu", metavar="SIZE", help="Largest IP packet. Default: 1500B.")
@_name_option
@click.option("--control", metavar="NETWORK", help="Network for SSH, such as 10.200.0.0/16. Default: one that is free.")
@click.option("--one-network", is_flag=True, help="SSH takes the links of the experiment; this machine is at site A.")
@click.option(
    "--emulator", is_flag=True, help="One more node, which emulates the network of each scenario between the others."
)
@click.option("--user", default="root", show_default=True, help="User that logs in; made if it does not exist here.")
@click.option("--disk", metavar="SIZE", default="1GiB", show_default=True, help="Space for new files, on each node.")
@time_option("--time-limit", "limit_s", "Remove the test bed after this time. Default: 12h.")
@click.option("--slurm", "with_slurm", is_flag=True, help="Run a Slurm over it; the inventory reserves by it.")
@json_option
def up(
    sites: int,
    nodes: int,
    link_file: Path | None,
    name: str,
    control: str | None,
    one_network: bool,
    emulator: bool,
    user: str,
    disk: str,
    limit_s: float | None,
    with_slurm: bool,
    as_json: bool,
    **links: str | None,
) -> None:
    """Make a test bed, and wait until every node answers.

    Two sites are joined by one link, nodes by their site's router. Nodes are named a1, a2, ..., b1, ...; in a node,
    these names are addresses of the experiment, and a1.control is that for SSH. Quantities, queues and losses are
    written as in scenarios. Needs root, and Debian's package openssh-server; no server of it has to run.

    With --emulator, the nodes and one more, `between`, are in one switch. Runs on the inventory then have the topology
    of their scenario: every packet between two hosts passes the emulator on that node.

    With --slurm, the first node is the front end of a real Slurm, whose partitions are the sites. `weir hosts reserve`
    and runs get the nodes from it. Needs Debian's packages slurmctld, slurmd and munge, too.
    """
    from weir.testbed import LinkOptions, Request, slurm, up

    given: dict[str, Any] = {} if limit_s is None else {"time_limit_s": limit_s}
    options = LinkOptions(**links)
    given |= {
        "link_file": link_file,
        "control": control,
        "one_network": one_network,
        "emulator": emulator,
        "user": user,
        "disk_bytes": _size(disk),
    }
    request = Request(sites=sites, nodes=nodes, links=options, name=name, **given)
    if with_slurm and emulator:
        raise click.UsageError("--slurm: not with --emulator, whose node no partition has")
    if with_slurm:
        slurm.require()
    begin = time.monotonic()
    with _Progress() as progress:
        bed = up(request, progress)
        if with_slurm:
            _add_slurm(bed, progress)
    if as_json:
        emit_json(_facts(bed))
        return
    said = console()
    said.print(f"test bed {bed.name}: {plural(len(bed.nodes), 'node')}, up in {time.monotonic() - begin:.1f} s")
    said.print(f"inventory  {bed.inventory}")
    said.print(f"ssh        ssh -F {bed.config} {bed.nodes[0].name}")


def _add_slurm(bed: Bed, progress: _Progress) -> None:
    """Starts Slurm; without it, the test bed is not what was asked for."""
    from weir.testbed import Step, down, slurm

    try:
        slurm.start(bed, lambda done: progress(Step("slurm", done, len(bed.nodes))))
    except BaseException:
        down(bed.name)
        raise


def _size(text: str) -> int:
    """A size in bytes."""
    from weir.run.quantity import SIZE, parse_quantity

    quantity = parse_quantity(text)
    if quantity is None or quantity.dimension != SIZE or quantity.value <= 0:
        raise click.UsageError(f"--disk: {text!r}: expected a size such as 512MiB")
    return int(quantity.value // 8)


_STEPS = {
    "networks": "making networks",
    "nodes": "making nodes",
    "emulator": "starting the emulator",
    "answers": "waiting for the nodes' SSH servers",
    "slurm": "starting Slurm",
}


class _Progress:
    """Prints how far it is: one line that is rewritten on a terminal, a line for each kind of step elsewhere."""

    def __init__(self) -> None:
        self._what = ""
        self._live = sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live and self._what:
            say(err=True)

    def __call__(self, step: Step) -> None:
        text = _STEPS[step.what]
        if self._live:
            share = f": {step.done} of {step.of}" if step.what in {"nodes", "answers", "slurm"} else ""
            from rich.control import Control
            from rich.segment import ControlType

            from weir.cli._common import error_console

            error_console().print(Control((ControlType.CARRIAGE_RETURN,), (ControlType.ERASE_IN_LINE, 0)), end="")
            error_console().print(f"{text}{share}", end="")
        elif step.what != self._what:
            say(f"weir: {text}", err=True)
        self._what = step.what


_which_option = click.option("--name", help="Name of the test bed. Default: bed, or the only one.")


_START = examples(
    ("weir testbed start a1", "bring a node back whose loss was rehearsed"),
    ("weir testbed start", "all nodes that have ended"),
)


@command.command(epilog=_START)
@_which_option
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
def start(name: str | None, nodes: tuple[str, ...]) -> None:
    """Start nodes that have ended; by default all of them.

    They have the addresses and host keys that they had: the inventory stays as it is. What was written or changed on
    them is gone, as if they were installed anew; with --slurm, so are its daemons.
    """
    from weir.testbed import start

    bed = _find(name)
    wanted = nodes or tuple(node.name for node in bed.nodes if not node.up)
    if wanted:
        start(bed.name, list(dict.fromkeys(wanted)))
    console().print(f"test bed {bed.name}: {', '.join(wanted)} started" if wanted else "no node has ended")


_DOWN = examples(("weir testbed down", "the test bed without a name"), ("weir testbed down --all", "all of yours"))


@command.command(epilog=_DOWN)
@_name_option
@click.option("--all", "everything", is_flag=True, help="All test beds of this user.")
def down(name: str, everything: bool) -> None:
    """Remove a test bed: its processes, networks and files. If there is none, there is nothing to do."""
    from weir.reserve import forget
    from weir.testbed import down, inventory_of, names

    wanted = names() if everything else [name]
    removed = [one for one in wanted if down(one)]
    for one in removed:
        forget(inventory_of(one))  # its Slurm is gone with what it had reserved
        console().print(f"test bed {one} is gone")
    if not removed:
        others = "" if everything else _there()
        console().print("there is no test bed" if everything else f"there is no test bed {name}{others}")


_STATUS = examples(
    ("weir testbed status", "all test beds, and their nodes"),
    ("weir testbed status --inventory", "the path of the inventory, for --on"),
)


@command.command(epilog=_STATUS)
@click.option("--name", help="Only this one. With --config and --inventory: bed by default, or the only one.")
@click.option("--config", "path", flag_value="config", default=None, help="Print only the path of the file for ssh -F.")
@click.option("--inventory", "path", flag_value="inventory", help="Print only the path of the inventory.")
@json_option
def status(name: str | None, path: str | None, as_json: bool) -> None:
    """Show test beds and their nodes. Exits with 1 if there is none."""
    from weir.testbed import beds

    if path is not None:
        say(str(getattr(_find(name), path)))
        return
    found = beds() if name is None else [_find(name)]
    if as_json:
        emit_json([_facts(bed) for bed in found])
    for bed in () if as_json else found:
        _describe(bed)
    if not found:
        if not as_json:
            console().print("there is no test bed")
        raise click.exceptions.Exit(_errors.FAILED)


def _describe(bed: Bed) -> None:
    links = bed.links
    left = clock_text(max(0.0, bed.until - time.time()))
    console().print(f"test bed {bed.name}: {plural(len(bed.nodes), 'node')}; ends in {left}")
    kinds: dict[str, list[str]] = {}
    for each in links["between"]:
        figures = f"{each['rtt_ns'] / 1e6:g} ms, {each['rate_bps'] / 1e6:g} Mb/s"
        kinds.setdefault(figures, []).append("-".join(each["between"]))
    for figures, pairs in kinds.items():
        console().print(f"{figures}: {', '.join(pairs)}")
    rows = [(n.name, n.set, n.control, n.experiment, str(n.pid), "up" if n.up else "down") for n in bed.nodes]
    print_table(("node", "set", "control", "experiment", "process", "state"), rows)


def _facts(bed: Bed) -> dict[str, Any]:
    """A test bed for programs."""
    nodes = [
        {
            "name": node.name,
            "set": node.set,
            "control": node.control,
            "experiment": node.experiment,
            "pid": node.pid,
            "up": node.up,
            "clock_ns": node.clock_ns,
        }
        for node in bed.nodes
    ]
    paths = {name: str(getattr(bed, name)) for name in ("folder", "inventory", "config", "known_hosts", "key")}
    return {"name": bed.name, **paths, "links": bed.links, "until": bed.until, "nodes": nodes}


_EXEC = examples(
    ("weir testbed exec a1 -- cat /etc/hosts", "a command in the node a1"),
    ("weir testbed exec a1", "a shell there"),
)


@command.command("exec", epilog=_EXEC, context_settings={"allow_interspersed_args": False})
@_which_option
@click.argument("node")
@click.argument("program", nargs=-1, metavar="[--] [COMMAND]...")
def execute(name: str | None, node: str, program: tuple[str, ...]) -> None:
    """Run a command in a node, as root in its home; by default a shell. The exit code is that of the command.

    It does not need SSH, so it also works when a rehearsal has broken that.
    """
    program = program[1:] if program[:1] == ("--",) else program
    words = _find(name).command(node, program or ("bash",))
    sys.stdout.flush()
    os.execvp(words[0], words)


def _find(name: str | None) -> Bed:
    """The test bed ``name``; without a name the one that needs none to be made, or the only one.

    Raises:
        TestbedError: there is none, or it is not clear which.
    """
    from weir.testbed import DEFAULT_NAME, TestbedError, find, is_up, names

    alive = [one for one in names() if is_up(one)]
    wanted = name or (alive[0] if len(alive) == 1 else DEFAULT_NAME)
    bed = find(wanted)
    if bed is None:
        there = _there() or "; `weir testbed up` makes one"
        raise TestbedError(f"--name: there is no test bed {wanted!r}{there}")
    return bed


def _there() -> str:
    """Names the test beds that are up, as the end of a sentence that says that another is not."""
    from weir.testbed import is_up, names

    alive = [repr(one) for one in names() if is_up(one)]
    return f"; {', '.join(alive)} {'is' if len(alive) == 1 else 'are'} up" if alive else ""
