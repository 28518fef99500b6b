"""A bench's stimulus and what must come of it, as plain numbers that any simulator can drive."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from json import dumps, loads

__all__ = ["PATIENCE", "Case", "Phase"]

#: Cycles without a transfer after which a bench says that a core hangs.
PATIENCE = 5000


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Payloads to send, by input port, and the payloads that must come, by output port.

    A payload is the integer of its bits. The next phase begins when all of this one has come. With
    ``drain``, beats that come before all inputs are accepted are taken and thrown away: a generator
    that runs freely still shows its old sequence then.

    ``after`` names inputs that answer outputs, as a memory answers commands: ``after[i][o][k]`` is
    how many transfers of output ``o`` the phase must have seen before beat ``k`` of ``i`` is sent.
    """

    inputs: dict[str, list[int]] = field(default_factory=dict)
    outputs: dict[str, list[int]] = field(default_factory=dict)
    drain: bool = False
    after: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def may_send(self, name: str, beat: int, transfers: Mapping[str, int]) -> bool:
        """Return whether a beat of an input may be sent after so many transfers of each output."""
        needed = self.after.get(name, {})
        return all(transfers[output] >= counts[beat] for output, counts in needed.items())


@dataclass(frozen=True, kw_only=True)
class Case:
    """Phases one after the other; with ``quiet``, no output may come after the last.

    ``retains`` says that later phases than the first write what a reset leaves as it is, such as a
    memory: a bench that resets in the middle does so in the first phase.
    """

    phases: list[Phase]
    quiet: bool = False
    retains: bool = False

    def to_json(self) -> str:
        """Return the case as text, for a simulator in another process."""
        return dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Case":
        """Return the case that :meth:`to_json` wrote."""
        raw = loads(text)
        raw["phases"] = [Phase(**phase) for phase in raw["phases"]]
        return cls(**raw)
