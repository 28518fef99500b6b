"""Register maps of cores and applications, by the names of the command ``seedbed registers``."""

from collections.abc import Sequence
from pathlib import Path

from seedbed.flow.cores import registry, settings
from seedbed.flow.cores.core import suggestion
from seedbed.flow.emit.rdl import core_rdl
from seedbed.spec.axi_registers import AXI_REGISTERS

__all__ = ["texts"]

#: What the name of an application's map begins with.
_BOARD = "board_"


def texts(name: str, words: Sequence[str] = (), file: Path | None = None) -> dict[str, str]:
    """Return maps as SystemRDL by name: one, or all of them for the name "".

    ``words`` and ``file`` are parameters of the core, as :func:`seedbed.flow.cores.settings.read`
    takes them. Raises ``ValueError`` for an unknown name, and for parameters without a core.
    """
    cores = [f"{core}_axi" for core in AXI_REGISTERS]
    if name in registry.WRAPPERS:
        core = registry.WRAPPERS[name]
        return {name: core_rdl(core, settings.read(core, words, file))}
    # They need the packages of the boards.
    from seedbed.boards import apps
    from seedbed.boards.registers import board_rdl

    applications = [f"{_BOARD}{app}" for app in apps.APPS]
    known = [*cores, *applications]
    if name and name not in known:
        raise ValueError(
            f"no registers are called {name!r}{suggestion(name, known)}; there are "
            f"{', '.join(known)}"
        )
    if words or file:
        raise ValueError("--set and --config need a core with AXI ports, such as gemv_axi")
    found = {}
    for each in [name] if name else known:
        if each in cores:
            found[each] = core_rdl(registry.WRAPPERS[each], {})
        else:
            app = each.removeprefix(_BOARD)
            found[each] = board_rdl(app, apps.find(app).REGISTERS)
    return found
