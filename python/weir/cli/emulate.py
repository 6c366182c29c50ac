"""``weir emulate``."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli._common import examples, say

if TYPE_CHECKING:
    from weir.emulate import LinkOptions, Report, SwitchReport

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
    (
        "weir emulate --switch dlink-dgs1216t --between eth1,eth2,eth3 --rate 100Mbps",
        "a switch between three interfaces",
    ),
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


class _Command(click.Command):
    """Takes ``--between`` with its interfaces in one word, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See :meth:`click.Command.parse_args`."""
        end = args.index("--") if "--" in args else len(args)
        own = [part for word in args[:end] for part in _parts_of_between(word)]
        for at in (at for at, word in enumerate(own[:-1]) if word == "--between" and "," not in own[at + 1]):
            if own[at + 2 : at + 3] == [] or own[at + 2].startswith("-"):
                raise click.UsageError(f"--between: expected two or more interfaces, found {own[at + 1]} only", ctx)
        for at in (at for at, word in enumerate(own[:-1]) if word == "--between" and "," in own[at + 1]):
            own[at + 1 : at + 2] = own[at + 1].split(",", 1)
        return super().parse_args(ctx, own + args[end:])


def _parts_of_between(word: str) -> list[str]:
    return ["--between", word.removeprefix("--between=")] if word.startswith("--between=") else [word]


@click.command(
    cls=_Command,
    epilog=_EPILOG,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
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
@click.option(
    "--between",
    nargs=2,
    metavar="IF1,IF2...",
    help="Bridge two interfaces instead of running a COMMAND, or as many as --switch has ports; NAMESPACE/IF in a "
    "namespace, with --switch.",
)
@click.option(
    "--switch",
    "switch_name",
    metavar="SWITCH",
    help="With --between: a switch instead of a link. A preset such as dlink-dgs1216t, or a file with the keys of "
    "`switch` in scenarios, such as `weir switch characterise` writes. Its ports have --rate. Default: what the "
    "network cards say.",
)
@click.option("--duration", metavar="TIME", help="With --between: end after this time. Default: when interrupted.")
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
    switch_name: str | None,
    duration: str | None,
    seed: int,
    offloads: bool,
    trace: Path | None,
    stats: Path | None,
    quiet: bool,
    program: tuple[str, ...],
    **link: str | None,
) -> None:
    """Run any program behind an emulated link, bridge two interfaces with one, or several with a switch.

    COMMAND runs in a network of its own whose only way out is the link. WEIR_PEER is the far end's address. Echo (port
    7), sink (9) and source (19) answer there over TCP and UDP, besides the programs of --peer. Quantities, queues and
    losses are written as in scenarios. weir prints its measurements on standard error; the exit code is COMMAND's.

    Needs root. With --between, up is the direction from IF1 to IF2; the interfaces should have no addresses.

    A switch learns Ethernet addresses and floods frames to unknown ones. --queue is what waits before a port because it
    comes faster than --rate. VLANs are not emulated, and PAUSE stops the queue before a port, but not its sender.
    """
    if bool(between) == bool(program):
        raise click.UsageError("expected a COMMAND, or --between with two interfaces")
    if between and peers:
        raise click.UsageError("--peer goes with a COMMAND only")
    if not between and (switch_name or duration):
        raise click.UsageError("--switch and --duration go with --between only")
    seconds = None if duration is None else _seconds(duration)
    ready = _quiet if quiet else _ready
    names = [name.strip() for word in between or () for name in word.split(",")]
    options = [*(() if offloads else ("--no-offloads",)), *(("--capture", str(trace.absolute())) if trace else ())]
    if switch_name is not None:
        given = [f"--{part.replace('_', '-')}" for part, value in link.items() if value and part not in _OF_PORTS]
        if given or trace:
            raise click.UsageError(f"{(given or ['--trace'])[0]} does not go with --switch")
        plan_options = {"mtu": mtu, "overhead": overhead, "seed": seed}
        found = _switch(switch_name, names, link, plan_options, options, seconds, ready)
        _tell(found.to_json(), found.lines(), stats, quiet)
        return
    if between and len(names) != 2:
        raise click.UsageError(f"--between: a link has two ends, found {len(names)} interfaces; --switch takes more")
    with _interrupts_held():
        compiled = _link(link, {"mtu": mtu, "overhead": overhead, "seed": seed})
    if between:
        code, report = _bridge(compiled, (names[0], names[1]), options, seconds, ready)
        ways = (f"{names[0]} to {names[1]}", f"{names[1]} to {names[0]}")
    else:
        code, report = _run(compiled, program, peers, options)
        ways = ("to the peer", "from the peer")
    _tell(report.to_json(), report.lines(*ways), stats, quiet)
    raise click.exceptions.Exit(code)


_OF_PORTS = ("rate", "queue")
"""The parts of a link that the ports of a switch have."""


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Libraries start threads when they are imported; none of those may take interrupts, which are for the command."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ready() -> None:
    """Says that frames pass."""
    say("weir: ready; Ctrl-C ends it", err=True)


def _quiet() -> None:
    """Says nothing."""


def _tell(document: dict[str, Any], lines: Iterable[str], stats: Path | None, quiet: bool) -> None:
    """Writes the measurements where the user wants them."""
    if stats:
        stats.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if not quiet:
        for line in lines:
            say(f"weir: {line}", err=True)


def _seconds(text: str) -> float:
    from weir.language.units import DURATION

    try:
        return float(DURATION.parse(text)) / 1e9
    except ValueError as error:
        raise click.UsageError(f"--duration: {error}") from error


def _switch(
    name: str,
    words: Sequence[str],
    link: dict[str, str | None],
    given: dict[str, Any],
    options: Sequence[str],
    seconds: float | None,
    ready: Callable[[], None],
) -> SwitchReport:
    """Puts a switch between interfaces."""
    from weir._interfaces import Interface, common_rate_bps
    from weir.emulate import OptionError, switch, switch_plan

    if len(set(words)) != len(words) or len(words) < 2 or not all(words):
        found = ", ".join(word or "an empty name" for word in words)
        raise click.UsageError(f"--between: expected two or more different interfaces, found {found}")

    def plan_at(rate: str) -> dict[str, Any]:
        try:
            return switch_plan(name, len(words), rate=rate, queue=link["queue"] or "1000packets", **given)
        except OptionError as error:
            raise click.UsageError(str(error)) from error

    # A mistake in the options is told before one in the interfaces.
    compiled = plan_at(link["rate"] or "1Gbps")
    interfaces = [Interface.of(word) for word in words]
    if link["rate"] is None:
        compiled = plan_at(f"{common_rate_bps(dict(zip(words, interfaces, strict=True))):.0f}bps")
    return switch(compiled, interfaces, options=options, seconds=seconds, ready=ready)


def _link(link: dict[str, str | None], given: dict[str, Any]) -> dict[str, Any]:
    """The plan of a link."""
    from weir.emulate import OptionError, plan

    up, down = _directions(link)
    try:
        return plan(up, down, **given)
    except OptionError as error:
        raise click.UsageError(str(error)) from error


def _directions(link: dict[str, str | None]) -> tuple[LinkOptions, LinkOptions]:
    from weir.emulate import LinkOptions

    both = LinkOptions(**{part: link[part] for part in _PARTS})
    ways = [LinkOptions(**{part: link[f"{way}_{part}"] for part in _PARTS}) for way in _WAYS]
    up, down = (way.over(both) for way in ways)
    return up, down


def _bridge(
    compiled: dict[str, Any],
    between: tuple[str, str],
    options: Sequence[str],
    seconds: float | None,
    ready: Callable[[], None],
) -> tuple[int, Report]:
    from weir.emulate import bridge

    return 0, bridge(compiled, between, options=options, seconds=seconds, ready=ready)


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
