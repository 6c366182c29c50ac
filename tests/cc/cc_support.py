"""Malicious or wrong congestion controls, made from the example."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "my_cc" / "my_cc.c"


def variant(folder: Path, statement: str = "", *, before: str = "", name: str = "mine.c") -> Path:
    """The example with a statement in its ``cong_avoid`` and declarations before it."""
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "(void)ack;" in text
    path = folder / name
    changed = text.replace("(void)ack;", f"(void)ack; {statement}").replace(
        "struct my_state {", f"{before}\nstruct my_state {{"
    )
    path.write_text(changed, encoding="utf-8")
    return path


def foreign(folder: Path, source: str, name: str = "evil.so") -> Path:
    """A shared object made by an ordinary compiler, with libc."""
    path = folder / name
    code = folder / "foreign-source"
    code.write_text(source, encoding="utf-8")
    include = ROOT / "cc" / "include"
    made = [
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        "-w",
        "-DWEIR_CC_SHARED",
        f"-I{include}",
        "-o",
        str(path),
        "-xc",
        str(code),
    ]
    subprocess.run(made, check=True, timeout=60)
    code.unlink()
    return path


def at_load(statement: str) -> str:
    """The example's source with a statement that runs when the object is loaded."""
    constructor = f"__attribute__((constructor)) static void evil(void) {{ {statement} }}\n"
    return _LIBC + EXAMPLE.read_text(encoding="utf-8") + constructor


_LIBC = """
extern int fork(void), setsid(void), socket(int, int, int), raise(int), puts(const char *);
extern int open(const char *, int, ...);
extern int pthread_create(void *, void *, void *, void *), pipe(int *), close(int);
extern long syscall(long, ...);
extern int getppid(void), kill(int, int), ptrace(int, int, void *, void *), pause(void), system(const char *);
extern long write(int, const void *, unsigned long);
extern void exit(int), _exit(int), abort(void), *malloc(unsigned long), longjmp(void *, int);
"""
