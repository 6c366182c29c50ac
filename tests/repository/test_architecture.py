"""The invariants of ARCHITECTURE.md that no compiler checks: permitted imports, and forbidden operations."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "python" / "weir"

sys.path.insert(0, str(ROOT / "scripts"))  # the script that draws the imports reads them
from imports import imported, private_of_others, read, sources  # noqa: E402

LAYERS: dict[str, set[str]] = {
    "plan": {"weir._weir"},
    "queues": {"weir._weir"},
    # The metrics read the claims: their grammar, and the flows that they name.
    # The options of methods are words of the language; the methods themselves are none of its business.
    "scenario": {
        *("weir._linux", "weir._weir", "weir.cc", "weir.language", "weir.methods.options"),
        *("weir.metrics.errors", "weir.metrics.expect", "weir.metrics.selection", "weir.queues"),
    },
    "confine": {"weir._programs", "weir._seal"},
    "control": {"weir._weir"},
    "cc": {"weir._cache", "weir._group", "weir._remove", "weir._weir", "weir.confine", "weir.control"},
    # An agent is the control of a flow of a scenario; which controls are users' own.
    "gym": {"weir._weir", "weir.cc", "weir.control", "weir.scenario"},
    # The congestion controls that a plan asks of a kernel; remains of labs, for cleaning; the columns of runs.
    "hosts": {
        *("weir._errors", "weir._group", "weir._linux", "weir._owner", "weir._programs", "weir._remove", "weir._seal"),
        *(
            "weir._ssh",
            "weir._weir",
            "weir.bpf",
            "weir.cc",
            "weir.inventory",
            "weir.lab",
            "weir.language",
            "weir.queues",
            "weir.run",
        ),
    },
    "methods": {
        *("weir._duration", "weir._errors", "weir._owner", "weir._programs", "weir._weir", "weir.bpf", "weir.cc"),
        *(
            "weir._inside",
            "weir.confine",
            "weir.control",
            "weir.deploy",
            "weir.hosts",
            "weir.inventory",
            "weir.lab",
            "weir.queues",
        ),
        *("weir.run", "weir.stages"),
    },
    "stages": {
        *("weir._errors", "weir._files", "weir._inside", "weir._owner", "weir._seal", "weir.hosts", "weir.inventory"),
    },
    "archive": {"weir._inside", "weir.run"},
    "deploy": {"weir._errors", "weir._programs", "weir.hosts", "weir.run"},
    "bpf": {"weir._errors", "weir._programs", "weir._seal", "weir.cc"},
    "engine": {
        *(
            "weir._duration",
            "weir._files",
            "weir._group",
            "weir._inside",
            "weir._memory",
            "weir._remove",
            "weir._seal",
            "weir._terminal",
            "weir._weir",
        ),
        *("weir.cc", "weir.confine", "weir.methods", "weir.run"),
    },
    # Times such as 1h.
    "reserve": {"weir._errors", "weir._files", "weir._owner", "weir._seal", "weir._ssh", "weir.run"},
    "language": set(),
    "inventory": {"weir.language", "weir.reserve"},
    # The language, for the words of its links.
    "testbed": {
        *("weir._errors", "weir._files", "weir._owner", "weir._programs", "weir._remove", "weir._seal", "weir.hosts"),
        *("weir.language", "weir.scenario"),
    },
    "cluster": {
        *("weir._cache", "weir._files", "weir._remove", "weir._weir", "weir.cc", "weir.confine", "weir.engine"),
        *("weir.hosts", "weir.inventory", "weir.methods"),
    },
    "emulate": {
        *("weir._errors", "weir._interfaces", "weir._owner", "weir._programs", "weir.hosts", "weir.scenario"),
    },
    # The sources of a user's control.
    "lab": {"weir._cache", "weir._group", "weir._memory", "weir._owner", "weir._remove", "weir._weir", "weir.confine"},
    # For checksums; for names in errors.
    "run": {"weir._inside", "weir._memory", "weir._terminal", "weir._weir"},
    "metrics": {"weir.queues", "weir.run"},
    # What a method says of itself: its clock, and how its time is called. The bounds within which a scenario is read.
    "report": {
        *("weir._files", "weir._inside", "weir._terminal", "weir.methods", "weir.metrics", "weir.queues", "weir.run"),
        "weir.inventory",
        "weir.language",
        "weir.scenario",
    },
    "compare": {"weir.metrics", "weir.report", "weir.run"},
    # weir-agent, behind the ports of a real switch, also on nodes of an inventory.
    "study": {
        *(
            "weir._duration",
            "weir._errors",
            "weir._interfaces",
            "weir._owner",
            "weir._programs",
            "weir._weir",
            "weir.bpf",
            "weir.cc",
            "weir.compare",
            "weir.confine",
            "weir.control",
            "weir.deploy",
            "weir.engine",
            "weir.hosts",
            "weir.inventory",
            "weir.language",
        ),
        *("weir.lab", "weir.methods", "weir.metrics", "weir.plan", "weir.report", "weir.run", "weir.scenario"),
    },
}
"""The packages that each package may import besides itself and ``weir.plan``; ``cli`` may import all. No cycles."""

HOST = {"asyncio", "multiprocessing", "os", "platform", "random", "shutil", "socket", "subprocess", "tempfile", "time"}

CRATES = {
    "weir-units": set(),
    "weir-elements": {"weir-units"},
    "weir-plan": {"weir-elements", "weir-units"},
    "weir-run": set(),
    "weir-cc": set(),
    "weir-links": {"weir-elements", "weir-plan", "weir-run", "weir-units"},
    "weir-switch": {"weir-elements", "weir-plan", "weir-run", "weir-units"},
    "weir-tcp": {"weir-cc", "weir-plan", "weir-units"},
    "weir-trace": {"weir-plan", "weir-units"},
    "weir-tfrc": {"weir-units"},
    "weir-traffic": {"weir-plan", "weir-units"},
    "weir-udt": {"weir-units"},
    "weir-sim": {
        *("weir-cc", "weir-elements", "weir-links", "weir-plan", "weir-run", "weir-tcp", "weir-trace", "weir-traffic"),
        *("weir-switch", "weir-tfrc", "weir-udt", "weir-units"),
    },
    "weir-protocol": {"weir-plan", "weir-run"},
}
"""The crates of weir that each core crate may depend on; drivers, edges and the protocol of processes are never among
them."""

EDGE = {"libloading", "object", "pyo3", "rustix", "tempfile"}
"""Crates of others that only the edge needs."""

UNSAFE = {
    "crates/weir-cc/src": "the C boundary of congestion controls",
    "crates/weir-cc-build/src/library.rs": "shared objects",
    "crates/weir-units/src/fetch.rs": "a prefetch",
    "crates/weir-py/src/column.rs": "Python's buffer protocol",
    "crates/weir-sys/src": "system calls that rustix lacks",
}


def place_of(file: Path) -> tuple[str, ...]:
    """The package that relative imports of ``file`` begin in."""
    return file.relative_to(PACKAGE.parent).parent.parts


@functools.cache
def parsed(file: Path) -> ast.Module:
    """A module of the package; most tests look at all of them."""
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a module: to find them takes as long as to parse it."""
    return (*ast.walk(tree),)


