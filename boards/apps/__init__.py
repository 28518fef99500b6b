"""Applications, one file each: what runs on the board, and the host's program."""

from seedbed.boards.apps import gemv, link, noise
from seedbed.flow.core import suggestion

__all__ = ["APPS", "find"]

#: Modules with ``Top``, ``REGISTERS`` and ``run``, by name.
APPS = {"noise": noise, "link": link, "gemv": gemv}


def find(name: str):
    """Return the module of an application, or raise ``ValueError`` with the names there are."""
    if name not in APPS:
        raise ValueError(
            f"no application is called {name!r}{suggestion(name, APPS)}; there are "
            f"{', '.join(APPS)}"
        )
    return APPS[name]
