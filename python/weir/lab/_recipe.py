"""What is changed in the kernel's sources before they are built, and how the kernel is configured.

Each change replaces one exact piece of text that must be there exactly once: sources that differ are refused, because
some of these changes would otherwise fail silently, by spoiling memory or a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weir.lab._edit import Edit
from weir.lab._errors import LabError
from weir.lab._files import digest, sources
from weir.lab._memory import MEMORY
from weir.lab._speed import SPEED

__all__ = ["HZ", "Edit", "apply", "config", "edits", "recipe", "refused"]

HZ = 1000
"""Jiffies a second: as in the simulator, and in most distributions' kernels of today."""

_STATE_ROOM = 2696
"""Bytes that the sources provide for the floating-point state."""
_STACK_PAGE_BYTES = 4096
_STACK_ORDER = 2
"""Pages of a kernel stack, as a power of two, that the sources' own state needs."""


def edits(xstate_bytes: int) -> list[Edit]:
    """The changes for a machine whose floating-point state has ``xstate_bytes``."""
    found = [_JIFFIES, _CLOCK_STEP, _TIMER_STEP, _READ_COST, _RANDOM, _POOL, _CONSOLE, _ALARM, *SPEED, *MEMORY]
    if xstate_bytes > _STATE_ROOM:
        found.append(
            Edit(
                "arch/x86/um/user-offsets.c",
                f"\tDEFINE_LONGS(HOST_FP_SIZE, {_STATE_ROOM});\n",
                f"\tDEFINE_LONGS(HOST_FP_SIZE, {_room(xstate_bytes)});\n",
                "the state of this machine's processors does not fit",
            )
        )
    return found


def config(xstate_bytes: int) -> str:
    """The configuration: the options that are on, on top of ``allnoconfig``.

    The state lies on the kernel's stack, which has to grow with it. (With the 11,008 bytes of AMX: order 3.)
    """
    text = (sources() / "kernel.config").read_text(encoding="utf-8")
    order = _STACK_ORDER
    while (_STACK_PAGE_BYTES << order) < _room(xstate_bytes) - _STATE_ROOM + (_STACK_PAGE_BYTES << _STACK_ORDER):
        order += 1
    return text if order == _STACK_ORDER else f"{text}\nCONFIG_KERNEL_STACK_ORDER={order}\n"


def recipe(xstate_bytes: int) -> str:
    """A name for the configuration and the changes together."""
    parts = [config(xstate_bytes)]
    for edit in edits(xstate_bytes):
        parts += [edit.file, edit.old, edit.new]
    return digest(parts)


def apply(edit: Edit, tree: Path) -> None:
    """Makes ``edit`` in the sources below ``tree``.

    Raises:
        LabError: the file is not there, or does not contain the text exactly once.
    """
    path = tree / edit.file
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"these kernel sources have no {edit.file}: {_OTHER}") from error
    if text.count(edit.old) != 1:
        raise LabError(
            f"{edit.file} of these kernel sources is another than expected, so that this change cannot be made safely: "
            f"{edit.why}; {_OTHER}"
        )
    path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")


def refused(options: str, written: str) -> Sequence[str]:
    """The lines of ``options`` that did not take effect in the configuration ``written``."""
    have = set(written.splitlines())
    return [line for line in options.splitlines() if line.startswith("CONFIG_") and line not in have]


def _room(xstate_bytes: int) -> int:
    """What the state gets: as in the sources if it fits, else a multiple of 64 bytes."""
    return _STATE_ROOM if xstate_bytes <= _STATE_ROOM else -(-xstate_bytes // 64) * 64


_OTHER = "Debian's linux-source-6.12 is known to work (WEIR_KERNEL_SOURCE names a tarball or an unpacked tree)"

_JIFFIES = Edit(
    "arch/um/Kconfig",
    "config HZ\n\tint\n\tdefault 100\n",
    f"config HZ\n\tint\n\tdefault {HZ}\n",
    "TCP's timers would be ten times coarser than on a usual host",
)

_CLOCK_STEP = Edit(
    "arch/um/include/linux/time-internal.h",
    "#define TIMER_MULTIPLIER 256\n",
    "#define TIMER_MULTIPLIER 1\n",
    "the clock would go in steps of 256 ns, and each timer fire twice to meet its instant",
)

_TIMER_STEP = Edit(
    "arch/um/include/linux/time-internal.h",
    "#define TIMER_MIN_DELTA  500\n",
    "#define TIMER_MIN_DELTA  1\n",
    "packets of a fast link are closer together than 500 ns",
)

_READ_COST = Edit(
    "arch/um/kernel/time.c",
    "\t\t\ttime_travel_update_time_rel(TIMER_MULTIPLIER);\n",
    "\t\t\ttime_travel_update_time_rel(256);\n",
    "a program that polls the clock would hardly get on; what a reading costs stays as it was, 256 ns",
)

_RANDOM = Edit(
    "arch/um/os-Linux/util.c",
    "\treturn getrandom(buf, len, flags);\n",
    """\
	/* The numbers of a seed, by SplitMix64, so that one seed gives one run; the host's without a seed. */
	static unsigned long long state;
	const char *seed = getenv("WEIR_LAB_SEED");
	unsigned char *out = buf;
	size_t i;

	if (!seed)
		return getrandom(buf, len, flags);
	if (!state)
		state = strtoull(seed, NULL, 10);
	for (i = 0; i < len; i++) {
		unsigned long long z = state += 0x9e3779b97f4a7c15ULL;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		out[i] = (z ^ (z >> 31)) >> 56;
	}
	return len;
""",
    "two labs with the same seed would differ",
)

_POOL = Edit(
    "drivers/char/random.c",
    "\t_mix_pool_bytes(init_utsname(), sizeof(*(init_utsname())));\n"
    "\t_mix_pool_bytes(command_line, strlen(command_line));\n",
    "",
    "one seed would give another run with a kernel that was built at another time, or is kept in another folder",
)

_CONSOLE = Edit(
    "arch/um/drivers/stderr_console.c",
    "\tunregister_console(&stderr_console);\n",
    "",
    "nobody would see what a kernel says that dies after its start",
)

_ALARM = Edit(
    "arch/um/kernel/time.c",
    "\tif (get_current()->mm != NULL)\n",
    "\tif (time_travel_mode == TT_MODE_OFF && get_current()->mm != NULL)\n",
    "each timer would send the program that runs a signal of the host, which nothing needs in virtual time",
)
