"""``weir cc``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli import _cc_compare, _cc_judge, _cc_new
from weir.cli._common import console, emit_json, error_console, examples, json_option, print_table

if TYPE_CHECKING:
    from weir.bpf import Status

__all__ = ["command"]

_EPILOG = examples(
    ("weir cc list", "list the congestion controls that a scenario may name"),
    ("weir cc list cubic", "describe one, with its options"),
    ("weir cc new mine", "begin your own: mine.c, a test and a README"),
    ("weir cc build my_cc.c", "check your own; a scenario uses it with `cc: ./my_cc.c`"),
    ("weir cc load cubic", "load it into this kernel; then: iperf3 -C weir_cubic ..."),
    ("weir cc compare --quick", "compare with the kernel's of the same names, in the lab"),
)


@click.group(epilog=_EPILOG)
def command() -> None:
    """List, write, build, load and compare congestion controls."""


command.add_command(_cc_new.command)
command.add_command(_cc_judge.command)
command.add_command(_cc_compare.command)


@command.command("list", epilog=examples(("weir cc list", "list all"), ("weir cc list ./my_cc.c", "describe your own")))
@click.argument("name", required=False)
@json_option
def list_(name: str | None, as_json: bool) -> None:
    """List the congestion controls and where each can run, or describe one: its source and options.

    The columns say whether `sim` can run it (simulator), whether weir can load it into this kernel, and the names under
    which it is loaded (BPF), and whether this host's kernel or the lab's has its own implementation, `linux:NAME` in a
    scenario (linux, lab).
    """
    from weir.cc import is_file_name

    found = _described(name)
    state, why_not = _kernel()
    for cc in found:
        if cc.get("queue"):
            cc |= _SIMULATOR_ONLY
            continue
        cc |= _places(cc["name"], state, why_not)
        if name is not None and is_file_name(name):
            # The registered name proves nothing: another control may have it too.
            cc |= {"linux": None, "lab": None, "bpf": {**cc["bpf"], "loaded": [], "tried": _was_accepted(name)}}
    if name is None:
        found += [*_kept(state), *_own(state, {cc["name"] for cc in found})]
    if as_json:
        emit_json(found)
    elif name is not None:
        _describe(found[0])
    else:
        rows = [(cc["name"], cc["title"], str(cc["year"] or ""), cc["source"], *_cells(cc)) for cc in found]
        header = ("name", "title", "year", "source", "simulator", "BPF", "linux", "lab")
        print_table(header, rows, styles=("bold",))
        _print_notes(state, why_not)


def _was_accepted(name: str) -> bool:
    """Whether `weir cc build --bpf` found that this kernel accepts the control at path ``name``, as it is now."""
    from weir import cc as users

    try:
        return users.accepted_by_kernel(users.source_of(Path(name)))
    except users.ControlError:
        return False  # no C source


def _print_notes(state: Status | None, why_not: str | None) -> None:
    """Prints what is missing, and how to unload controls of `weir cc load`."""
    from weir.lab import unavailable

    out = console()
    if why_not is not None:
        out.print(f"BPF: not available: {why_not}")
    if (no_lab := unavailable()) is not None:
        out.print(f"lab: not available: {no_lab}")
    for cc in state.loaded if state else ():
        if cc.pinned:
            out.print(f"{cc.name}: loaded by `weir cc load`; remove it with: weir cc unload {cc.name}")


def _described(name: str | None) -> list[dict[str, Any]]:
    """The description of the congestion control ``name``, or of all registered ones."""
    from weir import _weir
    from weir import cc as users

    if name is not None and users.is_file_name(name):
        return [dict(users.control(name).about.raw)]
    try:
        listed: list[dict[str, Any]] = json.loads(
            _weir.cc_everywhere() if name is None else f"[{_weir.cc_describe(name)}]"
        )
        if name is not None:
            listed[0]["probes"] = _weir.cc_try(name)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    return listed


def _kernel() -> tuple[Status | None, str | None]:
    """The status of this host's kernel, if it can be asked, and why it accepts nothing, if so."""
    from weir.bpf import status
    from weir.methods import MethodError

    try:
        state = status()
    except MethodError as error:
        return None, str(error)
    return state, state.why_not