def imports(file: Path) -> Iterator[str]:
    """Modules that ``file`` imports anywhere, including through ``importlib`` with a literal name."""
    return imported(parsed(file), place_of(file), is_module)


def is_module(name: str) -> bool:
    place = PACKAGE.parent.joinpath(*name.split("."))
    return name == "weir._weir" or place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import weir.run, os", ["weir.run", "os"]),
        ("from weir import run, __version__", ["weir.run", "weir"]),
        ("from weir.run import Run, tables", ["weir.run", "weir.run.tables"]),
        ("from . import _emulator", ["weir.emulate._emulator"]),
        ("from ._emulator import Emulator", ["weir.emulate._emulator"]),
        ("from ..hosts import wiring, _cgroup", ["weir.hosts.wiring", "weir.hosts._cgroup"]),
        ("from .. import run", ["weir.run"]),
        ("def f():\n    from ..hosts._cgroup import root", ["weir.hosts._cgroup"]),
        ("importlib.import_module('weir.run.tables')", ["weir.run.tables"]),
    ],
)
def test_every_way_of_importing_is_seen(code: str, found: list[str]) -> None:
    assert [*imported(ast.parse(code), ("weir", "emulate"), is_module)] == found


@pytest.mark.parametrize(
    ("module", "package", "is_private"),
    [
        ("weir.hosts._cgroup", ("weir", "hosts"), False),
        ("weir.hosts._cgroup", ("weir", "emulate"), True),
        ("weir.hosts._cgroup", ("weir",), True),
        ("weir._owner", ("weir", "emulate"), False),
        ("weir.methods._method", ("weir", "methods", "lab"), False),
        ("weir.methods.lab._wire", ("weir", "methods"), True),
        ("weir.hosts.wiring", ("weir", "emulate"), False),
        ("os._exit", ("weir",), False),
    ],
)
def test_what_is_private_of_another_package(module: str, package: tuple[str, ...], is_private: bool) -> None:
    assert private_of_others(module, package) == is_private


