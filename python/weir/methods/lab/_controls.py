"""The kernel modules of a plan's congestion controls: ``cubic`` is weir's, ``linux:cubic`` the lab kernel's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weir import cc as users
from weir.hosts.congestion import FOREIGN, Wanted, wanted
from weir.lab import BUILT_IN, Control, FaultError, HungError, Kernel, LabError, LoopError, registered
from weir.methods import MethodError
from weir.plan import MptcpTransport, Plan, kind_of

__all__ = ["Controls", "controls", "obstacle"]

_DRAWS = ("weir_random_", "weir_stamps(")
"""What the source of a congestion control calls for a random number, or for timestamps, whose offset is random."""

_MODULES = {"sctp": "sctp", "dccp": "dccp_ipv4"}
"""The modules of the lab's kernel that transports are."""
_NAME = 15
"""Longest name of a congestion control in Linux."""


@dataclass(frozen=True)
class Controls:
    """What the guest loads, and what the agents then ask for."""

    modules: tuple[tuple[Path, str], ...]
    """Module and parameters."""
    names: Mapping[str, str]
    """The kernel's name of each congestion control of the plan, by label."""
    origins: Mapping[str, str]
    """What the plan calls the congestion control of each module, by the module's name."""

    def explain(self, error: LabError) -> str:
        """``error`` of a lab with these modules, with the congestion control at fault, if one is."""
        if isinstance(error, LoopError):
            what, place = "computes without end", error.place
        elif isinstance(error, FaultError) and error.fault.place is not None:
            what, place = error.fault.what, error.fault.place
        elif isinstance(error, FaultError):
            return f"{self._suspects(error.fault.what)}{error}"
        elif isinstance(error, HungError):
            return f"{self._suspects('computes without end')}{error}"
        else:
            return str(error)
        origin = self.origins.get(place.module)
        if origin is None:
            return str(error)
        function = f"its function {place.function}" if place.function else "it"
        return f"cc: {origin}: {function} {what}, so that the lab was ended"

    def _suspects(self, what: str) -> str:
        """The congestion controls of users, one of which is to blame for a fault without a place."""
        own = sorted({origin for origin in self.origins.values() if origin not in registered()})
        return f"cc: {' or '.join(own)}: probably it {what}: " if own else ""


def controls(plan: Plan, kernel: Kernel) -> Controls:
    """The congestion controls of ``plan``; modules that the cache lacks are built.

    Raises:
        MethodError: the plan names one that there is not.
        weir.lab.LabError: one does not compile.
    """
    names: dict[str, str] = {}
    ours: dict[Wanted, Control] = {}
    used: dict[str, int] = {}
    chosen = wanted(plan)
    named = {cc.name for cc in chosen}
    for cc in chosen:
        if cc.name.startswith(FOREIGN):
            names[cc.label] = native = _native(cc)
            if native not in named and (beside := _beside(native)) is not None:
                ours[cc] = beside
            continue
        source = _source(cc.name)
        # The same source with other options is another module, and so is another source of the same identifier.
        name = Control.of(source).name
        number = used[name] = used.get(name, -1) + 1
        ours[cc] = _fitting(cc.name, Control.of(source, "weir_" if number == 0 else f"w{number}_"))
        names[cc.label] = ours[cc].kernel_name
    modules = kernel.modules(ours.values())
    protocols = {kind_of(flow.transport) for flow in plan.flows} & _MODULES.keys()
    loads = (
        *((module, "") for name in sorted(protocols) for module in kernel.protocol(_MODULES[name])),
        *((modules[control], _parameters(cc)) for cc, control in ours.items()),
    )
    return Controls(loads, names, {control.kernel_name: cc.name for cc, control in ours.items()})


def _beside(native: str) -> Control | None:
    """weir's control with the name of a kernel's own that depends on random numbers: it is loaded, and no flow uses it.

    Loading a module takes random numbers of the kernel. If both are loaded in either case, the kernel's control and
    weir's draw the same numbers, so that a comparison of the two shows what they do with them.
    """
    source = registered().get(native)
    if source is None:
        return None
    text = source.read_text(encoding="utf-8")
    if not any(call in text for call in _DRAWS):
        return None
    return Control.of(source)


def obstacle(plan: Plan) -> str | None:
    """Why there is none of the congestion controls of ``plan``; nothing is built."""
    if (why := users.no_kernel(plan)) is not None:
        return why
    try:
        for cc in wanted(plan):
            if cc.name.startswith(FOREIGN):
                _native(cc)
            else:
                _fitting(cc.name, Control.of(_source(cc.name)))
        for flow in plan.flows:
            if isinstance(flow.transport, MptcpTransport):
                _native(Wanted(flow.transport.cc, ()))
    except (MethodError, LabError) as error:
        return str(error)
    return None


def _fitting(name: str, control: Control) -> Control:
    """``control`` of the congestion control ``name``, if Linux takes its name."""
    if len(control.kernel_name) > _NAME:
        raise MethodError(f"cc: {name}: {control.kernel_name!r} is longer than a name in Linux, {_NAME} characters")
    return control


def _native(cc: Wanted) -> str:
    name = cc.name.removeprefix(FOREIGN)
    if name not in BUILT_IN:
        raise MethodError(f"cc: {cc.name}: the lab kernel has no {name!r}; it has {', '.join(BUILT_IN)}")
    if cc.options:
        raise MethodError(f"cc: {cc.name}: options are for weir's own congestion controls")
    return name


def _source(name: str) -> Path:
    known = registered()
    if name in known:
        return known[name]
    if users.is_file_name(name):
        try:
            return users.source_of(Path(name)).absolute()
        except users.ControlError as error:
            raise MethodError(f"cc: {error}") from None
    raise MethodError(f"cc: {name}: there is no congestion control of that name; there are {', '.join(known)}")


def _parameters(cc: Wanted) -> str:
    return " ".join(f"{option}={value}" for option, value in cc.options)
