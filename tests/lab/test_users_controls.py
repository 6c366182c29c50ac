"""A user's congestion control in the lab: its headers, its lines, and two versions of one name."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_support import plan

from shared import ROOT, execute
from weir.lab import Kernel
from weir.methods import MethodError

EXAMPLE = (ROOT / "examples" / "my_cc" / "my_cc.c").read_text(encoding="utf-8")


def of(folder: Path, cc: Path) -> dict[str, object]:
    return plan(folder, f"transport.cc='{cc}'", "workload.a.until=4s")


def test_a_header_beside_the_source_is_found_and_belongs_to_it(kernel: Kernel, tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_text('#include "mine.h"\n' + EXAMPLE.replace("keep) / 100", "keep) / MINE"), encoding="utf-8")
    header = tmp_path / "mine.h"
    windows = []
    for share in (100, 1000):
        header.write_text(f"#define MINE {share}\n", encoding="utf-8")
        windows.append(execute("lab", of(tmp_path, source))[0].columns("samples")["ssthresh"])
    assert windows[0] != windows[1]


def test_what_only_a_kernel_refuses_names_the_users_line(kernel: Kernel, tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    wrong = "(void)ack;\n#ifdef __KERNEL__\n\tthis_is_no_c();\n#endif\n"
    source.write_text(EXAMPLE.replace("(void)ack;", wrong), encoding="utf-8")
    with pytest.raises(MethodError, match=rf"{source}:40:\d+: error: .*this_is_no_c"):
        execute("lab", of(tmp_path, source))