def _places(name: str, state: Status | None, why_not: str | None) -> dict[str, object]:
    loaded = [cc.name for cc in state.loaded if cc.cc == name] if state else []
    return {
        "simulator": True,
        "bpf": {"available": why_not is None, "why_not": why_not, "loaded": loaded},
        **_kernels(name, state),
    }


def _kernels(name: str, state: Status | None) -> dict[str, object]:
    """Whether this host's kernel and the lab's have their own congestion control of this name."""
    from weir.lab import BUILT_IN

    return {"linux": name if state and name in state.own else None, "lab": name if name in BUILT_IN else None}


_SIMULATOR_ONLY: dict[str, object] = {"simulator": True, "bpf": None, "linux": None, "lab": None}

_NO_SOURCE: dict[str, object] = {"year": None, "source": "", "state_bytes": None, "options": [], "simulator": False}


def _kept(state: Status | None) -> list[dict[str, object]]:
    """Users' controls that `weir cc load` loaded, in the form of the others: they have no row of their own."""
    return [
        {
            "name": cc.name,
            "title": "loaded by `weir cc load`",
            **_NO_SOURCE,
            "bpf": {"available": True, "why_not": None, "loaded": [cc.name]},
            "linux": None,
            "lab": None,
        }
        for cc in (state.loaded if state else ())
        if cc.cc is None and cc.pinned
    ]


def _own(state: Status | None, ours: set[str]) -> list[dict[str, object]]:
    """The kernels' congestion controls without a source in weir, in the form of the others."""
    from weir.lab import BUILT_IN

    names = dict.fromkeys((*(state.own if state else ()), *BUILT_IN))
    return [
        {"name": f"linux:{name}", "title": "a kernel's own", **_NO_SOURCE, "bpf": None, **_kernels(name, state)}
        for name in names
        if name not in ours
    ]


def _cells(cc: Mapping[str, Any]) -> tuple[str, str, str, str]:
    bpf = cc["bpf"]
    if bpf is None:
        taken = ""
    elif bpf["loaded"]:
        taken = f"loaded: {', '.join(bpf['loaded'])}"
    else:
        taken = "no" if not bpf["available"] else "yes" if bpf.get("tried", True) else "not tried"
    linux, lab = (f"linux:{cc[where]}" if cc[where] else "" for where in ("linux", "lab"))
    return "yes" if cc["simulator"] else "", taken, linux, lab


def _describe(cc: Mapping[str, Any]) -> None:
    out = console()
    out.print(f"{cc['name']}: {cc['title']}", style="bold")
    if cc["year"] == 0 and not cc["source"]:
        out.print("  place   the simulator only: it is Python")
        _describe_options(cc)
        return
    out.print(f"  source  {cc['source']} ({cc['year']})")
    out.print(f"  state   {cc['state_bytes']} of 104 bytes")
    _, taken, linux, lab = _cells(cc)
    if cc["bpf"] is None:
        out.print(f"  place   the simulator only; the bottleneck needs `queue: {{{cc['queue']}: {{}}}}`")
        _describe_options(cc)
        return
    why = "" if cc["bpf"]["available"] else f": {cc['bpf']['why_not']}"
    why = ": `weir cc build --bpf` compiles it, and has this kernel check it" if taken == "not tried" else why
    out.print(f"  BPF     {taken}{why}")
    if linux:
        out.print(f"  linux   the kernel has its own: {linux}")
    if lab:
        out.print(f"  lab     the lab's kernel has its own: {lab}")
    if cc.get("probes"):
        out.print(f"  probes  {', '.join(cc['probes'])}")
    _describe_options(cc)


def _describe_options(cc: Mapping[str, Any]) -> None:
    out = console()
    options = cc["options"]
    assert isinstance(options, list)
    if options:
        out.print()
        rows = [(o["name"], str(o["default"]), f"{o['min']} to {o['max']}", o["doc"]) for o in options]
        print_table(("option", "default", "range", "what it does"), rows)


