"""The compiled half of weir (crates/weir-py)."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Literal

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

def sample(seed: int, stream: str, distribution: Mapping[str, object] | str, n: int) -> list[float]:
    """``n`` draws of ``distribution`` from the substream ``stream`` of ``seed``.

    Args:
        distribution: such as ``{"kind": "exponential", "mean": 3.0}``, or its JSON.

    Raises:
        ValueError: no such distribution, or a parameter is out of range.
    """

def cc_list() -> str:
    """Every registered congestion control, as a JSON list of objects (name, title, year, source, options, ...)."""

def cc_describe(name: str) -> str:
    """The congestion control with a registered name, or of a shared object, as a JSON object.

    Raises:
        ValueError: there is none; the message has the nearest names.
    """

def cc_build(source: str | PathLike[str], out: str | PathLike[str]) -> Path:
    """Compiles the congestion control ``source`` to the shared object ``out`` (or into the folder ``out``).

    Raises:
        ValueError: there is no compiler, it does not compile, or weir refuses it; the message has the reasons.
    """

def cc_check_bpf(source: str | PathLike[str]) -> tuple[Literal["accepted", "refused", "no clang"], str]:
    """Whether ``source`` compiles for BPF, and the compiler's messages or the command that was tried.

    Raises:
        ValueError: the file cannot be read.
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

class Column:
    """A column of a table: an immutable buffer of 8-, 32- or 64-bit integers (see ``memoryview``)."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Simulator:
    """A simulation of one plan."""

    def __new__(cls, plan: str) -> Simulator:
        """A simulation of ``plan`` (JSON) at its start.

        Raises:
            ValueError: it is not a plan, or the simulator cannot execute it; the message says where.
        """

    def advance(self, until_ns: int) -> bool:
        """Simulates until this instant; whether the plan has ended. Other threads run meanwhile."""

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

def event_kinds() -> list[str]:
    """Names of the values of column ``kind`` of table ``events``."""