def test_no_package_reaches_into_the_private_modules_of_another() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 300
    found = {
        f"{file.relative_to(PACKAGE)} imports {module}"
        for file in files
        for module in imports(file)
        if private_of_others(module, place_of(file))
    }
    assert not found


def test_no_packages_know_each_other() -> None:
    graph = read(sources(None))
    assert set(LAYERS) < set(graph.packages)
    assert not graph.circles()


def test_circles_and_private_imports_are_found() -> None:
    one, two = "from weir.b import _c\n", "def f():\n    import weir.c.d\n"
    files = {"a/__init__.py": one, "b/__init__.py": two, "b/_c.py": "", "c/d.py": "from ..a import x"}
    graph = read(files)
    assert graph.circles() == [["a", "b", "c"]]
    assert (dict(graph.edges), dict(graph.private)) == (
        {("a", "b"): 1, ("b", "c"): 1, ("c", "a"): 1},
        {("a", "b"): 1},
    )
    assert graph.implied() == set()


def within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_package_knows_only_what_comes_before_it(layer: str) -> None:
    files = sorted((PACKAGE / layer).rglob("*.py"))
    assert files
    allowed = LAYERS[layer] | {f"weir.{layer}"} | ({"weir.plan"} if layer != "plan" else set())
    for file in files:
        for module in imports(file):
            if module.startswith("weir."):
                assert within(module, allowed), f"{file.relative_to(ROOT)} imports {module}"


def test_the_questions_of_studies_know_the_study_and_not_each_other() -> None:
    questions = {path.parent.name for path in (PACKAGE / "study").glob("*/__init__.py")}
    assert questions == {"claims", "judge", "survey", "switches", "validation"}
    for file in (PACKAGE / "study").rglob("*.py"):
        place = file.relative_to(PACKAGE / "study")
        others = questions - {place.parts[0]}
        for module in imports(file):
            assert not within(module, {f"weir.study.{name}" for name in others}), f"{place} imports {module}"


NAMED = {
    "cli/_app.py": "`weir lab` builds and uses the kernel, `weir hosts` machines; they are commands",
    "cli/_errors.py": "the package weir.lab, which has an error of its own",
    "cli/cc.py": "the lab's kernel, whose congestion controls are listed beside this host's",
    "cli/validate.py": "the question that `weir validate` asks by itself: the simulator against this kernel",
    "cluster/_far.py": "the folder of the lab's sources, which belongs to an installation",
    "lab/": "the kernel, its files and processes: what a method may run on, not the method",
    "scenario/_topologies.py": "the key with the hosts of a topology, in a mark",
    "study/judge/": "it judges in the simulator, and builds a module against the lab's kernel",
    "study/validation/_heatmap.py": "the colour space CIELAB",
    "study/validation/controls/": "its question is about these: the kernel's congestion control in the lab, and weir's",
    "testbed/_files.py": "the file /etc/hosts",
}
"""Places outside of the methods that may name a method, with reasons."""


WORDS = {"hosts"}
"""Names of methods that are words of the field, too: as keys of documents they mean hosts."""


