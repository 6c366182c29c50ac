"""Changes in the kernel's sources that make the lab faster and leave what it computes as it was."""

# ruff: noqa: E101 - the kernel's indentation, tabs and then spaces

from __future__ import annotations

from weir.lab._edit import Edit

__all__ = ["SPEED"]

_MODULES_FAR = Edit(
    "arch/um/Makefile",
    "\tKBUILD_CFLAGS += -mcmodel=large\n",
    "\tKBUILD_CFLAGS_MODULE += -mcmodel=large\n",
    "only modules lie out of the reach of a direct call; the kernel itself is below 2 GB and calls itself directly",
)

_BUILT_IN = Edit(
    "arch/x86/Makefile.um",
    "KBUILD_CFLAGS += -fno-builtin -m64 \n",
    "KBUILD_CFLAGS += -m64\n",
    "copying and clearing a few bytes would be a call, which it is in no other kernel",
)

_INTERRUPTS_OFF = Edit(
    "arch/um/include/asm/irqflags.h",
    "\tblock_signals();\n",
    '\tsignals_enabled = 0;\n\tasm volatile("" : : : "memory");\n',
    "disabling interrupts is setting a variable, for which no call is needed",
)

_INTERRUPTS_ON = Edit(
    "arch/um/include/asm/irqflags.h",
    "\tunblock_signals();\n",
    "\tif (!signals_enabled)\n\t\tunblock_signals();\n",
    "enabling what is enabled needs no call",
)

_INTERRUPTS_AS_BEFORE = Edit(
    "arch/um/include/asm/irqflags.h",
    "\tum_set_signals(flags);\n",
    "\tif (signals_enabled != (int)flags)\n\t\tum_set_signals(flags);\n",
    "restoring what has not changed needs no call",
)

_ALARM_STATE = Edit(
    "arch/um/os-Linux/signal.c",
    """\
	struct uml_pt_regs regs;

	if (mc != NULL)
		get_regs_from_mc(&regs, mc);
	else
		memset(&regs, 0, sizeof(regs));
	timer_handler(SIGALRM, NULL, &regs);
""",
    """\
	static struct uml_pt_regs none;
	struct uml_pt_regs regs;

	if (!mc) {
		timer_handler(SIGALRM, NULL, &none);
		return;
	}
	get_regs_from_mc(&regs, mc);
	timer_handler(SIGALRM, NULL, &regs);
""",
    "each timer would clear the room of a processor's whole state, 3 to 12 kB",
)

_TIMER_DECLARED = Edit(
    "arch/um/kernel/time.c",
    "void timer_handler(int sig, struct siginfo *unused_si, struct uml_pt_regs *regs)\n",
    """\
static struct clock_event_device timer_clockevent;

/*
 * Whether the next thing to happen is a timer again, with nobody to run
 * before: then its instant is now.
 */
static bool time_travel_next_timer(void)
{
	struct time_travel_event *e = time_travel_first_event();

	if (e != &time_travel_timer_event || e->fn != time_travel_oneshot_timer ||
	    !is_idle_task(current) || need_resched() || in_interrupt())
		return false;
	time_travel_del_event(e);
	time_travel_set_time(e->time);
	return true;
}

void timer_handler(int sig, struct siginfo *unused_si, struct uml_pt_regs *regs)
""",
    "from one timer to the next, an idle kernel would each time go through its idle loop, which is half of the way",
)

_TIMER_INCLUDE = Edit(
    "arch/um/kernel/time.c",
    "#include <asm/irq.h>\n",
    "#include <asm/irq.h>\n#include <asm/irq_regs.h>\n",
    "it is used there",
)

_TIMER_DIRECT = Edit(
    "arch/um/kernel/time.c",
    "\tdo_IRQ(TIMER_IRQ, regs);\n",
    """\
	if (time_travel_mode == TT_MODE_INFCPU) {
		struct pt_regs *before = set_irq_regs((struct pt_regs *)regs);
		int rounds = 64; /* then signals of the host get their turn */

		do {
			irq_enter();
			timer_clockevent.event_handler(&timer_clockevent);
			irq_exit();
		} while (--rounds && time_travel_next_timer());
		set_irq_regs(before);
	} else {
		do_IRQ(TIMER_IRQ, regs);
	}
""",
    "a timer of virtual time comes from no controller of interrupts that would have to be asked",
)

_STATE_KNOWN = Edit(
    "arch/um/os-Linux/skas/process.c",
    "int userspace_pid[NR_CPUS];\n",
    """\
int userspace_pid[NR_CPUS];

/*
 * What a process that stopped for a system call has in its floating-point
 * registers: they are written only if the task has others by then.
 */
static int fp_known;
static unsigned long fp_last[FP_SIZE];
""",
    "writing the registers of a process costs the host more than all else of a system call",
)

_STATE_UNKNOWN = Edit(
    "arch/um/os-Linux/skas/process.c",
    "\t/* setup a temporary stack page */\n",
    "\tfp_known = 0;\n\n\t/* setup a temporary stack page */\n",
    "a new process may have the number of an old one",
)

_STATE_KEPT = Edit(
    "arch/um/os-Linux/skas/process.c",
    "\t\tif (put_fp_registers(pid, regs->fp)) {\n",
    """\
		if (!(fp_known == pid && !memcmp(fp_last, regs->fp, sizeof(fp_last))) &&
		    put_fp_registers(pid, regs->fp)) {
""",
    "the process has them",
)

_STATE_SEEN = Edit(
    "arch/um/os-Linux/skas/process.c",
    "\t\tUPT_SYSCALL_NR(regs) = -1; /* Assume: It's not a syscall */\n",
    """\
		fp_known = WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP + 0x80 ? pid : 0;
		memcpy(fp_last, regs->fp, sizeof(fp_last));
		UPT_SYSCALL_NR(regs) = -1; /* Assume: It's not a syscall */
""",
    "after anything but a system call, the kernel has the process do things of its own",
)

SPEED = (
    *(_MODULES_FAR, _BUILT_IN),
    *(_INTERRUPTS_OFF, _INTERRUPTS_ON, _INTERRUPTS_AS_BEFORE),
    *(_ALARM_STATE, _TIMER_DECLARED, _TIMER_INCLUDE, _TIMER_DIRECT),
    *(_STATE_KNOWN, _STATE_UNKNOWN, _STATE_KEPT, _STATE_SEEN),
)
"""All of them."""
