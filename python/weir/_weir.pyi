"""The compiled half of weir (crates/weir-py)."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, final

def version() -> str:
    """The version of the Rust side."""

def build_info() -> dict[str, str]:
    """What this was built with: ``rustc``, ``profile``, ``target``."""

def check_plan(json: str) -> None:
    """Checks a plan.

    Raises:
        ValueError: the text is not a plan; the message says where and what was expected.
    """

def plan_schema() -> str:
    """The JSON schema of a plan, as text."""

def elements() -> str:
    """What the elements of links say of themselves, as JSON: a list in the order in which a packet passes them."""

def sample(seed: int, stream: str, distribution: Mapping[str, object] | str, n: int) -> list[float]:
    """``n`` draws of ``distribution`` from the substream ``stream`` of ``seed``.

    Args:
        distribution: such as ``{"kind": "exponential", "mean": 3.0}``, or its JSON.

    Raises:
        ValueError: no such distribution, or a parameter is out of range.
    """

def cc_list() -> str:
    """Every registered congestion control, as a JSON list of objects (name, title, year, source, options, ...)."""

def cc_everywhere() -> str:
    """As :func:`cc_list`, with those that exist in the simulator only: they name a ``queue``."""

def cc_describe(name: str) -> str:
    """The congestion control with a registered name, or of a shared object, as a JSON object.

    Raises:
        ValueError: there is none; the message has the nearest names.
    """

def cc_permit_loading() -> None:
    """From now on this process may load shared objects; without, ``cc_describe`` and ``Simulator`` refuse them."""

def cc_try(name: str) -> list[str]:
    """Tries a congestion control with drawn calls; returns the names of the values that it showed by ``WEIR_PROBE``.

    Raises:
        ValueError: it does what it may not, or there is none of that name. What a signal ends does not return.
    """

def cc_suite(name: str) -> list[tuple[str, str | None, str]]:
    """Asks a congestion control what every control should do: each requirement, and what it does instead, if anything.

    Raises:
        ValueError: as of :func:`cc_try`.
    """

@final
class CcSources:
    """A C file and the headers beside it that it includes, as they were when they were read.

    Raises:
        ValueError: the C file cannot be read or is no plain one, a file is too large, or an include's name is computed.
    """

    def __init__(self, path: str | PathLike[str]) -> None: ...
    @property
    def main(self) -> bytes:
        """The content of the C file."""

    @property
    def headers(self) -> list[tuple[Path, bytes]]:
        """The headers: the path of each below the folder of the C file, and its content."""

def cc_compile(
    sources: CcSources,
    shared: str | PathLike[str],
    built_from: str,
    sanitize: bool,
    confine: str | PathLike[str] | None,
) -> str:
    """Compiles the congestion control ``sources`` to the shared object ``shared``, which says ``built_from``.

    The compiler runs under the program ``confine``; with ``None``, nothing confines it. Nothing is loaded. Returns the
    compiler's warnings.

    Raises:
        ValueError: there is no compiler, or it does not compile; the message has the reasons.
    """

def cc_recipe(sanitize: bool) -> str:
    """What decides an object beside its source: compiler, flags, headers.

    Raises:
        ValueError: there is no compiler.
    """

def cc_watch_bytes() -> int:
    """Bytes of a record of calls."""

def cc_watch_share(fd: int) -> None:
    """Records the calls of users' congestion controls in the file ``fd``, and the signal that ends the process.

    Raises:
        ValueError: it cannot be mapped.
    """

def cc_watched(record: bytes) -> str:
    """What a record says, as a JSON object: calls, in_call, operation, control, signal, options, past_state, at."""

def cc_check_bpf(
    sources: CcSources, confine: str | PathLike[str] | None
) -> tuple[Literal["accepted", "refused", "no clang"], str]:
    """Whether ``sources`` compile for BPF, and the compiler's messages or the command that was tried.

    Raises:
        ValueError: clang cannot be confined.
    """

def cc_compile_bpf(sources: CcSources, old: bool, confine: str | PathLike[str] | None) -> bytes:
    """The BPF object of ``sources``, for kernels before Linux 6.10 if ``old``; ``confine`` as in ``cc_compile``.

    Raises:
        ValueError: there is no clang, or it does not compile; the message has the reasons.
    """

def cc_headers(folder: str | PathLike[str]) -> Path:
    """Writes the headers that a congestion control includes below ``folder``; the include path.

    Raises:
        ValueError: they cannot be written.
    """

def digest_file(path: str | PathLike[str]) -> tuple[int, str]:
    """The size of a file in bytes, and the XXH3-128 of its content as 32 hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """

def digest_bytes(content: bytes) -> str:
    """The XXH3-128 of ``content`` as 32 hexadecimal digits."""

def plain_file(path: str) -> tuple[int, int, int, int] | None:
    """Inode, bytes, and time of the last change (s, ns) of the plain file at ``path``.

    ``None``: none can be seen there. A link is none, but those that lead to its folder are followed.
    """

def digest_plain(path: str) -> tuple[tuple[int, int, int, int], str] | None:
    """The same, and the XXH3-128 of its content as 32 hexadecimal digits; ``None``: it cannot be read."""

class Column:
    """A column of a table: an immutable buffer of 8-, 32- or 64-bit integers (see ``memoryview``)."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def trace_files() -> list[str]:
    """Names of the files of a trace: at the senders, at the receivers, and the log."""