_BUILD = examples(
    ("weir cc build my_cc.c", "write my_cc.so"),
    ("weir cc build my_cc.c --bpf", "also compile for BPF, and have this kernel verify it if it can"),
    ("weir cc build my_cc.c --sanitize", "for debugging: undefined behaviour ends the run"),
)


@command.command(epilog=_BUILD)
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="File or folder for the result. Default: beside SOURCE."
)
@click.option(
    "--bpf", is_flag=True, help="Also compile for BPF (needs clang); as root, also have this kernel verify it."
)
@click.option("--sanitize", is_flag=True, help="End a run at the line with undefined behaviour (UBSan); slower.")
def build(source: Path, out: Path | None, bpf: bool, sanitize: bool) -> None:
    """Build the congestion control in SOURCE as a shared object. SOURCE is one C file for weir's kernel-like interface.

    The checks are those for built-in controls: the control writes only fields that BPF may write, keeps at most 104
    bytes, and has no variables that flows would share. A child process then tries it with calls as Linux would make
    them. Scenarios do not need the result, because `cc: ./my_cc.c` builds it automatically.

    It does not run the suite that all built-in controls pass. `weir cc judge SOURCE` does.
    """
    import tempfile

    from weir import cc as users
    from weir.control import is_python

    if is_python(source.name):
        raise users.ControlError(
            f"{source}: a control in Python is not built: name it in a scenario, `cc: {_dotted(source)}`"
        )
    if source.suffix != ".c":
        raise users.ControlError(f"{source}: expected one C file, whose name ends in .c")
    shared = source.with_suffix(".so") if out is None else out / f"{source.stem}.so" if out.is_dir() else out
    with tempfile.TemporaryDirectory(prefix="weir-cc-") as folder:
        made = Path(folder) / shared.name
        warnings = users.compiled(source, made, sanitize=sanitize)
        about = users.describe(made, _dotted(source))
        _install(made, shared)
    if warnings:
        error_console().print(warnings, markup=False, highlight=False, soft_wrap=True)
    if out is None and not sanitize:
        where = f"Use it in a scenario with `cc: {_dotted(source)}`, which builds it automatically"
    else:
        without = ", without these checks" if sanitize else ""
        where = f"Use it in a scenario with `cc: {_dotted(shared)}`; `cc: {_dotted(source)}` builds its own{without}"
    console().print(f"{_dotted(shared)}: {about.title} ({about.name}). {where}")
    if bpf:
        _build_bpf(source)
    console().print(
        f"Next: `weir cc judge {_dotted(source)}` runs the shared suite and compares it with other controls"
    )


def _dotted(path: Path) -> str:
    return str(path) if path.is_absolute() else f"./{path}"


def _install(made: Path, shared: Path) -> None:
    """Copies it beside its place, then renames: a reader sees the old file or the new one."""
    import shutil
    import tempfile

    handle, name = tempfile.mkstemp(dir=shared.parent, prefix=f".{shared.name}.")
    os.close(handle)
    try:
        shutil.copyfile(made, name)
        Path(name).chmod(0o644)
        Path(name).replace(shared)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _build_bpf(source: Path) -> None:
    """Compiles it for BPF, and loads it for a moment if this kernel permits."""
    from weir import _weir, bpf, confine
    from weir import cc as users

    try:
        verdict, reason = _weir.cc_check_bpf(_weir.CcSources(source), confine.by())
    except (ValueError, confine.ConfineError) as error:
        raise click.ClickException(str(error)) from error
    if verdict == "no clang":
        raise click.ClickException(f"there is no {reason!r} to check it for BPF; install clang or set WEIR_CLANG")
    if verdict == "refused":
        raise click.ClickException(f"it does not compile for BPF:\n{reason}")
    _, why_not = _kernel()
    if why_not is not None:
        console().print(f"it compiles for BPF; this kernel's verifier was not tried: {why_not}")
        return
    with bpf.Loader() as loader:
        loader.load(str(source.absolute()))
    users.note_accepted(source)
    console().print("it compiles for BPF, and this kernel's verifier accepts it")


@command.command(epilog=examples(("weir cc headers include", "then: cc -Iinclude/include ...")))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def headers(folder: Path) -> None:
    """Write the headers for congestion controls into FOLDER, for an editor."""
    from weir import _weir

    try:
        console().print(str(_weir.cc_headers(folder)))
    except ValueError as error:
        raise click.ClickException(str(error)) from error