def named(tree: ast.AST, names: set[str]) -> Iterator[tuple[int, str]]:
    """Words of code with one of the names, and their lines: strings without white space with such a part.

    A string that is just a word of the field (:data:`WORDS`) does not count where it is a key: of a literal mapping, or
    in brackets.
    """
    documents = {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Expr)}
    keys = {id(key) for node in nodes_of(tree) if isinstance(node, ast.Dict) for key in node.keys}
    keys |= {id(node.slice) for node in nodes_of(tree) if isinstance(node, ast.Subscript)}
    for node in nodes_of(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documents and not re.search(r"\s", text):
                if names & set(re.split(r"\W+", text)) and not (text in WORDS and id(node) in keys):
                    yield node.lineno, text


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('if method == "emul": pass', 1),
        ('SPEED = {"sim": 1e6, "lab": 3e4}', 2),
        ('def run(method="sim,lab@seed=2"): pass', 1),
        ('match method:\n    case "lab": pass', 1),
        ('"""The methods sim and lab."""', 0),
        ('help = "executed by sim, which needs nothing"', 0),
        ('kind = "simple"', 0),
        ('job = {"hosts": list(hosts)}; job["hosts"]', 0),
        ('if method == "hosts": pass', 1),
        ('methods.get("hosts"); run(method="hosts")', 2),
        ('SPEED = {"lab": "hosts"}', 2),
    ],
)
def test_names_of_methods_are_found_where_they_decide(code: str, found: int) -> None:
    assert len([*named(ast.parse(code), {"sim", "lab", "emul", "hosts"})]) == found


def test_nothing_above_the_methods_knows_which_there_are() -> None:
    from weir.methods import METHODS

    used: set[str] = set()
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE).as_posix()
        if place.startswith("methods/"):
            continue
        for line, text in named(parsed(file), set(METHODS)):
            reasons = [known for known in NAMED if place.startswith(known)]
            assert reasons, f"{place}:{line} names a method: {text!r}; ask weir.methods.Method instead"
            used.update(reasons)
    assert used == set(NAMED), "exceptions that are needed no more"


QUEUES_NAMED = {
    "plan/_types.py": "generated from the declarations of the elements",
    "hosts/netem.py": "the kernel's shaper, by its name for tc",
    "hosts/wiring.py": "the kernel's shaper, by its name for tc",
    "methods/emul/_support.py": "the kernel's shaper, by its name for tc",
    "study/_draw.py": "draws queues for an experiment: which ones, how often and how large is its design",
    "study/judge/_cases.py": "the values of a factor in one of its scenarios",
}
"""Where the name of a kind of queue may stand outside of :mod:`weir.queues`, and why."""

COLOURED = {"cli/"}
"""Where ``red`` is a colour."""


def queue_words(tree: ast.AST, names: set[str], classes: set[str]) -> Iterator[tuple[int, str]]:
    """Words of code that name a kind of queue: as a string, or by the class of its plan; and their lines."""
    yield from named(tree, names)
    for node in nodes_of(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if name in classes:
                yield node.lineno, name
            case ast.Constant(value=bytes(content)) if content.decode(errors="replace") in names:
                yield node.lineno, content.decode()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('if queue.kind == "pie": pass', 1),
        ("from weir.plan import PieQueue, Queue", 1),
        ("match queue:\n    case plan.PieQueue(): pass", 1),
        ('MARKS = {"red": 3, b"pie": 9}', 2),
        ('"""As pie and red do."""', 0),
        ('help = "a queue such as pie"', 0),
    ],
)
def test_names_of_queues_are_found_where_they_decide(code: str, found: int) -> None:
    assert len([*queue_words(ast.parse(code), {"pie", "red"}, {"PieQueue"})]) == found


def test_nobody_but_its_own_files_knows_a_queue() -> None:
    """A new queue changes nothing in a module that asks :mod:`weir.queues`."""
    from weir.plan import Queue
    from weir.queues import elements

    names = {one.name for one in elements("queue")} | {form.name for one in elements("queue") for form in one.forms}
    names -= {"step", "marks"}  # words of lines, plans and observations, too
    classes = {option.__name__ for option in Queue.__args__}
    assert {"droptail", "wred", "fq_codel"} <= names
    assert {"PieQueue", "RedQueue"} <= classes
    used: set[str] = set()
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE).as_posix()
        if place.startswith("queues/"):
            continue
        coloured = any(place.startswith(known) for known in COLOURED)
        for line, text in queue_words(parsed(file), names, classes):
            if coloured and text == "red":
                continue
            reasons = [known for known in QUEUES_NAMED if place.startswith(known)]
            assert reasons, f"{place}:{line} names a kind of queue: {text!r}; ask weir.queues instead"
            used.update(reasons)
    assert used == set(QUEUES_NAMED), "exceptions that are needed no more"


