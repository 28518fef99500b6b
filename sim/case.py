"""A bench's stimulus and what must come of it, as plain numbers that any simulator can drive."""

from dataclasses import asdict, dataclass, field
from json import dumps, loads

__all__ = ["Case", "Phase"]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Payloads to send, by input port, and the payloads that must come, by output port.

    A payload is the integer of its bits. The next phase begins when all of this one has come. With
    ``drain``, beats that come before all inputs are accepted are taken and thrown away: a generator
    that runs freely still shows its old sequence then.
    """

    inputs: dict[str, list[int]] = field(default_factory=dict)
    outputs: dict[str, list[int]] = field(default_factory=dict)
    drain: bool = False


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
