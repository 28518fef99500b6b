"""Phases of the matrix-vector product with a side path: products, updates, and every error."""

from dataclasses import dataclass, field

import numpy as np

from seedbed.hw.products import gemv_layouts as hw
from seedbed.sim.case import Phase
from seedbed.sim.cases.sparse_mac import Bench, Matrix
from seedbed.spec import GemvConfig
from seedbed.spec.gemv import GEMV_STATUS
from seedbed.spec.sparse_mac import MOST_SCALE

__all__ = ["SideBench", "results"]


def results(config: GemvConfig, sums, status: str = "") -> list[int]:
    """Return the payloads of port ``o``: the sums, and the status of a job that ended."""
    layout = hw.result_layout(config)
    sums = np.asarray(sums, np.int64).tolist()
    fields: list[dict] = [{"sum": s, "status": 0, "last": 0} for s in sums]
    if status == "ok" and fields:
        fields[-1]["last"] = 1
    elif status:
        none = [0] * config.vectors if config.vectors > 1 else 0
        fields.append({"sum": none, "status": GEMV_STATUS.index(status), "last": 1})
    return [layout.const(result).as_bits() for result in fields]


@dataclass(kw_only=True)
class SideBench:
    """Adds a sparse matrix to the phases of a dense product, and makes those without a product."""

    config: GemvConfig
    rng: np.random.Generator
    bench: Bench = field(init=False)

    def __post_init__(self) -> None:
        assert self.config.sparse
        self.bench = Bench(config=self.config.sparse, rng=self.rng)

    def matrix(self, rows: int, columns: int, count: int) -> Matrix:
        """Return a matrix of random entries."""
        assert self.config.sparse
        return Matrix.random(self.config.sparse, self.rng, rows=rows, columns=columns, count=count)

    def command(self, name: str, matrix: Matrix, **more: int) -> list[int]:
        """Return the payload of port ``i``."""
        fields = self.bench.fields(name, matrix, **more)
        return [hw.command_layout(self.config).const(fields).as_bits()]

    def load(self, matrix: Matrix) -> list[Phase]:
        """Return the load of a matrix; no phase if entries are streamed."""
        if not self.config.entries:
            return []
        loaded = self.bench.load(matrix)
        _, status, _ = self.bench.judged(matrix)
        outputs = {"o": results(self.config, [], status)}
        return [Phase(inputs=loaded.inputs | {"i": self.command("load", matrix)}, outputs=outputs)]

    def update(self, matrix: Matrix) -> Phase:
        """Return an update; the matrix then has the new values."""
        _, status, _ = self.bench.judged(matrix)
        step = self.bench.step()
        phase = self.bench.update(matrix, **step)
        command = self.command("update", matrix, **step)
        return Phase(
            inputs=phase.inputs | {"i": command},
            outputs=phase.outputs | {"o": results(self.config, [], status)},
        )

    def product(self, phase: Phase, job, matrix: Matrix, *, k: int = 0, rows: int = -1,
                status: str = "ok") -> Phase:  # fmt: skip
        """Return the phase of a dense job with the matrix added.

        The dense part has ``rows`` results and then ``status``. Of several vectors the first has
        the sign ``k``, and the others have random ones.
        """
        bench, rng = self.bench, self.rng
        fields = {
            "shift": int(rng.integers(self.config.most_shift + 1)),
            "seed": int(rng.integers(1 << 32)),
            "scale": int(rng.integers(MOST_SCALE + 1)),
        }
        signs = self.bench.signs(k)
        good, found, decided = bench.judged(matrix)
        each = signs if self.config.vectors > 1 else k
        sums = bench.model.product(good, job.x, job.sums, k=each, **fields)
        rows = len(sums) if rows < 0 else rows
        if found == "ok" or rows < decided:
            sums, ends = sums[:rows], status
        else:
            sums, ends = sums[:decided], found
        if self.config.decode == "seedlm":
            fields["plain"] = job.plain
        fields |= bench.sign_fields(signs)
        inputs = phase.inputs | {"i": self.command("product", matrix, **fields)}
        if not self.config.entries:
            inputs["i_entries"] = bench.entries(matrix.entries)
        return Phase(inputs=inputs, outputs={"o": results(self.config, sums, ends)})

    def cleared(self, matrix: Matrix) -> list[Phase]:
        """Return an update or a load that is aborted, and what follows it."""
        name = "load" if self.config.entries else "update"
        some = matrix.entries[:2]
        begun = Phase(
            inputs={"i": self.command(name, matrix), "i_entries": self.bench.entries(some)}
        )
        if name == "update":
            begun.outputs["o_entries"] = self.bench.entries(some, last=False)
        clear = self.command(name, matrix, clear=1)
        ended = Phase(inputs={"i": clear}, outputs={"o": results(self.config, [], "cleared")})
        return [begun, ended, Phase(inputs={"i": clear}), *self.load(matrix)]
