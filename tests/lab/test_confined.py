"""A guest's root, and a guest's kernel, change nothing on the host: neither may be trusted to confine itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_support import plan

from shared import argv, environment, execute
from weir import confine
from weir.lab import Kernel, Lab, LabError, Script
from weir.lab._kernel import _Module


def run(kernel: Kernel, text: str, *, rw: Path | None = None, modules: tuple[Path, ...] = ()) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the shell script ``text`` in a lab."""
    script = Script()
    for module in modules:
        script.add("insmod", str(module), "")
    if rw is not None:
        script.add("rw", str(rw))
    script.add("exec", "sh", "-c", text)
    with Lab(kernel, script) as lab:
        lab.wait()
        code = lab.exit_code()
        out, error = (lab.output(name).read().decode() for name in ("stdout", "stderr"))
    return code, out, error


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the host with a file."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "victim").write_text("kept", encoding="utf-8")
    (tmp_path / "inside").mkdir()
    return folder


def untouched(outside: Path) -> bool:
    victim = outside / "victim"
    about = victim.stat()
    return (
        sorted(path.name for path in outside.iterdir()) == ["victim"]
        and victim.read_text(encoding="utf-8") == "kept"
        and (about.st_mode & 0o777, about.st_nlink) == (0o644, 1)
    )


_WAYS = {
    "the root made writable": "mount -o remount,rw / && cd {outside}",
    "the root mounted again": "mkdir /run/all && mount -t hostfs none /run/all -o / && cd /run/all{outside}",
    "only that folder mounted": "mkdir /run/it && mount -t hostfs none /run/it -o {outside} && cd /run/it",
    "the root of a process": "mount -o remount,rw / && cd /proc/1/root{outside}",
    "the root of the kernel": "mkdir /run/it && mount -t hostfs none /run/it -o /proc/self/root && cd /run/it{outside}",
    "the run's folder upwards": "mkdir /run/it && mount -t hostfs none /run/it -o {inside}/.. && cd /run/it/outside",
    "a link in the writable folder": "ln -s {outside} {inside}/way && mkdir /run/it && "
    "mount -t hostfs none /run/it -o {inside}/way && cd /run/it",
}

_HARM = """
for act in 'echo changed > victim' 'echo more >> victim' 'echo new > new' 'mkdir folder' 'rm victim' 'mv victim moved' \
    'ln victim linked' 'ln -s victim symbolic' 'mknod device b 7 0' 'mkfifo pipe' 'chmod 777 victim' \
    'chown 0:0 victim' 'touch -d 2001-01-01 victim' 'truncate -s 0 victim'
do
    sh -c "$act" 2>/dev/null && echo "$act"
done
exit 0
"""


@pytest.mark.parametrize("way", _WAYS)
def test_no_way_leads_to_the_files_of_the_host(kernel: Kernel, outside: Path, way: str) -> None:
    enter = _WAYS[way].format(outside=outside, inside=outside.parent / "inside")
    code, out, error = run(kernel, f"{enter} || exit 9\nls victim\n{_HARM}", rw=outside.parent / "inside")
    assert (code, out) == (0, "victim\n"), error  # it was there, and no attempt there succeeded
    assert untouched(outside)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could do it to begin with")