def test_one_module_knows_the_kinds_of_losses_and_delays() -> None:
    """What the kernel and a self-check make of a kind stands beside its name; others ask ``weir.hosts.impairments``."""
    from weir.plan import Delay, Loss

    classes = {option.__name__ for option in (*Loss.__args__, *Delay.__args__)}
    assert {"BernoulliLoss", "JitterDelay"} <= classes
    own = {"hosts/impairments.py", "plan/_types.py"}
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE).as_posix()
        used = [*queue_words(parsed(file), set(), classes)]
        assert bool(used) == (place in own), f"{place}: {used}"


def test_no_crate_but_its_own_knows_a_queue() -> None:
    """The plans of queues, and the variants that the registry makes of them, stand in ``weir-elements`` only."""
    registry = (ROOT / "crates/weir-elements/src/registry.rs").read_text(encoding="utf-8")
    lines = re.findall(r"^ +(\w+) = (\w+)::(\w+);$", registry, re.MULTILINE)
    assert len(lines) >= 5
    variants, plans = {variant for variant, _, _ in lines}, {plan for _, _, plan in lines}
    word = re.compile(rf"\b(?:(?:Queue|AnyQdisc|Admission)::(?:{'|'.join(variants)})|{'|'.join(plans)})\b")
    own = {f"crates/weir-elements/src/{file}.rs" for _, file, _ in lines} | {"crates/weir-elements/src/registry.rs"}
    for file in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        place = file.relative_to(ROOT).as_posix()
        if place in own or file.name == "tests.rs":
            continue
        code = re.sub(r"//.*", "", file.read_text(encoding="utf-8")).partition("#[cfg(test)]")[0]
        found = word.search(code)
        assert found is None, f"{place} names a kind of queue: {found and found[0]}"


def test_methods_are_reached_through_their_registry() -> None:
    from weir.methods import METHODS

    inside = {f"weir.methods.{name}" for name in METHODS}
    users = {
        file.relative_to(PACKAGE).parts[0]
        for file in PACKAGE.rglob("*.py")
        if any(within(module, inside) for module in imports(file))
    }
    assert users == {"methods"}


NAMED_CONTROLS = {
    "crates/weir-agent/src/tcp_sender.rs": "the kernel's that paces itself",
    "crates/weir-bpf/src/main.rs": "an example in its help",
    "crates/weir-plan/src/flow.rs": "those of the QUIC library, which are not weir's",
    "crates/weir-quic/src/settings.rs": "those of the QUIC library, which are not weir's",
    "lab/_kernel.py": "those that the configuration of the lab's kernel builds",
    "methods/sim.py": "Reno stands for a user's control where nothing is executed",
    "scenario/_distribution.py": "a distribution, which is called constant too",
    "scenario/_quic.py": "those of the QUIC library, which are not weir's",
    "scenario/_transport.py": "the kernel's, which `linux:NAME` may name",
    "study/_draw.py": "those that both the kernel and weir have, of which cells are drawn",
}
"""Where the name of a congestion control may stand in code, and why."""


def congestion_controls() -> set[str]:
    lines = (ROOT / "cc" / "registry.txt").read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def named_in_rust(code: str, names: set[str]) -> Iterator[tuple[int, str]]:
    """The same of Rust. Tests, which end a file, may name whatever they like."""
    code = re.split(r"^#\[cfg\(test\)\]$", code, maxsplit=1, flags=re.MULTILINE)[0]
    for number, line in enumerate(code.splitlines(), 1):
        for text in re.findall(r'"([^"\s]*)"', re.sub(r"//.*", "", line)):
            if names & set(re.split(r"[^\w-]+", text)):
                yield number, text


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('matches!(algorithm.name(), "reno" | "scalable")', 2),
        ('if cc == "cubic-2005" {', 1),
        ('// "reno"\nlet x = 1; // "reno"', 0),
        ('include_str!("../../cc/include/weir_reno.h")', 0),
        ('#[cfg(test)]\nmod tests { const CC: &str = "reno"; }', 0),
    ],
)
def test_names_of_congestion_controls_are_found_where_they_decide(code: str, found: int) -> None:
    assert len([*named_in_rust(code, {"reno", "scalable", "cubic-2005"})]) == found


