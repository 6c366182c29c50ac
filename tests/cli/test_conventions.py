"""Rules for every subcommand: help, exit codes, messages, pipes, colours."""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

import weir as package
from shared import Weir, argv, environment
from weir.cli._app import COMMANDS, cli


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            yield from leaves(child, (*path, name))


ALL = list(leaves(cli))


def spawn(*arguments: str, stdout: int = subprocess.PIPE, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(*arguments), stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, env=environment(**more)
    )


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) or "weir" for path, _ in ALL])
def test_every_command_has_help_with_an_example(path: tuple[str, ...], command: click.Command, weir: Weir) -> None:
    ran = weir(*path, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: weir {' '.join(path)}".rstrip())
    assert "Examples:\n" in ran.out
    assert "    weir " in ran.out or 'eval "$(weir' in ran.out
    if not path:
        assert all(summary in ran.out for summary in COMMANDS.values())


def test_every_example_names_a_command_and_options_that_exist() -> None:
    for path, command in ALL:
        for line in (command.epilog or "").splitlines():
            example = line.partition("  weir ")[2].split("  ")[0]
            words = shlex.split(example.split(" -- ")[0])  # after it comes a program with options of its own
            if not words or words[0] not in COMMANDS:
                assert "  weir " not in line, line
                continue
            found = cli
            for word in words:
                if isinstance(found, click.Group) and not word.startswith("-"):
                    child = found.get_command(click.Context(found), word)
                    assert child is not None, line
                    found = child  # type: ignore[assignment]
            known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
            used = {word for word in words if word.startswith("-")}
            assert used <= known, f"{' '.join(path)}: {line}"


_VALUES_DIFFER = {
    "--figures": "a run has a folder for its figures, a comparison has none and is told one",
    "--trace": "cells keep their captures in the run, one emulated link is told a file",
}
"""Options that take a value in one command and none in another, with the reasons."""


def options() -> Iterator[tuple[str, click.Option]]:
    """Every long option of every command that is not refused."""
    for _, command in ALL:
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                yield from ((name, option) for name in option.opts if name.startswith("--"))


def test_an_option_is_the_same_in_every_command() -> None:
    found: dict[str, set[bool]] = {}
    short: dict[str, set[str]] = {}
    for name, option in options():
        found.setdefault(name, set()).add(option.is_flag)
        for letter in (o for o in option.opts if not o.startswith("--")):
            short.setdefault(letter, set()).add(name)
    assert {name for name, flags in found.items() if len(flags) > 1} == set(_VALUES_DIFFER)
    assert {letter: names for letter, names in short.items() if len(names) > 1} == {}


def test_a_number_of_things_is_a_plural() -> None:
    """``--cells 40`` is a number of cells, ``--cell 0003-r0`` is one."""
    numbers = {name for name, option in options() if isinstance(option.type, click.IntRange)}
    assert {"--cells", "--seeds", "--workers"} <= numbers
    for name in numbers - {"--seed", "--memory", "--verbose"}:  # a number by itself, megabytes, a flag that is counted
        assert name.endswith("s"), name
    assert not {name for name, _ in options()} & {"--methods", "--metrics", "--phases"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("validate", "--methods", "sim,lab"), "--methods is called --method"),
        (("validate", "--random", "2"), "--random is called --draws"),
        (("validate", "--most", "20Mbps"), "--most is called --max-rate"),
        (("validate", "--chance", "3"), "--chance is called --seeds"),
        (("validate", "--against", "x.json"), "a command of its own: weir revalidate FILE"),
        (("catalogue", "--most", "1min"), "--most is called --max-time"),
        (("lab", "build", "--jobs", "2"), "--jobs is called --workers"),
        (("lab", "build", "--again"), "--again is called --fresh"),
        (("lab", "exec", "--limit", "5", "--", "true"), "--limit is called --max-time"),
        (("lab", "exec", "--real-time", "--", "true"), "--real-time is called --clock real"),
        (("lab", "shell", "--virtual"), "--virtual is called --clock virtual"),
    ],
)
def test_an_old_spelling_is_refused_with_the_new_one(weir: Weir, arguments: tuple[str, ...], said: str) -> None:
    ran = weir(*arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


def test_version(weir: Weir) -> None:
    assert weir("--version").out == f"weir {package.__version__}\n"


def test_without_a_command_there_is_help_and_code_2(weir: Weir) -> None:
    ran = weir()
    assert ran.code == 2
    assert "Commands:" in ran.out + ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rum",), "No such command 'rum'. Did you mean 'run'?"),
        (("metrics", "godput"), "no metric 'godput'. Did you mean 'goodput'?"),
        (("metrics", "--category", "speed"), "'speed' is none of throughput, delay"),
        (("schema", "flwos"), "no table 'flwos'; there are flows, goodput"),
        (("run", "no-such-file.yaml"), "there is no file 'no-such-file.yaml', nor a scenario of that name"),
        (("run", "/"), "is a folder; a scenario is a YAML file"),
        (("check", "no-such-file.yaml"), "there is no file 'no-such-file.yaml'"),
        (("run", "x.yaml", "--workers", "0"), "0 is not in the range x>=1"),
        (("show", "no-such-folder"), "no-such-folder: there is no such folder"),
        (("report", "/dev"), "/dev: is not a run"),
        (("show", __file__), "is a file; expected the folder of a run"),
        (("cc", "list", "cubik"), 'no congestion control is called "cubik"; did you mean cubic'),
        (("completion", "tcsh"), "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_bad_input_gives_code_2_a_reason_and_no_stack_trace(weir: Weir, arguments: tuple[str, ...], said: str) -> None:
    ran = weir(*arguments)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.EROFS, "Read-only file system", "/mnt/report.html"), 2),
        (OSError(errno.ENOENT, "No such file or directory", "/mnt/report.html"), 2),
        (OSError(errno.EIO, "Input/output error", "/mnt/report.html"), 1),
    ],
)
def test_a_path_that_cannot_be_written_is_bad_input(
    weir: Weir, monkeypatch: pytest.MonkeyPatch, error: OSError, code: int
) -> None:
    def refuse() -> None:
        raise error

    monkeypatch.setattr("weir.metrics.catalogue", refuse)
    ran = weir("metrics")
    assert (ran.code, ran.err) == (code, f"weir: /mnt/report.html: {error.strerror}\n")


