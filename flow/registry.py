"""The cores: everything that the command line, the tests, the docs and the reports walk over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from seedbed import spec
from seedbed.hw.lfsr import Lfsr
from seedbed.hw.urng_array import UrngArray
from seedbed.sim.case import Case
from seedbed.sim.cases import lfsr, urng_array

__all__ = ["CORES", "Core", "UnknownCore", "find"]


class UnknownCore(ValueError):
    """There is no core of that name; the message lists those that are."""


@dataclass(frozen=True, kw_only=True)
class Core:
    """One core, and what drives it.

    ``variants`` are the configurations that the reports measure, by name; ``default`` is the
    configuration class's own defaults. ``numbers`` gives the random numbers a beat, where the core
    makes any.
    """

    name: str
    title: str
    config: type
    component: type
    case: Callable[..., Case]
    paper: str
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def configure(self, params: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """Return the configuration with ``params`` set.

        Raises ``ValueError`` for a name that the configuration does not have, and whatever the
        configuration itself refuses.
        """
        names = [f.name for f in fields(self.config) if f.init]
        for name in params:
            if name not in names:
                raise ValueError(
                    f"{self.name} has no parameter {name!r}; it has {', '.join(names)}"
                )
        return self.config(**params)


CORES: dict[str, Core] = {
    core.name: core
    for core in [
        Core(
            name="lfsr",
            title="Linear-feedback shift register with leap-forward",
            config=spec.LfsrConfig,
            component=Lfsr,
            case=lfsr.case,
            paper="SeedLM, section 3.1",
            variants={"leap 1": {"width": 14}, "leap 14": {"width": 14, "leap": 14}},
        ),
        Core(
            name="urng_array",
            title="Array of LFSR uniform generators with rotation",
            config=spec.UrngConfig,
            component=UrngArray,
            case=urng_array.case,
            paper="PeZO, section 3.1",
            variants={
                "31 x 8": {},
                "31 x 14": {"width": 14},
                "31 x 8, leap 8": {"leap": 8},
                "31 x 14, leap 14": {"width": 14, "leap": 14},
            },
        ),
    ]
}


def find(name: str) -> Core:
    """Return the core called ``name``, or raise :class:`UnknownCore`."""
    if name not in CORES:
        raise UnknownCore(f"no core is called {name!r}; there are {', '.join(CORES)}")
    return CORES[name]