def test_nothing_depends_on_the_name_of_a_congestion_control() -> None:
    """A user's own would be treated otherwise. What a stack has to know of a control, its source says."""
    names, used = congestion_controls(), set[str]()
    assert len(names) >= 7
    rust = {
        file.relative_to(ROOT).as_posix(): [*named_in_rust(file.read_text(encoding="utf-8"), names)]
        for file in (ROOT / "crates").glob("*/src/**/*.rs")
    }
    python = {file.relative_to(PACKAGE).as_posix(): [*named(parsed(file), names)] for file in PACKAGE.rglob("*.py")}
    assert len(rust) > 100
    assert len(python) > 100
    for place, found in sorted({**rust, **python}.items()):
        for line, text in found:
            assert place in NAMED_CONTROLS, f"{place}:{line} names a congestion control: {text!r}; ask the control"
            used.add(place)
    assert used == set(NAMED_CONTROLS), "exceptions that are needed no more"


def test_every_package_has_its_place() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == {*LAYERS, "cli"}
    described = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Python")[2]
    assert not [name for name in packages if f"\n    {name}/ " not in described]


@pytest.mark.parametrize("layer", ["inventory", "language", "metrics", "plan", "run", "scenario"])
def test_definitions_never_touch_a_host(layer: str) -> None:
    for file in (PACKAGE / layer).rglob("*.py"):
        used = set(imports(file)) & HOST
        allowed = {"os"} if layer in {"inventory", "scenario"} else set()  # its PathLike and separator
        assert used <= allowed, f"{file.relative_to(ROOT)} imports {', '.join(sorted(used))}"


def test_only_one_module_writes_to_a_terminal() -> None:
    """Elsewhere, text of a file would reach it unescaped."""
    alone = {"_terminal.py", "lab/_xstate.py"}  # the latter is a program of its own, which answers with a number
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.relative_to(PACKAGE).as_posix() in alone:
            continue
        for node in nodes_of(parsed(file)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                place = f"{file.relative_to(ROOT)}:{node.lineno}"
                assert called not in {"print", "click.echo", "click.secho", "Console"}, f"{place} calls {called}"
                assert not called.startswith(("sys.stdout.write", "sys.stderr.write")), f"{place} calls {called}"


def test_nothing_is_evaluated() -> None:
    for file in PACKAGE.rglob("*.py"):
        place = str(file.relative_to(ROOT))
        assert not {"pickle", "marshal", "shelve", "yaml"} & set(imports(file)), place
        for node in nodes_of(parsed(file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, f"{place}:{node.lineno}"
            if isinstance(node, ast.keyword) and node.arg == "shell":
                raise AssertionError(f"{place}:{node.lineno}: a command is a list, never a shell's text")


@pytest.mark.parametrize("crate", CRATES)
def test_core_crates_know_no_driver(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text(encoding="utf-8"))
    known = {name for name in manifest.get("dependencies", {}) if name.startswith("weir-")}
    assert known <= CRATES[crate]
    assert not manifest.get("dependencies", {}).keys() & EDGE, "a core crate opens no file and loads no program"
    assert not (ROOT / "crates" / crate / "clippy.toml").exists(), "it is under the workspace's clippy.toml"


def test_unsafe_code_stands_where_the_architecture_says() -> None:
    for file in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        place = file.relative_to(ROOT).as_posix()
        code = re.sub(r"//.*", "", file.read_text(encoding="utf-8"))
        if re.search(r"\bunsafe\s*(?:\{|fn\b|impl\b|extern\b)", code):
            assert place.startswith(tuple(UNSAFE)), f"{place} has unsafe code"


def test_congestion_controls_have_no_floating_point() -> None:
    files = [*(ROOT / "cc").glob("*/*.c"), *(ROOT / "cc").glob("*/*.h")]
    assert len(files) > 10
    for file in files:
        code = re.sub(r'/\*.*?\*/|//[^\n]*|"[^"\n]*"', "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"\b(?:float|double)\b|\d\.\d", code), file
