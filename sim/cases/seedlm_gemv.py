"""Case of the matrix-vector product: many shapes, packed and plain, and every error."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random

import numpy as np

from seedbed.golden.seedlm_gemv import SeedlmGemv
from seedbed.hw import seedlm_gemv as hw
from seedbed.sim.case import Case, Phase
from seedbed.spec import SeedlmGemvConfig
from seedbed.spec.seedlm_gemv import GEMV_STATUS

__all__ = ["Job", "case", "command", "phase", "results", "vector_payloads"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One matrix and vector, as beats, and the expected sums.

    ``vector`` is integers of shape (beats, group), ``weights`` uint8 of shape (rows, beats per row,
    bytes per beat), ``sums`` of shape (rows,).
    """

    columns: int
    rows: int
    plain: bool
    x: np.ndarray
    vector: np.ndarray
    weights: np.ndarray
    sums: np.ndarray

    @classmethod
    def random(
        cls, config: SeedlmGemvConfig, rng: np.random.Generator, *, rows: int, columns: int,
        plain: bool,
    ) -> "Job":  # fmt: skip
        """Return a job of random numbers; the padding is random too."""
        model, half = SeedlmGemv(config), 1 << (config.activation_width - 1)
        beats = -(-columns // config.group)
        vector = rng.integers(-half, half, beats * config.group)
        x = vector[:columns]
        if plain:
            peak, fields = 1 << (config.plain_width - 1), config.plain_lanes
            matrix = rng.integers(-peak, peak, (rows, -(-columns // fields) * fields))
            weights, sums = model.plain_beats(matrix), model.plain_product(matrix[:, :columns], x)
        else:
            blocks = -(-columns // config.block)
            fields = config.decompress.blocks
            matrix = rng.integers(
                0, 1 << config.block_bits, (rows, -(-blocks // fields) * fields), np.uint64
            )
            weights, sums = model.packed_beats(matrix), model.packed_product(matrix[:, :blocks], x)
        return cls(
            columns=columns, rows=rows, plain=plain, x=x, weights=weights, sums=sums,
            vector=vector.reshape(beats, config.group),
        )  # fmt: skip


def command(
    config: SeedlmGemvConfig, columns: int = 0, rows: int = 0, *, plain=False, clear=False
) -> int:
    """Return a payload of port ``i``."""
    fields = {"columns": columns, "rows": rows, "plain": plain, "clear": clear}
    return hw.command_layout(config).const(fields).as_bits()


def results(config: SeedlmGemvConfig, sums: Iterable[int], status: str = "") -> list[int]:
    """Return the payloads of port ``o``: the sums, and the status of a job that ended."""
    layout = hw.result_layout(config)
    fields = [{"sum": int(s), "status": 0, "last": 0} for s in sums]
    if status == "ok":
        fields[-1]["last"] = 1
    elif status:
        fields.append({"sum": 0, "status": GEMV_STATUS.index(status), "last": 1})
    return [layout.const(result).as_bits() for result in fields]


def vector_payloads(
    config: SeedlmGemvConfig, job: Job, ends: Sequence[bool] | None = None
) -> list[int]:
    """Return the payloads of port ``i_vector``; ``ends`` overrides ``last``, beat by beat."""
    layout, beats = hw.vector_layout(config), len(job.vector)
    ends = ends or [k == beats - 1 for k in range(beats)]
    return [
        layout.const({"lanes": lanes.tolist(), "last": end}).as_bits()
        for lanes, end in zip(job.vector, ends, strict=True)
    ]


def phase(
    config: SeedlmGemvConfig, job: Job, *, status: str = "ok", bad_row: int = 0, bad_beat: int = 0
) -> Phase:
    """Return the phase of one job.

    With ``status`` "vector" or "row" the ``last`` of the vector, or of row ``bad_row``, is at
    ``bad_beat`` instead, or missing if that is after the end. All beats are sent, and the rows
    before have results.
    """
    vectors, (rows, beats, _) = len(job.vector), job.weights.shape
    vector_ends = [k == vectors - 1 for k in range(vectors)]
    ends = [[t == beats - 1 for t in range(beats)] for _ in range(rows)]
    good = {"ok": rows, "vector": 0, "row": bad_row}[status]
    if status != "ok":
        wrong = vector_ends if status == "vector" else ends[bad_row]
        wrong[-1] = False
        wrong[bad_beat : bad_beat + 1] = [True] * len(wrong[bad_beat : bad_beat + 1])
    flat = job.weights.reshape(rows * beats, -1)
    return Phase(
        inputs={
            "i": [command(config, job.columns, job.rows, plain=job.plain)],
            "i_vector": vector_payloads(config, job, vector_ends),
            "i_weights": [
                int.from_bytes(beat.tobytes(), "little") | end << config.beat_bits
                for beat, end in zip(flat, chain(*ends), strict=True)
            ],
        },
        outputs={"o": results(config, job.sums[:good], status)},
    )


def _concatenated(phases: list[Phase]) -> Phase:
    """Return all phases as one, so that beats of successive jobs are sent without a gap."""
    sides = []
    for side in ("inputs", "outputs"):
        ports = [getattr(phase, side) for phase in phases]
        sides.append({name: [p for port in ports for p in port[name]] for name in ports[0]})
    return Phase(inputs=sides[0], outputs=sides[1])


def _errors(config: SeedlmGemvConfig, draw) -> list[Phase]:
    """Return every error, each followed by a job without an error."""
    clear = Phase(inputs={"i": [command(config, clear=True)]})
    most, rows = config.columns, 3
    columns = min(most, 2 * config.lanes + 1)
    shapes = [(0, 1), (1, 0), (most + 1, 1)][
        : 3 if (most + 1).bit_length() == most.bit_length() else 2
    ]
    broken = [
        [
            Phase(
                inputs={"i": [command(config, *shape)]}, outputs={"o": results(config, [], "shape")}
            )
        ]
        for shape in shapes
    ]
    for plain in (False, True):
        job = draw(rows=rows, columns=columns, plain=plain)
        beats, vectors = job.weights.shape[1], len(job.vector)
        places = [("vector", 0, k) for k in {0, vectors - 2, vectors} if 0 <= k != vectors - 1]
        places += [
            ("row", row, k)
            for row in (0, 1, rows - 1)
            for k in {0, beats - 2, beats}
            if 0 <= k != beats - 1
        ]
        broken += [
            [phase(config, job, status=status, bad_row=row, bad_beat=k)]
            for status, row, k in places
        ]
        # Aborted: in the vector, before any row, in a row, and between rows.
        whole = phase(config, job).inputs
        for sent, some in [
            (vectors // 2, 0),
            (vectors, 0),
            (vectors, beats + 1),
            (vectors, 2 * beats),
        ]:
            inputs = whole | {
                "i_vector": whole["i_vector"][:sent],
                "i_weights": whole["i_weights"][:some],
            }
            begun = Phase(inputs=inputs, outputs={"o": results(config, job.sums[: some // beats])})
            cleared = Phase(inputs=clear.inputs, outputs={"o": results(config, [], "cleared")})
            broken.append([begun, cleared])
    found = []
    for k, phases in enumerate(broken):
        after = phase(config, draw(rows=2, columns=columns, plain=bool(k % 2)))
        start = Phase(inputs={"i": after.inputs["i"]})
        rest = {name: payloads for name, payloads in after.inputs.items() if name != "i"}
        # A command ends the discarding: that of the next job, or one that only clears.
        after = [start, Phase(inputs=rest, outputs=after.outputs)] if k % 3 else [clear, after]
        found += [*phases, *after]
    return found


def case(config: SeedlmGemvConfig, random: Random, *, beats: int = 100) -> Case:
    """Return jobs back to back, each error with a job after it, and many rows of one beat."""
    rng = np.random.default_rng(random.getrandbits(32))

    def draw(**shape) -> Job:
        return Job.random(config, rng, **shape)

    most, lanes, plain_lanes = config.columns, config.lanes, config.plain_lanes
    jobs = []
    for plain, n in ((False, lanes), (True, plain_lanes)):
        columns = {1, config.block + 1, n - 1 or 1, n, n + 1, 2 * n, 5 * n + 2, min(most, 100)}
        for count in sorted(c for c in columns if c <= most):
            jobs.append(draw(rows=random.randint(1, 4), columns=count, plain=plain))
    random.shuffle(jobs)
    jobs += [draw(rows=beats, columns=n, plain=n == plain_lanes) for n in (min(lanes, most), 1)]
    errors = _errors(config, draw)
    return Case(phases=[_concatenated([phase(config, job) for job in jobs]), *errors], quiet=True)
