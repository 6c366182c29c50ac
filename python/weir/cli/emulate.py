"""``weir emulate``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli._common import examples, say

if TYPE_CHECKING:
    from weir.emulate import LinkOptions, Report

__all__ = ["command"]

_EPILOG = examples(
    (
        "weir emulate --rate 100Mbps --delay 25ms --queue 1bdp -- sh -c 'ping -c 5 $WEIR_PEER'",
        "a program behind a link",
    ),
    (
        "weir emulate --rate 1Gbps --delay 50ms --loss 0.1% --peer 'iperf3 -s' -- sh -c 'iperf3 -c $WEIR_PEER'",
        "a program and its peer",
    ),
    (
        "weir emulate --rate 50Mbps --up-rate 5Mbps --queue '{fq_codel: {ecn: true}}' -- bash",
        "a shell behind an access line",
    ),
    ("weir emulate --between eth1 eth2 --delay 20ms --jitter '{deviation: 1ms}'", "bridge two interfaces"),
)

_PARTS = {
    "rate": ("RATE", "Rate, such as 1Gbps. Default: 10Gbps."),
    "delay": ("TIME", "One-way delay, such as 50ms; the round trip has it twice. Default: 0."),
    "queue": (
        "QUEUE",
        "Queue before the link: a size such as 0.5bdp, 100packets or 100ms, or a discipline such as "
        "'{codel: {ecn: true}}'. Default: 1000packets.",
    ),
    "loss": ("LOSS", "Random losses, such as 1%, or '{list: [1, 7]}'."),
    "jitter": ("JITTER", "Random deviation of the delay, such as '{deviation: 1ms}'."),
    "reorder": ("REORDER", "Late packets, such as '{probability: 1%, extra: 5ms}'."),
}
_WAYS = {"up": "from the COMMAND", "down": "to the COMMAND"}


def _link_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of the link: for both directions, and for each."""
    for way, meaning in reversed(_WAYS.items()):
        for part, (metavar, _) in reversed(_PARTS.items()):
            function = click.option(f"--{way}-{part}", metavar=metavar, help=f"The same, only {meaning}.")(function)
    for part, (metavar, text) in reversed(_PARTS.items()):
        function = click.option(f"--{part}", metavar=metavar, help=text)(function)
    return function


@click.command(epilog=_EPILOG, context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@_link_options
@click.option("--mtu", metavar="SIZE", default="1500B", show_default=True, help="Largest IP packet.")
@click.option(
    "--overhead",
    metavar="SIZE",
    default="38B",
    show_default=True,
    help="Bytes that each packet adds on the wire: Ethernet's preamble, header, FCS and gap.",
)
@click.option("--peer", "peers", metavar="COMMAND", multiple=True, help="Run this command at the far end; repeatable.")
@click.option("--between", nargs=2, metavar="IF1 IF2", help="Bridge two interfaces instead of running a COMMAND.")
@click.option(
    "--seed", type=click.IntRange(0, 2**53 - 1), default=1, show_default=True, help="Seed of all random choices."
)
@click.option("--offloads/--no-offloads", default=True, help="Let programs send trains of packets (GSO), or not.")
@click.option(
    "--trace", type=click.Path(path_type=Path, dir_okay=False), help="Write the packets' headers to this file, as pcap."
)
@click.option(
    "--stats", type=click.Path(path_type=Path, dir_okay=False), help="Write the measurements to this file, as JSON."
)
@click.option("-q", "--quiet", is_flag=True, help="Do not print the measurements.")
@click.argument("program", nargs=-1, metavar="[--] [COMMAND]...")
def command(
    mtu: str,
    overhead: str,
    peers: tuple[str, ...],
    between: tuple[str, str] | None,
    seed: int,
    offloads: bool,
    trace: Path | None,
    stats: Path | None,
    quiet: bool,
    program: tuple[str, ...],
    **link: str | None,
) -> None:
    """Run any program behind an emulated link, or bridge two interfaces with one.

    COMMAND runs in a network of its own whose only way out is the link. WEIR_PEER is the far end's address. Echo (port
    7), sink (9) and source (19) answer there over TCP and UDP, besides the programs of --peer. Quantities, queues and
    losses are written as in scenarios. weir prints its measurements on standard error; the exit code is COMMAND's.

    Needs root. With --between, up is the direction from IF1 to IF2; the interfaces should have no addresses.
    """
    if bool(between) == bool(program):
        raise click.UsageError("expected a COMMAND, or --between with two interfaces")
    if between and peers:
        raise click.UsageError("--peer goes with a COMMAND only")
    from weir.emulate import OptionError, plan

    up, down = _directions(link)
    try:
        compiled = plan(up, down, mtu=mtu, overhead=overhead, seed=seed)
    except OptionError as error:
        raise click.UsageError(str(error)) from error
    options = [*(() if offloads else ("--no-offloads",)), *(("--capture", str(trace.absolute())) if trace else ())]
    if between:
        code, report = _bridge(compiled, between, options)
        names = (f"{between[0]} to {between[1]}", f"{between[1]} to {between[0]}")
    else:
        code, report = _run(compiled, program, peers, options)
        names = ("to the peer", "from the peer")
    if stats:
        stats.write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
    if not quiet:
        for line in report.lines(*names):
            say(f"weir: {line}", err=True)
    raise click.exceptions.Exit(code)


def _directions(link: dict[str, str | None]) -> tuple[LinkOptions, LinkOptions]:
    from weir.emulate import LinkOptions

    both = LinkOptions(**{part: link[part] for part in _PARTS})
    ways = [LinkOptions(**{part: link[f"{way}_{part}"] for part in _PARTS}) for way in _WAYS]
    up, down = (way.over(both) for way in ways)
    return up, down


def _bridge(compiled: dict[str, Any], between: tuple[str, str], options: Sequence[str]) -> tuple[int, Report]:
    from weir.emulate import bridge

    return 0, bridge(compiled, between, options=options)


def _run(
    compiled: dict[str, Any], program: Sequence[str], peers: Sequence[str], options: Sequence[str]
) -> tuple[int, Report]:
    from weir.emulate import emulate

    try:
        words = [shlex.split(peer) for peer in peers]
    except ValueError as error:
        raise click.UsageError(f"--peer: {error}") from error
    if not all(words):
        raise click.UsageError("--peer: expected a command")
    return emulate(compiled, program, peers=words, options=options)
