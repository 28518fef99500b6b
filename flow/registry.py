"""The cores: everything that the command line, the tests, the docs and the reports walk over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from amaranth.hdl import Fragment
from amaranth.lib.wiring import In, Out

from seedbed import spec
from seedbed.hw.lfsr import Lfsr
from seedbed.hw.perturbation import Perturbation
from seedbed.hw.prng_pool import PrngPool
from seedbed.hw.scale_lut import ScaleLut
from seedbed.hw.tree_grng import TreeGrng
from seedbed.hw.urng_array import UrngArray
from seedbed.sim.case import Case
from seedbed.sim.cases import lfsr, perturbation, prng_pool, scale_lut, tree_grng, urng_array
from seedbed.sim.harness import stream_ports

__all__ = ["CORES", "Core", "UnknownCore", "Variant", "find"]


class UnknownCore(ValueError):
    """There is no core of that name; the message lists those that are."""


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
        What else is measured of it; see :data:`seedbed.flow.rows.KINDS`.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ("xcup", "ecp5")
    placed: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("simulation",)


@dataclass(frozen=True, kw_only=True)
class Core:
    """One core: its names, its classes, the case that tests it, and what is measured of it."""

    name: str
    title: str
    config: type
    component: type
    case: Callable[..., Case]
    paper: str
    variants: Mapping[str, Variant]

    def streams(self, config: Any) -> tuple[list[str], list[str]]:
        """Return the names of the input and of the output streams."""
        component = self.component(config)
        # Amaranth warns of a component that is never elaborated.
        Fragment.get(component, None)
        ports = dict(stream_ports(component))
        return [n for n, f in ports.items() if f is In], [n for n, f in ports.items() if f is Out]

    def defaults(self) -> str:
        """Return the configuration's parameters with their defaults, as one line."""
        return ", ".join(f"{f.name}={f.default}" for f in fields(self.config) if f.init)

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


#: Every target there is, for one configuration of a core; and the checks that one has.
EVERY = ("xcup", "ecp5", "ice40", "gowin")
CHECKED = ("simulation", "cocotb")

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
            variants={
                "14 bits": Variant(
                    params={"width": 14}, targets=EVERY, placed=("ecp5",), kinds=CHECKED
                ),
                "14 bits, leap 14": Variant(params={"width": 14, "leap": 14}),
            },
        ),
        Core(
            name="urng_array",
            title="Array of LFSR uniform generators with rotation",
            config=spec.UrngConfig,
            component=UrngArray,
            case=urng_array.case,
            paper="PeZO, section 3.1",
            variants={
                "31 x 8": Variant(
                    targets=EVERY,
                    placed=("ecp5", "ecp5-8"),
                    kinds=(*CHECKED, "mutation", "statistics", "activity"),
                ),
                "31 x 14": Variant(
                    params={"width": 14},
                    placed=("ecp5", "ecp5-8"),
                    kinds=("simulation", "statistics", "activity", "speed"),
                ),
                "31 x 8, leap 8": Variant(params={"leap": 8}, kinds=("simulation", "statistics")),
                "31 x 14, leap 14": Variant(
                    params={"width": 14, "leap": 14},
                    placed=("ecp5", "ecp5-8"),
                    kinds=("simulation", "statistics"),
                ),
                "31 x 8, grown": Variant(params={"seeding": "grown"}),
                "31 x 14, grown": Variant(params={"width": 14, "seeding": "grown"}),
                "31 x 8, repair": Variant(params={"repair": True}),
            },
        ),
        Core(
            name="scale_lut",
            title="Power-of-two scaling exponents by the first generator's state",
            config=spec.ScaleConfig,
            component=ScaleLut,
            case=scale_lut.case,
            paper="PeZO, section 3.2",
            variants={
                "31 x 8, value": Variant(
                    params={"rounding": "value"}, kinds=("simulation", "statistics")
                ),
                "31 x 8": Variant(),
                "31 x 14": Variant(
                    params={"width": 14}, targets=EVERY, kinds=(*CHECKED, "statistics")
                ),
                "31 x 14, value": Variant(
                    params={"width": 14, "rounding": "value"}, kinds=("simulation", "statistics")
                ),
            },
        ),
        Core(
            name="prng_pool",
            title="Pool of pre-generated numbers, read as a circle",
            config=spec.PoolConfig,
            component=PrngPool,
            case=prng_pool.case,
            paper="PeZO, section 3.1",
            variants={
                "8 lanes x 12": Variant(targets=EVERY, placed=("ecp5",), kinds=CHECKED),
                "8 lanes x 12, no output register": Variant(params={"register": False}),
                "8 lanes x 12, 4 banks": Variant(params={"banks": 4}),
                "32 lanes x 12": Variant(params={"lanes": 32}),
            },
        ),
        Core(
            name="perturbation",
            title="Stream of perturbations k eps z, named by a seed",
            config=spec.PerturbationConfig,
            component=Perturbation,
            case=perturbation.case,
            paper="PeZO, section 3",
            variants={
                "31 x 8": Variant(params={"width": 8}, placed=("ecp5",)),
                "31 x 14": Variant(targets=EVERY, placed=("ecp5",), kinds=CHECKED),
                "31 x 14, leap 14": Variant(params={"leap": 14}, targets=("xcup",)),
                "pool, 8 lanes x 12": Variant(params={"source": "pool"}, kinds=CHECKED),
            },
        ),
        Core(
            name="tree_grng",
            title="Gaussian generator as a binary tree, the baseline to compare with",
            config=spec.TreeGrngConfig,
            component=TreeGrng,
            case=tree_grng.case,
            paper="TreeGRNG (DATE 2024); PeZO, Table 6",
            variants={
                "published": Variant(
                    targets=EVERY,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "statistics", "activity"),
                ),
                "compact": Variant(
                    params={"tree": "compact"},
                    placed=("ecp5",),
                    kinds=("simulation", "statistics", "activity"),
                ),
                "repaired, compact": Variant(
                    params={"lfsrs": "repaired", "tree": "compact"},
                    placed=("ecp5",),
                    kinds=("simulation", "statistics", "activity"),
                ),
                "compact x 1024": Variant(
                    params={"instances": 1024, "tree": "compact"}, targets=("xcup",), kinds=()
                ),
            },
        ),
    ]
}


def find(name: str) -> Core:
    """Return the core called ``name``, or raise :class:`UnknownCore`."""
    if name not in CORES:
        raise UnknownCore(f"no core is called {name!r}; there are {', '.join(CORES)}")
    return CORES[name]
