"""Applications, one file each: what runs on the board, and the host's program."""

from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from seedbed.boards.platforms import BOARDS
from seedbed.flow.cores.core import suggestion

__all__ = ["APPS", "Design", "boards", "designs", "file_name", "find", "run"]

#: The applications: modules with ``Top``, ``REGISTERS`` and ``run`` in this folder. They are
#: imported when they are used.
APPS = ("noise", "link", "gemv", "instantft", "zo_trainer", "lm")


class Design:
    """An application in one of its configurations, used as a module is.

    Parameters
    ----------
    module
        It has ``VARIANTS``, configurations by name, and its ``Top`` takes one of them. Its
        ``CLOCKS_MHZ`` and ``MEMORY_STYLES`` are by the name of the configuration.
    variant
        The name of the configuration.
    """

    def __init__(self, module: ModuleType, variant: str):
        self.module, self.variant = module, variant
        self.config = module.VARIANTS[variant]
        self.__name__ = module.__name__
        self.REGISTERS, self.run = module.REGISTERS, module.run
        self.Top = partial(module.Top, self.config)
        self.MEMORY = getattr(module, "MEMORY", None)
        if (clock := getattr(module, "CLOCKS_MHZ", {}).get(variant)) is not None:
            self.CLOCK_MHZ = clock
            self.MEMORY = self.MEMORY and replace(self.MEMORY, clock_mhz=clock)
        self.MEMORY_STYLES = getattr(module, "MEMORY_STYLES", {}).get(variant, {})
        self.PLACER = getattr(module, "PLACER", None)


def find(name: str, variant: str | None = None, board: str | None = None) -> Any:
    """Return an application: its module, or a :class:`Design` if it has configurations.

    Parameters
    ----------
    name
        As in :data:`APPS`.
    variant
        The configuration; by default that of the board, or the first one.
    board
        A name in :data:`seedbed.boards.platforms.BOARDS`.

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
