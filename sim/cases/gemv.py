"""Case of the matrix-vector product: many shapes, packed and plain, and every error."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from random import Random

import numpy as np

from seedbed.golden.gemv import Gemv
from seedbed.hw.products import gemv_layouts as hw
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.gemv_side import SideBench, results
from seedbed.sim.cases.sparse_mac import Matrix
from seedbed.spec import GemvConfig

__all__ = ["Job", "case", "command", "phase", "results", "vector_payloads"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One matrix and vector, as beats, and the expected sums.

    ``lengths`` has the beats up to the last one of each row, and ``scales`` the mantissa and the
    exponent of each, or nothing. ``vector`` is integers of shape
    (beats, group) or, of several, (beats, vectors, group), ``weights`` uint8 of shape (rows, beats
    per row, bytes per beat), in the order of the beats, ``x`` and ``sums`` as the model has them.
    """

    columns: int
    rows: int
    plain: bool
    x: np.ndarray
    vector: np.ndarray
    weights: np.ndarray
    lengths: list[int]
    sums: np.ndarray
    scales: list[dict[str, int]] = field(default_factory=list)

    @classmethod
    def random(
        cls, config: GemvConfig, rng: np.random.Generator, *, rows: int, columns: int,
        plain: bool,
    ) -> "Job":  # fmt: skip
        """Return a job of random numbers; the padding is random too."""
        model, half = Gemv(config), 1 << (config.activation_width - 1)
        beats = -(-columns // config.group)
        vector = rng.integers(-half, half, (config.vectors, beats, config.group))
        x = vector.reshape(config.vectors, -1)[:, :columns]
        if config.vectors == 1:
            x = x[0]
        scales: list[dict[str, int]] = []
        if config.decode == "lut4":
            peak = 1 << (config.level_width - 1)
            codes = rng.integers(0, 16, (rows, -(-columns // config.lanes) * config.lanes))
            levels = rng.integers(-peak, peak, (rows, 16))
            exponents = rng.integers(-8, 8, rows)
            weights = model.lut4_beats(codes, levels, exponents)
            weights = weights.reshape(rows, -1, config.beat_bits // 8)
            sums = model.lut4_product(codes[:, :columns], levels, exponents, x)
        elif config.trellis:
            most, lanes = 1 << config.bits, config.lanes
            symbols = rng.integers(0, most, (rows, -(-columns // lanes) * lanes))
            mantissas, exponents = rng.integers(0, 256, rows), rng.integers(-8, 8, rows)
            scales = [
                {"mantissa": mantissa, "exponent": exponent}
                for mantissa, exponent in zip(mantissas.tolist(), exponents.tolist(), strict=True)
            ]
            weights = model.trellis_beats(symbols)
            sums = model.trellis_product(symbols[:, :columns], mantissas, exponents, x)
        elif plain or config.decode == "plain":
            peak, fields = 1 << (config.plain_width - 1), config.plain_lanes
            matrix = rng.integers(-peak, peak, (rows, -(-columns // fields) * fields))
            weights, sums = model.plain_beats(matrix), model.plain_product(matrix[:, :columns], x)
        else:
            assert config.decompress
            blocks = -(-columns // config.block)
            fields = config.decompress.blocks
            matrix = rng.integers(
                0, 1 << config.block_bits, (rows, -(-blocks // fields) * fields), np.uint64
            )
            weights, sums = model.packed_beats(matrix), model.packed_product(matrix[:, :blocks], x)
        vector = vector.transpose(1, 0, 2)
        lengths = [weights.shape[1]] * rows
        if config.decode == "lut4":
            lengths = config.row_beats(columns, rows)
        return cls(
            columns=columns, rows=rows, plain=plain, x=x, weights=weights, sums=sums,
            lengths=lengths, vector=vector if config.vectors > 1 else vector[:, 0], scales=scales,
        )  # fmt: skip


def command(
    config: GemvConfig, columns: int = 0, rows: int = 0, *, plain=False, clear=False
) -> int:
    """Return a payload of port ``i``."""
    fields = {"columns": columns, "rows": rows, "clear": clear}
    if config.decode == "seedlm":
        fields["plain"] = plain
    return hw.command_layout(config).const(fields).as_bits()


def vector_payloads(config: GemvConfig, job: Job, ends: Sequence[bool] | None = None) -> list[int]:
    """Return the payloads of port ``i_vector``; ``ends`` overrides ``last``, beat by beat."""
    layout, beats = hw.vector_layout(config), len(job.vector)
    ends = ends or [k == beats - 1 for k in range(beats)]
    return [
        layout.const({"lanes": lanes.tolist(), "last": end}).as_bits()
        for lanes, end in zip(job.vector, ends, strict=True)
    ]


def phase(
    config: GemvConfig, job: Job, *, status: str = "ok", bad_row: int = 0, bad_beat: int = 0
) -> Phase:
    """Return the phase of one job.

    With ``status`` "vector" or "row" the ``last`` of the vector, or of row ``bad_row``, is at
    ``bad_beat`` instead, or missing if that is after the end. All beats are sent, and the rows
    before have results.
    """
    vectors, rows = len(job.vector), job.rows
    vector_ends = [k == vectors - 1 for k in range(vectors)]
    ends = [[t == beats - 1 for t in range(beats)] for beats in job.lengths]
    good = {"ok": rows, "vector": 0, "row": bad_row}[status]
    if status != "ok":
        wrong = vector_ends if status == "vector" else ends[bad_row]
        wrong[-1] = False
        wrong[bad_beat : bad_beat + 1] = [True] * len(wrong[bad_beat : bad_beat + 1])
    flat = job.weights.reshape(-1, config.beat_bits // 8)
    scales = [hw.scale_layout().const(scale).as_bits() for scale in job.scales]
    return Phase(
        inputs=({"i_scales": scales} if config.trellis else {})
        | {
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


def _errors(config: GemvConfig, draw) -> list[Phase]:
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
    for plain in (False, True) if config.decode == "seedlm" else (False,):
        job = draw(rows=rows, columns=columns, plain=plain)
        vectors = len(job.vector)
        places = [("vector", 0, k) for k in {0, vectors - 2, vectors} if 0 <= k != vectors - 1]
        places += [
            ("row", row, k)
            for row in (0, 1, rows - 1)
            for k in {0, job.lengths[row] - 2, job.lengths[row]}
            if 0 <= k != job.lengths[row] - 1
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
            (vectors, job.lengths[0] + 1),
            (vectors, sum(job.lengths[:2])),
        ]:
            whole_rows = sum(sum(job.lengths[: r + 1]) <= some for r in range(rows))
            stops = {"i_vector": sent, "i_weights": some, "i_scales": whole_rows}
            inputs = whole | {
                name: whole[name][:stop] for name, stop in stops.items() if name in whole
            }
            begun = Phase(inputs=inputs, outputs={"o": results(config, job.sums[:whole_rows])})
            cleared = Phase(inputs=clear.inputs, outputs={"o": results(config, [], "cleared")})
            broken.append([begun, cleared])
    found = []
    for k, phases in enumerate(broken):
        after = phase(config, draw(rows=2, columns=columns, plain=bool(k % 2)))
        start = Phase(inputs={"i": after.inputs["i"]})
        rest = {name: payloads for name, payloads in after.inputs.items() if name != "i"}
        # A command ends the discarding: that of the next job, or one that only clears.
        job_phases = [start, Phase(inputs=rest, outputs=after.outputs)]
        found += [*phases, *(job_phases if k % 3 else [clear, after])]
    return found


def _side(config: GemvConfig, rng: np.random.Generator, draw) -> list[Phase]:
    """Return jobs with a side path, updates between them, and every error with a job after it."""
    side = SideBench(config=config, rng=rng)
    rows, columns = 5, min(config.columns, 2 * config.lanes + 1)
    most = config.entries or 60
    found = []

    def product(matrix: Matrix, plain: bool, *, k: int = 0, status: str = "ok", **bad) -> Phase:
        job = draw(rows=matrix.rows, columns=matrix.columns, plain=plain)
        good = {"ok": job.rows, "vector": 0, "row": bad.get("bad_row", 0)}
        whole = phase(config, job, status=status, **bad)
        return side.product(whole, job, matrix, k=k, rows=good[status], status=status)

    for count in (most // 2, most, 0):
        matrix = side.matrix(rows, columns, count)
        found += side.load(matrix)
        for plain in (False, True):
            found += [product(matrix, plain, k=k) for k in (0, 1, -1)] + [side.update(matrix)]
    matrix = side.matrix(rows, columns, most)
    broken = [*side.cleared(matrix), *side.load(matrix)]
    for status in ("vector", "row"):
        bad = product(matrix, True, status=status, bad_row=3 * (status == "row"), bad_beat=0)
        broken += [bad, side.update(matrix), product(matrix, True)]
    for wrong in side.bench.wrong(rows, columns, min(9, most)):
        if config.entries:
            broken += side.load(wrong)
        else:
            broken += [product(wrong, False, k=1), side.update(wrong)]
    broken += [*side.load(matrix), product(matrix, False, k=1)]
    if config.entries:
        # A matrix of fewer rows has some of the entries outside.
        broken += [product(replace(matrix, rows=2), False), product(matrix, False)]
    # What a command must not ask for: there is no such kind.
    no_kind = Phase(
        inputs={"i": side.command("update", matrix, kind=3)},
        outputs={"o": results(config, [], "shape")},
    )
    return [*found, *chain(*map(_apart, broken)), no_kind]


def _apart(phase: Phase) -> list[Phase]:
    """Return the phase with its command before the data, which an error before would discard."""
    rest = {name: payloads for name, payloads in phase.inputs.items() if name != "i"}
    return [Phase(inputs={"i": phase.inputs["i"]}), Phase(inputs=rest, outputs=phase.outputs)]


def case(config: GemvConfig, random: Random, *, beats: int = 100) -> Case:
    """Return jobs back to back, each error with a job after it, and many rows of one beat."""
    rng = np.random.default_rng(random.getrandbits(32))

    def draw(*, plain: bool, **shape) -> Job:
        return Job.random(config, rng, plain=plain and config.decode == "seedlm", **shape)

    most, lanes, plain_lanes = config.columns, config.lanes, config.plain_lanes
    jobs = []
    for plain, n in ((False, lanes), (True, plain_lanes)):
        if plain and config.decode != "seedlm":
            continue
        columns = {1, config.block + 1, n - 1 or 1, n, n + 1, 2 * n, 5 * n + 2, min(most, 100)}
        for count in sorted(c for c in columns if c <= most):
            jobs.append(draw(rows=random.randint(1, 4), columns=count, plain=plain))
    random.shuffle(jobs)
    jobs += [draw(rows=beats, columns=n, plain=n == plain_lanes) for n in (min(lanes, most), 1)]
    errors = _errors(config, draw)
    phases = [_concatenated([phase(config, job) for job in jobs]), *errors]
    if config.sparse:
        phases += _side(config, rng, draw)
    return Case(phases=phases, quiet=True, retains=bool(config.entries))