_LOAD = examples(
    ("weir cc load cubic", "load it; then: iperf3 -C weir_cubic -c HOST"),
    ("weir cc load htcp --as mine --option rtt_scaling=1", "load it with options, under another name"),
    ("weir cc load ./my_cc.c --everyone", "load your own, also for programs without privileges"),
)


@command.command(epilog=_LOAD)
@click.argument("cc", metavar="NAME")
@click.option("--as", "name", help="Name in the kernel, at most 15 characters. Default: weir_NAME.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Set one of its options; repeatable.")
@click.option("--everyone", is_flag=True, help="Let programs without CAP_NET_ADMIN choose it, too.")
def load(cc: str, name: str | None, options: tuple[str, ...], everyone: bool) -> None:
    """Load congestion control NAME into this host's kernel for other programs, until `weir cc unload`.

    NAME is a built-in control, a C file, or a shared object of `weir cc build` beside its C file. Programs in every
    network namespace can choose it. Needs root.
    """
    from weir.bpf import keep

    loaded = keep(cc, name, dict(map(_option, options)), unrestricted=everyone)
    console().print(f"{loaded} is loaded; remove it with: weir cc unload {loaded}")


def _option(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    try:
        return name, int(value)
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected NAME=VALUE with a whole number", param_hint="--option") from None


_UNLOAD = examples(
    ("weir cc unload weir_cubic", "remove one"),
    ("weir cc unload --all", "remove everything that `weir cc load` loaded"),
)


@command.command(epilog=_UNLOAD)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Remove everything that `weir cc load` loaded.")
def unload(names: tuple[str, ...], everything: bool) -> None:
    """Remove controls that `weir cc load` loaded; returns once the kernel lists them no longer. Needs root.

    Their open connections keep using them.
    """
    from weir.bpf import drop, drop_all, kept

    if everything == bool(names):
        raise click.UsageError("name what to unload, or give --all")
    removed = drop_all() if everything else drop(*(_kept_as(name) for name in names))
    console().print(f"unloaded: {', '.join(removed)}" if removed else "nothing was loaded")
    if everything and (others := kept()):
        console().print(f"kept, because this user's weir did not load them: {', '.join(others)}; name one to unload it")


def _kept_as(name: str) -> str:
    """The name under which the kernel lists what `weir cc load` loaded by ``name``, also without ``--as``."""
    from weir.bpf import kept

    loaded, usual = kept(), f"weir_{name}"
    return usual if name not in loaded and usual in loaded else name


_PARITY = examples(
    ("weir cc parity cubic", "compare 20000 calls on both builds"),
    ("weir cc parity ./my_cc.c --calls 1000000", "compare your own, for longer"),
)


@command.command(epilog=_PARITY)
@click.argument("cc", metavar="NAME")
@click.option("--calls", type=click.IntRange(1), default=20_000, show_default=True, help="Number of calls.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the calls.")
@json_option
@click.pass_context
def parity(context: click.Context, cc: str, calls: int, seed: int, as_json: bool) -> None:
    """Check that NAME behaves the same in the simulator and in this host's kernel.

    weir makes random sequences of calls, ordinary and extreme, with random options, on both builds of the source.
    Windows and private state must be equal after every call. Exits with 1 if they are not. Needs root and clang.
    """
    from dataclasses import asdict

    from weir.bpf import parity as compare

    found = compare(cc, calls, seed)
    if as_json:
        emit_json(asdict(found))
    else:
        operations = ", ".join(f"{count} of {name}" for name, count in found.operations.items())
        console().print(f"{cc}: {found.calls} calls in {found.flows} flows ({operations})")
        for difference in found.differences:
            options = ", ".join(f"{name}={value}" for name, value in difference.options.items()) or "by default"
            where = f"flow {difference.flow}, call {difference.call}, {difference.operation} (options: {options})"
            console().print(f"they differ: {where}: {difference.what}")
        if not found.differences:
            console().print("the simulator's and the kernel's build behave the same")
    if found.differences:
        context.exit(1)
