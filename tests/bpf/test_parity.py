"""``weir cc parity``: the same random calls on both builds of a source."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from weir.bpf import BpfRequestError, Status, parity
from weir.cli import _common
from weir.cli.cc import command

pytestmark = pytest.mark.usefixtures("clang")
EVERY = Path(__file__).parent / "every_operation.c"


def unlike(folder: Path) -> Path:
    """A source whose BPF build counts differently."""
    text = EVERY.read_text(encoding="utf-8")
    source = folder / "unlike.c"
    changed = text.replace("ca->rounds++;", "ca->rounds++;\n#ifdef __bpf__\n\tca->rounds++;\n#endif")
    assert changed != text
    source.write_text(changed, encoding="utf-8")
    return source


def weir_cc(*arguments: str) -> tuple[int, str]:
    _common.console.cache_clear()
    ran = CliRunner().invoke(command, arguments, catch_exceptions=False)
    return ran.exit_code, ran.output


def test_every_operation_leaves_the_same_state(kernel: Status) -> None:
    found = parity(str(EVERY), calls=10_000)
    assert (found.calls, found.flows, found.differences) == (10_000, 5, ())
    assert len(found.operations) == 11
    assert min(found.operations.values()) > 100


def test_another_seed_draws_other_calls(kernel: Status) -> None:
    first, again, other = (parity("reno", calls=2000, seed=seed).operations for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_difference_is_found_and_said(kernel: Status, tmp_path: Path) -> None:
    code, output = weir_cc("parity", str(unlike(tmp_path)), "--calls", "4000")
    assert code == 1
    assert "they differ: flow 0" in output
    assert "cong_control" in output
    assert "private state, bytes 16 to 23: native" in output


def test_no_difference_is_said(kernel: Status) -> None:
    code, output = weir_cc("parity", "scalable", "--calls", "2000")
    assert (code, "the simulator's and the kernel's build behave the same" in output) == (0, True)


def test_an_unknown_name_is_refused(kernel: Status) -> None:
    with pytest.raises(BpfRequestError, match="did you mean scalable"):
        parity("scalible")
