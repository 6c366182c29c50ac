"""What the links of a plan are in the lab, and whether the lab can execute the plan over them."""

from __future__ import annotations

from pathlib import Path

from weir.hosts.netem import wire_netem
from weir.hosts.programs import require_settings
from weir.hosts.wiring import wire
from weir.lab import Kernel
from weir.methods import MethodError
from weir.methods._intervals import Finest, too_fine
from weir.methods.lab import _wire
from weir.methods.lab._script import Network
from weir.plan import Plan

__all__ = ["choose", "finest", "require_fit"]

_CLOCK = "a look reads the guest's clock some times, which takes 256 ns of its time each"
_LOOK_NS = 10_000
_KERNEL = Finest(_LOOK_NS, _LOOK_NS, 1000, _CLOCK)
_PROGRAM = Finest(_LOOK_NS, _LOOK_NS, _LOOK_NS, _CLOCK)
"""Where a program of the guest counts what links do."""


def choose(plan: Plan, kernel: Kernel | None) -> tuple[Network, str]:
    """What the links of ``plan`` are, and why; without ``kernel``, as they would be.

    Raises:
        MethodError: its options ask for what there is not.
    """
    links, offload = plan.methods.lab.links, plan.methods.lab.offload
    if links == "netem":
        if offload != "packets":
            raise MethodError(f"methods.lab.offload is {offload}, and links: netem has each packet alone (packets)")
        return Network(netem=wire_netem(plan, "lab", 0), offload=offload), "methods.lab.links asks for it"
    lacks = None if links == "emulator" else _wire.obstacle(plan)
    if links == "auto" and lacks is None and plan.measure.acks is None and offload != "device":
        lacks = _wire.uncounted(plan)  # what was asked for and only the kernel's links have comes first
    if links != "emulator" and lacks is None:
        module = Path() if kernel is None else kernel.wire
        return Network(module, offload=offload), "the kernel's links can do all of the plan"
    if links == "kernel":
        raise MethodError(f"methods.lab.links is kernel, but the kernel's links lack this: {lacks}")
    why = "methods.lab.links asks for it" if lacks is None else f"the kernel's links lack this: {lacks}"
    if offload == "device":
        raise MethodError(
            "methods.lab.offload is device, which only the kernel's links have, and the links are the program "
            f"weir-emu: {why}. It has packets and trains"
        )
    return Network(offload=offload), why


def finest(network: Network) -> Finest:
    """The shortest intervals of ``measure`` that are served over these links."""
    return _KERNEL if network.module is not None else _PROGRAM


def require_fit(plan: Plan, network: Network) -> None:
    """Does nothing if the lab can give every flow and link of ``plan`` what it asks for.

    Raises:
        MethodError: it cannot; the message names what, and the way out.
    """
    if network.netem is None:  # those of netem were wired when they were chosen
        wire(plan, "lab")
    require_settings(plan)
    if plan.measure.acks is not None and network.module is None:
        raise MethodError(
            f"measure.acks: the lab records acknowledgements with the kernel's links only, and its links are "
            f"{network.links} here: {choose(plan, None)[1]}"
        )
    why = too_fine(plan, finest(network))
    if why is not None:
        raise MethodError(why)
