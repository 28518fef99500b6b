"""Applications, one file each: what runs on the board, and the host's program."""

from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from seedbed.boards.memory import PAD_CYCLES, has_own_clock
from seedbed.boards.platforms import BOARDS
from seedbed.flow.cores import registry, settings
from seedbed.flow.cores.core import suggestion

__all__ = ["APPS", "CONFIGURED", "Design", "boards", "designs", "file_name", "find", "own", "run"]

#: The applications: modules with ``Top``, ``REGISTERS`` and ``run`` in this folder. They are
#: imported when they are used.
APPS = ("noise", "link", "gemv", "instantft", "zo_trainer", "lm", "sentence")
#: Those that have the core of their name in any configuration.
CONFIGURED = ("instantft", "zo_trainer")


class Design:
    """An application in one of its configurations, used as a module is.

    Parameters
    ----------
    module
        It has ``VARIANTS``, configurations by name, and its ``Top`` takes one of them. Its
        ``CLOCKS_MHZ``, ``MEMORY_CLOCKS_MHZ`` and ``MEMORY_STYLES`` are by the name of the
        configuration.
    variant
        The name of the configuration.
    config
        A configuration of a user in its place.

    Raises ``ValueError`` for a configuration whose beats are not those of the memory.
    """

    def __init__(self, module: ModuleType, variant: str, config: Any = None):
        self.module, self.variant = module, variant
        self.config = module.VARIANTS[variant] if config is None else config
        self.__name__ = module.__name__
        self.REGISTERS, self.run = module.REGISTERS, module.run
        self.Top = partial(module.Top, self.config)
        self.MEMORY = getattr(module, "MEMORY", None)
        if (clock := getattr(module, "CLOCKS_MHZ", {}).get(variant)) is not None:
            self.CLOCK_MHZ = clock
            if self.MEMORY and not has_own_clock(module):
                self.MEMORY = replace(self.MEMORY, clock_mhz=clock)
        if self.MEMORY and (mhz := getattr(module, "MEMORY_CLOCKS_MHZ", {}).get(variant)):
            self.MEMORY = replace(self.MEMORY, clock_mhz=mhz, pad_cycles=PAD_CYCLES[True])
        self.MEMORY_STYLES = getattr(module, "MEMORY_STYLES", {}).get(variant, {})
        self.PLACER = getattr(module, "PLACER", None)
        beat, wanted = (
            getattr(self.config, "beat_bits", None),
            self.MEMORY and self.MEMORY.beat_bits,
        )
        if beat not in (None, wanted):
            raise ValueError(f"beat_bits must be {wanted} on a board, not {beat}")


def find(
    name: str, variant: str | None = None, board: str | None = None, config: Path | None = None
) -> Any:
    """Return an application: its module, or a :class:`Design` if it has configurations.

    Parameters
    ----------
    name
        As in :data:`APPS`.
    variant
        The configuration; by default that of the board, or the first one.
    board
        A name in :data:`seedbed.boards.platforms.BOARDS`.
    config
        A file of parameters of the core that has the application's name, in place of a
        configuration.

    Raises ``ValueError`` with the names there are.
    """
    if name not in APPS:
        raise ValueError(
            f"no application is called {name!r}{suggestion(name, APPS)}; there are "
            f"{', '.join(APPS)}"
        )
    module = import_module(f"{__name__}.{name}")
    if board and variant is None and board not in (fits := boards(name)):
        raise ValueError(f"{name} does not fit {board}: it is for {', '.join(fits)}")
    variants = getattr(module, "VARIANTS", None)
    if config is not None:
        return _own(name, module, variant, config)
    if variants is None:
        if variant is not None:
            raise ValueError(f"{name} has no configurations to choose from")
        return module
    if variant is None:
        variant = module.BOARDS[board] if board else next(iter(variants))
    if variant not in variants:
        raise ValueError(
            f"no configuration of {name} is called {variant!r}{suggestion(variant, variants)}; "
            f"there are {', '.join(variants)}"
        )
    return Design(module, variant)


def _own(name: str, module: ModuleType, variant: str | None, file: Path) -> Design:
    """Return an application of a core in the configuration of a file."""
    if name not in CONFIGURED:
        raise ValueError(f"{name} takes no --config; {' and '.join(CONFIGURED)} take one")
    if variant is not None:
        raise ValueError("--config and --variant do not go together")
    core = registry.find(name)
    params = settings.read(core, (), file)
    try:
        return own(name, core.configure(params))
    except (ValueError, TypeError) as problem:
        raise ValueError(f"{file}: {problem}") from problem


def own(name: str, config: Any) -> Design:
    """Return an application of a core in the configuration of a user."""
    digest = sha256(repr(config).encode()).hexdigest()[:8]
    return Design(import_module(f"{__name__}.{name}"), digest, config)


def boards(name: str) -> list[str]:
    """Return which of the boards an application is for."""
    found = find(name)
    module = found.module if isinstance(found, Design) else found
    fits = getattr(module, "BOARDS", BOARDS)
    return [
        board
        for board, each in BOARDS.items()
        if board in fits and (each.memory_bits or not getattr(module, "MEMORY", None))
    ]


def file_name(name: str, app: Any) -> str:
    """Return how the files of an application in a configuration are called."""
    return f"{name}-{app.variant}" if isinstance(app, Design) else name


def designs(name: str) -> list[Any]:
    """Return an application in each of its configurations."""
    module = find(name)
    if not isinstance(module, Design):
        return [module]
    return [Design(module.module, variant) for variant in module.module.VARIANTS]


def run(app: Any, device: Any, console: Any, **options: Any) -> None:
    """Run the host's program of an application, with its configuration if it has several."""
    config = [app.config] if isinstance(app, Design) else []
    app.run(device, console, *config, **options)