class RowTrace:
    """Makes the files of a trace of what the lab's kernel says of single packets (``crates/weir-trace``: rows.rs)."""

    def __new__(cls, plan: str) -> RowTrace:
        """The trace that ``plan`` asks for.

        Raises:
            ValueError: it is not a plan, or asks for none.
        """

    def take(self, rows: bytes) -> dict[str, bytes]:
        """Takes whole rows in the order of time; the parts of the files that follow what was given before, by name.

        Raises:
            OSError: a packet does not fit its headers.
        """

    def finish(self) -> dict[str, bytes]:
        """The last parts."""

class Asked:
    """The registration of an object that decides for a flow; it ends with this object."""

    def __new__(cls, name: str, decide: Callable[..., tuple[int | None, int | None, int | None]]) -> Asked:
        """Registers ``decide``, of the control that users know as ``name``.

        ``decide`` is called with the fields of a report as keyword arguments (``Report`` in
        ``crates/weir-cc/src/asked.rs``). It returns the window in packets, the pacing rate in bytes per second, and the
        microseconds until the next question; each may be ``None``. If it raises, ``Simulator.advance`` raises
        ``ValueError``.
        """

    def transport(self) -> dict[str, Any]:
        """What the flow's transport has instead of its ``cc`` and ``cc_options``."""

class Simulator:
    """A simulation of one plan."""

    def __new__(cls, plan: str) -> Simulator:
        """A simulation of ``plan`` (JSON) at its start.

        Raises:
            ValueError: it is not a plan, or the simulator cannot execute it; the message says where.
        """

    def advance(self, until_ns: int) -> bool:
        """Simulates until this instant; whether the plan has ended. Other threads run meanwhile.

        Raises:
            ValueError: a user's congestion control did what it may not; the simulation is of no more use.
        """

    @property
    def now_ns(self) -> int:
        """The instant reached."""

    def drain(self) -> dict[str, dict[str, Column]]:
        """The rows recorded since the last call: table name -> column name -> values.

        A value that may be null is the greatest value of its type instead; ``kind`` of ``events`` is an index into
        :func:`event_kinds`.
        """

    def drain_trace(self) -> dict[str, bytes]:
        """Parts of the files of the per-packet trace, by name, to be appended; empty unless the plan asks for one."""

    def stats(self) -> dict[str, int]:
        """How much work it was: ``packets``, ``events``, ``delivered_bytes``, ``max_in_flight`` (packets)."""

def keep_freed_memory() -> None:
    """From now on the process keeps the memory that it frees, up to 256 MB; for processes that mainly simulate."""

def event_kinds() -> list[str]:
    """Names of the values of column ``kind`` of table ``events``."""