def test_these_ways_lead_there_when_nothing_confines(
    kernel: Kernel, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(confine.UNCONFINED, "1")
    for way in _WAYS.values():
        (outside / "victim").write_text("kept", encoding="utf-8")
        enter = way.format(outside=outside, inside=outside.parent / "inside")
        run(kernel, f"{enter} && echo changed > victim", rw=outside.parent / "inside")
        assert (outside / "victim").read_text(encoding="utf-8") == "changed\n", enter


def test_devices_and_secrets_of_the_host_are_out_of_reach(kernel: Kernel, tmp_path: Path) -> None:
    text = """
mkdir /run/all && mount -t hostfs none /run/all -o / || exit 9
cd /run/all
for path in dev/mem dev/kmsg dev/vda dev/sda dev/nvme0n1 etc/shadow run/utmp proc/PID/environ; do
    [ -z "$(head -c 1 $path 2>/dev/null | tr '\\0' x)" ] || echo $path
done
head -1 etc/passwd >/dev/null && echo readable
"""
    assert run(kernel, text.replace("PID", str(os.getpid())))[1] == "readable\n"


def test_dot_files_of_the_home_are_hidden(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "key").write_text("secret", encoding="utf-8")
    (tmp_path / "notes").write_text("seen", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(kernel, f"cat {tmp_path}/notes {tmp_path}/.ssh/key; exit 0")[1] == "seen"


def test_what_is_made_in_the_writable_folder_gives_nobody_more_rights(kernel: Kernel, tmp_path: Path) -> None:
    run(kernel, f"cd {tmp_path}; cp /bin/true a; chmod 6755 a; mknod b c 1 1; umask 0; cp /bin/true c", rw=tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.stat().st_mode & 0o6000 or not path.is_file()] == []


_MODULE = r"""
/* A guest that has taken its kernel over: it asks the host directly, without hostfs between. */
#include <linux/module.h>

static long host(long number, long a, long b, long c)
{
	long result;

	asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
}

static int __init begin(void)
{
	static const char victim[] = "VICTIM", shadow[] = "/etc/shadow";

	pr_info("confined write %ld\n", host(2, (long)victim, 1, 0));       /* open, O_WRONLY */
	pr_info("confined chmod %ld\n", host(90, (long)victim, 0777, 0));
	pr_info("confined unlink %ld\n", host(87, (long)victim, 0, 0));
	pr_info("confined secret %ld\n", host(2, (long)shadow, 0, 0));
	pr_info("confined socket %ld\n", host(41, 2, 1, 0));
	pr_info("confined signal %ld\n", host(62, PID, 0, 0));
	pr_info("confined trace %ld\n", host(101, 16, PID, 0));
	pr_info("confined module %ld\n", host(175, (long)victim, 1, (long)""));
	pr_info("confined name %ld\n", host(272, 0x04000000, 0, 0));         /* unshare, CLONE_NEWUTS */
	return 0;
}

static void __exit end(void) {}
module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
"""


@pytest.fixture
def taken(kernel: Kernel, outside: Path, tmp_path: Path) -> Iterator[Path]:
    """The module, and a process outside that it will find."""
    with subprocess.Popen(["sleep", "600"]) as process:
        source = tmp_path / "taken.c"
        text = _MODULE.replace("VICTIM", str(outside / "victim")).replace("PID", str(process.pid))
        source.write_text(text, encoding="utf-8")
        module = _Module("taken", (source,), tmp_path / "built")
        kernel._build([module], ())
        yield module.file
        process.kill()


def results_of(kernel: Kernel, module: Path) -> dict[str, int]:
    """The result of each system call of the module."""
    _, out, _ = run(kernel, "dmesg | grep confined", modules=(module,))
    results = {line.split()[-2]: int(line.split()[-1]) for line in out.splitlines()}
    assert len(results) == 9
    return results


def test_a_guest_kernel_that_is_taken_over_can_do_no_more(kernel: Kernel, outside: Path, taken: Path) -> None:
    refusals = {-1, -3, -13, -30, -38}  # EPERM, ESRCH, EACCES, EROFS, ENOSYS
    assert {name: result for name, result in results_of(kernel, taken).items() if result not in refusals} == {}
    assert untouched(outside)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could do it to begin with")
def test_a_guest_kernel_can_do_it_when_nothing_confines(
    kernel: Kernel, taken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(confine.UNCONFINED, "1")
    refused = {name for name, result in results_of(kernel, taken).items() if result < 0}
    # Its argument is no module; and no process outside is in its namespace, confined or not.
    assert refused == {"module", "signal", "trace"}


def test_results_that_are_no_plain_files_are_refused(kernel: Kernel, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("exit 77", encoding="utf-8")
    script = Script()
    script.add("exec", "true")
    with Lab(kernel, script) as lab:
        lab.wait()
        (lab.folder / "status").unlink()
        (lab.folder / "status").symlink_to(secret)
        with pytest.raises(LabError, match="no plain file"):
            lab.exit_code()
        (lab.folder / "status").unlink()
        os.mkfifo(lab.folder / "status")
        with pytest.raises(LabError, match="no plain file"):
            lab.exit_code()


def test_the_folder_of_a_lab_gets_no_links(kernel: Kernel, tmp_path: Path) -> None:
    text = "cd /run/weir; ln -s /etc/passwd a; ln /etc/passwd b; mkfifo c; ln -s /etc/passwd ended; ls"
    assert not {"a", "b", "c", "ended"} & set(run(kernel, text)[1].split())


def test_memory_of_a_lab_is_its_own(kernel: Kernel) -> None:
    script = Script()
    script.add("exec", "true")
    with Lab(kernel, script) as lab:
        lab.wait()
        assert lab._memory.stat().st_mode & 0o777 == 0o700
        kept = lab._memory
    assert not kept.exists()


def test_a_host_that_cannot_confine_starts_no_lab(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weir import lab

    monkeypatch.setenv("WEIR_BIN", str(tmp_path))
    assert "it cannot be confined here" in (lab.unavailable() or "")
    with pytest.raises(LabError, match=r"the lab is not started: .* WEIR_UNCONFINED=1"):
        run(kernel, "true")


def test_an_unconfined_run_says_so(kernel: Kernel, tmp_path: Path) -> None:
    text = f"cat /proc/self/status > /dev/null; mount -o remount,rw /; echo x > {tmp_path}/file"
    done = subprocess.run(
        argv("lab", "exec", "--unconfined", "--", "sh", "-c", text),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file").read_text(encoding="utf-8") == "x\n"


def test_a_cell_that_was_not_confined_warns_and_is_the_same(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confined, told = execute("lab", plan(tmp_path))
    assert not any("confined" in text for text in told.warnings)
    monkeypatch.setenv(confine.UNCONFINED, "1")
    free, told = execute("lab", plan(tmp_path))
    assert "programs of the scenario were not confined: WEIR_UNCONFINED=1 was set" in told.warnings
    assert set(free.batches) == set(confined.batches) >= {"flows", "goodput", "links", "samples"}
    for name in free.batches:
        assert free.table(name).equals(confined.table(name)), name
