"""A user's congestion control in the lab: its headers, its lines, and two versions of one name."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_support import plan

from shared import ROOT, execute
from weir.lab import Control, Kernel, Lab, LabError, Script
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


def test_the_compiler_of_modules_reads_no_secret(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".secret").write_text("TOPSECRET-4711", encoding="utf-8")
    source = tmp_path / "mine.c"
    reading = f'__asm__(".pushsection .rodata\\n.incbin \\"{tmp_path}/.secret\\"\\n.popsection");'
    source.write_text(EXAMPLE + f"#ifdef __KERNEL__\n{reading}\n#endif\n", encoding="utf-8")
    # The folder is public here, so that the assembler can read it.
    assert b"TOPSECRET-4711" in kernel.modules([Control.of(source)]).popitem()[1].read_bytes()
    source.write_text(source.read_text() + "/* another */\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))  # so that it is a dot file of a home
    with pytest.raises(LabError, match="cannot be compiled") as raised:
        kernel.modules([Control.of(source)])
    assert "TOPSECRET" not in str(raised.value)


def test_a_header_that_no_hash_knows_is_refused(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "cc").mkdir()
    (tmp_path / "out.h").write_text("", encoding="utf-8")
    source = tmp_path / "cc" / "mine.c"
    source.write_text(f"{EXAMPLE}#ifdef __KERNEL__\n#include <{tmp_path}/out.h>\n#endif\n", encoding="utf-8")
    with pytest.raises(LabError, match=rf"{source}: it includes {tmp_path}/out.h"):
        kernel.modules([Control.of(source)])


def test_a_lab_reads_its_own_modules_only(kernel: Kernel, tmp_path: Path) -> None:
    for name in ("mine", "other"):
        (tmp_path / f"{name}.c").write_text(EXAMPLE + f"/* {tmp_path} */\n" * len(name), encoding="utf-8")
    mine, other = (kernel.modules([Control.of(tmp_path / f"{name}.c")]).popitem()[1] for name in ("mine", "other"))
    assert mine != other
    script = Script()
    script.add("insmod", str(mine), "")
    script.add("exec", "sh", "-c", f"head -c 4 {mine} && ! head -c 4 {other}")
    with Lab(kernel, script) as lab:
        lab.wait()
        assert lab.exit_code() == 0, lab.console()
        assert lab.output("stdout").read() == b"\x7fELF"