def test_a_stack_trace_is_there_for_who_asks(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in weir("show", "no-such-folder").err
    monkeypatch.setenv("WEIR_DEBUG", "1")
    ran = weir("show", "no-such-folder")
    assert "Traceback" in ran.err
    assert ran.err.rstrip().endswith("expected the folder of a run")


def test_a_defect_asks_for_a_report(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("weir.metrics.catalogue", broken)
    ran = weir("metrics")
    assert ran.code == 1
    assert "internal error: ZeroDivisionError: oops" in ran.err
    assert "WEIR_DEBUG=1" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("arguments", [("schema", "plan"), ("metrics",), ("metrics", "jain")])
def test_a_closed_pipe_is_no_error(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = spawn(*arguments, stdout=writer)
    os.close(writer)
    assert ran.stderr == ""
    assert ran.returncode == 141


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(weir: Weir, shell: str) -> None:
    ran = weir("completion", shell)
    assert ran.code == 0
    assert f"_WEIR_COMPLETE={shell}_complete" in ran.out


def test_completion_offers_commands_options_and_metrics() -> None:
    for words, wanted in (
        ("weir m", "metrics"),
        ("weir run --qu", "--quiet"),
        ("weir metrics goodput.a", "goodput.aggregate"),
    ):
        ran = spawn(_WEIR_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
        assert f"plain,{wanted}" in ran.stdout.splitlines(), ran


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from weir.cli._app import cli; cli(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    loaded = ran.stdout.splitlines()[-1]
    for heavy in ("numpy", "polars", "pyarrow", "pandas", "altair", "rich", "ruamel", "weir._weir"):
        assert f"'{heavy}'" not in loaded, heavy


def test_json_is_json(weir: Weir) -> None:
    metrics = json.loads(weir("metrics", "--json").out)
    assert {"name", "formula", "unit", "category", "views", "source"} <= metrics[0].keys()
    assert json.loads(weir("metrics", "goodput", "--json").out)[0]["unit"] == "bit/s"
    assert "flows" in json.loads(weir("schema", "--json").out)
    assert "properties" in json.loads(weir("schema", "plan").out)
    assert {cc["name"] for cc in json.loads(weir("cc", "list", "--json").out)} >= {"reno", "cubic"}


def test_tables_are_never_cut_when_nobody_looks(weir: Weir) -> None:
    ran = weir("metrics")
    assert "…" not in ran.out
    assert "\x1b" not in ran.out
    assert not any(line.endswith(" ") for line in ran.out.splitlines())


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals_and_no_color_is_honoured(no_color: str, *, coloured: bool) -> None:
    """Runs on a pseudo-terminal and looks for an escape that sets a colour."""
    import pty
    import re

    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from weir.cli._common import console; console().print('x', style='red')"],
        stdout=follower,
        env=environment(TERM="xterm-256color", NO_COLOR=no_color),
    )
    process.wait()
    os.close(follower)
    printed = os.read(leader, 1000).decode()
    os.close(leader)
    assert bool(re.search(r"\x1b\[3\dm", printed)) == coloured


@pytest.mark.parametrize("module", ["weir", "weir.cli"])
def test_the_package_is_the_command_too(module: str) -> None:
    ran = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("weir ")


@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_every_command_can_be_ended_from_outside(number: str) -> None:
    code = (
        "import os, signal; "
        f"signal.signal(signal.{number}, signal.SIG_DFL); "  # nohup, under which a test may run, ignores SIGHUP
        "import weir.cli._app as app; "
        f"app.cli.main = lambda **_: os.kill(os.getpid(), signal.{number}); app.main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment())
    assert ran.returncode == 130
    assert "weir: interrupted" in ran.stderr
