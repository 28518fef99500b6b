# amaranth: UnusedElaboratable=no
"""Registry entries: a core's names and classes, and the configurations that are measured."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from amaranth.lib.wiring import In, Out, Signature

from seedbed.sim.case import Case
from seedbed.sim.harness import stream_ports

__all__ = ["Core", "UnknownCore", "Variant", "suggestion"]


class UnknownCore(ValueError):
    """There is no core of that name; the message lists the known cores."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean ...?)" with the closest known name, or "" if none is close."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f" (did you mean {found[0]!r}?)" if found else ""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A configuration that the reports measure.

    Parameters
    ----------
    params
        Parameters that differ from the defaults of the configuration class.
    targets, placed
        The targets for synthesis, and those for place and route.
    kinds
        Further measurements; see :data:`seedbed.flow.report.kinds.KINDS`.
    main
        The measurements of ``make``; ``seedbed report --all`` has the others. ``synthesis`` is
        for the papers' family, and also for the ECP5 if ``place`` is in the list.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ("xcup", "ecp5")
    placed: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("simulation",)
    main: tuple[str, ...] = ()

    def is_main(self, kind: str, target: str | None) -> bool:
        """Return whether ``make`` runs a kind of measurement on a target."""
        targets = (None, "xcup", "ecp5") if "place" in self.main else (None, "xcup")
        return kind in self.main and target in targets


@dataclass(frozen=True, kw_only=True)
class Core:
    """One core: its names and classes, its test case, and the configurations that are measured.

    ``family`` is one of :data:`~seedbed.flow.cores.registry.FAMILIES`. ``variants``, and ``small``,
    a configuration for tests of all cores where the defaults take too long, are in the table of the
    family. A core with AXI ports wraps the core ``inside`` and shares its model and test case;
    ``bench`` is the module of a cocotb testbench that drives its ports with AXI models.
    """

    name: str
    title: str
    config: type
    component: type
    case: Callable[..., Case]
    paper: str
    family: str = ""
    variants: Mapping[str, Variant] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    inside: str = ""
    bench: str = ""

    def signature(self, config: Any) -> Signature:
        """Return the core's signature without elaborating it."""
        # Only its ports: it builds its parts when it is elaborated, which Amaranth would miss.
        return self.component(config).signature

    def streams(self, config: Any) -> tuple[list[str], list[str]]:
        """Return the names of the input and of the output streams."""
        ports = dict(stream_ports(self.signature(config)))
        return [n for n, f in ports.items() if f is In], [n for n, f in ports.items() if f is Out]

    def require(self, names: Iterable[str]) -> None:
        """Raise ``ValueError`` for a name that is not a parameter of the configuration."""
        known = [f.name for f in fields(self.config) if f.init]
        for name in names:
            if name not in known:
                raise ValueError(
                    f"{self.name} has no parameter {name!r}{suggestion(name, known)}; "
                    f"it has {', '.join(known)}"
                )

    def configure(self, params: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """Return the configuration with ``params`` set.

        Raises ``ValueError`` for an unknown name, and the errors of the configuration.
        """
        self.require(params)
        return self.config(**params)
