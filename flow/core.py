# amaranth: UnusedElaboratable=no
"""What the registry says of a core: its names, its classes, and what is measured of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from amaranth.lib.wiring import In, Out, Signature

from seedbed.sim.case import Case
from seedbed.sim.harness import stream_ports

__all__ = ["Core", "UnknownCore", "Variant", "meant"]


class UnknownCore(ValueError):
    """There is no core of that name; the message lists those that are."""


def meant(word: str, known: Iterable[str]) -> str:
    """Return a question after the word that is most alike, or nothing where none is alike."""
    found = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f" (did you mean {found[0]!r}?)" if found else ""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A configuration that the reports measure.

    Parameters
    ----------
    params
        What differs from the configuration class's own defaults.
    targets, placed
        The targets that it is synthesized for, and those that it is placed and routed on.
    kinds
        What else is measured of it; see :data:`seedbed.flow.report.kinds.KINDS`.
    main
        What ``make`` measures of it, a report of everything has the rest: of ``synthesis`` and
        ``place``, what the papers' family takes, and the ECP5 where it is placed.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ("xcup", "ecp5")
    placed: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("simulation",)
    main: tuple[str, ...] = ()

    def makes(self, kind: str, target: str | None) -> bool:
        """Tell whether ``make`` measures a kind of it, on a target."""
        shown = (None, "xcup", "ecp5") if "place" in self.main else (None, "xcup")
        return kind in self.main and target in shown


@dataclass(frozen=True, kw_only=True)
class Core:
    """One core: its names, its classes, the case that tests it, and what is measured of it.

    ``small`` is a configuration that tests of every core take, where the defaults take too long.
    A core with AXI ports has the name of the core ``inside``, with its model and case, and the
    module of a cocotb ``bench`` that drives its ports with AXI models.
    """

    name: str
    title: str
    config: type
    component: type
    case: Callable[..., Case]
    paper: str
    variants: Mapping[str, Variant]
    small: Mapping[str, Any] = field(default_factory=dict)
    inside: str = ""
    bench: str = ""

    def signature(self, config: Any) -> Signature:
        """Return what ports the core has, without elaborating it."""
        # Only its ports: it builds its parts when it is elaborated, which Amaranth would miss.
        return self.component(config).signature

    def streams(self, config: Any) -> tuple[list[str], list[str]]:
        """Return the names of the input and of the output streams."""
        ports = dict(stream_ports(self.signature(config)))
        return [n for n, f in ports.items() if f is In], [n for n, f in ports.items() if f is Out]

    def require(self, names: Iterable[str]) -> None:
        """Raise ``ValueError`` for a name that is none of the configuration's parameters."""
        known = [f.name for f in fields(self.config) if f.init]
        for name in names:
            if name not in known:
                raise ValueError(
                    f"{self.name} has no parameter {name!r}{meant(name, known)}; "
                    f"it has {', '.join(known)}"
                )

    def configure(self, params: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """Return the configuration with ``params`` set.

        Raises ``ValueError`` for a name that the configuration does not have, and whatever the
        configuration itself refuses.
        """
        self.require(params)
        return self.config(**params)
