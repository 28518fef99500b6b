"""Case of the sparse part: products, updates and loads, and every error."""

from dataclasses import dataclass, field
from random import Random

import numpy as np

from seedbed.golden.sparse_mac import SparseMac
from seedbed.hw.products import sparse_layouts as hw
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import SPARSE_MAC_KINDS, SPARSE_MAC_STATUS, SparseMacConfig
from seedbed.spec.sparse_mac import MOST_SCALE

__all__ = ["Bench", "Matrix", "case"]


@dataclass(kw_only=True)
class Matrix:
    """Entries (count, 3) of a matrix of ``rows`` x ``columns``, from address ``first`` on."""

    rows: int
    columns: int
    entries: np.ndarray
    first: int = 0

    @classmethod
    def random(
        cls, config: SparseMacConfig, rng: np.random.Generator, *, rows: int, columns: int,
        count: int,
    ) -> "Matrix":  # fmt: skip
        """Return a matrix of random entries, many of them at the ends of their range."""
        places = np.sort(rng.choice(rows * columns, min(count, rows * columns), replace=False))
        half = 1 << (config.value_width - 1)
        values = rng.integers(-half, half, len(places))
        extreme = rng.random(len(places)) < 0.3
        values = np.where(extreme, rng.choice([-half, half - 1], len(places)), values)
        entries = np.stack([places // columns, places % columns, values], axis=1)
        return cls(rows=rows, columns=columns, entries=entries.astype(np.int64))


@dataclass(kw_only=True)
class Bench:
    """Makes phases of commands, and keeps what the core's memory must hold."""

    config: SparseMacConfig
    rng: np.random.Generator
    model: SparseMac = field(init=False)

    def __post_init__(self) -> None:
        self.model = SparseMac(self.config)

    def fields(self, name: str, matrix: Matrix, **more: int) -> dict[str, int]:
        """Return the fields of a command."""
        given = {
            "kind": SPARSE_MAC_KINDS.index(name), "rows": matrix.rows, "columns": matrix.columns,
            "count": len(matrix.entries),
        }  # fmt: skip
        if self.config.entries:
            given["first"] = matrix.first
        return given | more

    def command(self, name: str, matrix: Matrix, **more: int) -> list[int]:
        """Return the payload of port ``i``."""
        fields = self.fields(name, matrix, **more)
        return [hw.command_layout(self.config).const(fields).as_bits()]

    def judged(self, matrix: Matrix) -> tuple[np.ndarray, str, int]:
        """Return the entries before the first wrong one, its status, and the rows with results."""
        n, status = self.model.first_error(matrix.entries, rows=matrix.rows, columns=matrix.columns)
        good = matrix.entries[:n]
        if status == "ok":
            return good, status, matrix.rows
        return good, status, int(good[-1, 0]) if n else 0

    def results(self, sums: np.ndarray, status: str = "") -> list[int]:
        """Return results: sums, and the end of a command with a status, or of a product."""
        fields: list[dict] = [{"sum": s, "status": 0, "last": 0} for s in sums.tolist()]
        if status == "ok" and fields:
            fields[-1]["last"] = 1
        elif status:
            code = SPARSE_MAC_STATUS.index(status)
            none = [0] * self.config.vectors if self.config.vectors > 1 else 0
            fields.append({"sum": none, "status": code, "last": 1})
        return [hw.result_layout(self.config).const(one).as_bits() for one in fields]

    def entries(self, entries: np.ndarray, *, last: bool | None = None) -> list[int]:
        """Return the payloads of entries; with ``last``, those of the output."""
        more = {} if last is None else {"last": 1}
        layout = entry_layout(self.config, **more)
        found = []
        for n, (row, column, value) in enumerate(entries.tolist()):
            one = {"row": row, "column": column, "value": value}
            if last is not None:
                one["last"] = last and n == len(entries) - 1
            found.append(layout.const(one).as_bits())
        return found

    def load(self, matrix: Matrix) -> Phase:
        """Return the load of a matrix, of its entries before the first wrong one."""
        _, status = self.model.first_error(matrix.entries, rows=matrix.rows, columns=matrix.columns)
        return Phase(
            inputs={"i": self.command("load", matrix), "i_entries": self.entries(matrix.entries)},
            outputs={"o": self.results(np.zeros(0), status)},
        )

    def product(
        self, matrix: Matrix, *, dense_status: str = "ok", dense_rows: int | None = None,
        k: int = 0, vector_beats: int = 0,
    ) -> Phase:  # fmt: skip
        """Return a product with random numbers of the dense part.

        The dense results end after ``dense_rows`` rows, with ``dense_status``. ``vector_beats``
        beats are missing of the vector, or are too many.
        """
        config, rng, model = self.config, self.rng, self.model
        half = 1 << (config.activation_width - 1)
        beats = -(-matrix.columns // config.group)
        # Of several vectors, an axis of the beats and one of the sums.
        several = (config.vectors,) if config.vectors > 1 else ()
        shape = (max(1, beats - vector_beats), *several, config.group)
        lanes = rng.integers(-half, half, shape)
        signs = self.signs(k)
        pass_of = {
            "shift": int(rng.integers(config.most_shift + 1)),
            "seed": int(rng.integers(1 << 32)),
            "scale": int(rng.integers(MOST_SCALE + 1)),
        }
        limit = 1 << (config.sum_width - 2)
        count = matrix.rows if dense_rows is None else dense_rows
        dense = rng.integers(-limit, limit, (max(count, matrix.rows), *several))
        good, status, decided = self.judged(matrix)
        given, ends = dense[:count], dense_status
        sums = np.zeros(0, np.int64)
        if vector_beats:
            ends = "vector"
        else:
            x = np.moveaxis(lanes, 0, -2).reshape(*several, -1)[..., : matrix.columns]
            each = signs if several else k
            sums = model.product(good, x, dense[: matrix.rows], k=each, **pass_of)
            # An error result, a last one that is early or one that is missing.
            dense_ends = count if dense_status != "ok" else min(count, matrix.rows) - 1
            if count != matrix.rows and dense_status == "ok":
                ends = "row"
            elif dense_status == "ok":
                dense_ends = count
            if dense_ends < decided or status == "ok":
                sums = sums[:dense_ends]
            else:
                sums, ends = sums[:decided], status
        vector = [
            hw.vector_layout(config).const({"lanes": one, "last": t == len(lanes) - 1}).as_bits()
            for t, one in enumerate(lanes.tolist())
        ]
        inputs = {
            "i": self.command("product", matrix, **self.sign_fields(signs), **pass_of),
            "i_vector": vector,
            "i_sums": self.results(given, dense_status),
        }
        if not config.entries:
            inputs["i_entries"] = self.entries(matrix.entries)
        return Phase(inputs=inputs, outputs={"o": self.results(sums, ends)})

    def signs(self, k: int) -> list[int]:
        """Return the sign of each vector: ``k``, and random ones."""
        return [k, *self.rng.integers(-1, 2, self.config.vectors - 1).tolist()]

    def sign_fields(self, signs: list[int]) -> dict[str, int]:
        """Return the fields of a command with the signs of its vectors."""
        return {
            "perturb": sum((k != 0) << v for v, k in enumerate(signs)),
            "negative": sum((k < 0) << v for v, k in enumerate(signs)),
        }

    def step(self) -> dict[str, int]:
        """Return a random step of an update."""
        config, rng = self.config, self.rng
        half = 1 << (config.activation_width - 1)
        return {
            "seed": int(rng.integers(1 << 32)),
            "gain": int(rng.integers(-half, half)),
            "shift": int(rng.integers(config.most_shift + 1)),
        }

    def update(self, matrix: Matrix, **step: int) -> Phase:
        """Return an update by ``step`` or a random one; the matrix then has the new values."""
        config = self.config
        n, status = self.model.first_error(matrix.entries, rows=matrix.rows, columns=matrix.columns)
        step = step or self.step()
        inputs = {"i": self.command("update", matrix, **step)}
        if not config.entries:
            inputs["i_entries"] = self.entries(matrix.entries)
        new = matrix.entries.copy()
        new[:n, 2] = self.model.updated(new[:n, 2], **step)
        matrix.entries = new
        outputs = {
            "o_entries": self.entries(new[:n], last=status == "ok"),
            "o": self.results(np.zeros(0), status),
        }
        return Phase(inputs=inputs, outputs=outputs)

    def wrong(self, rows: int, columns: int, count: int) -> list[Matrix]:
        """Return matrices with one wrong entry each: first, in the middle or last."""
        found = []
        for at in {1, count // 2, count - 1}:
            for kind in ("order", "repeated", "range"):
                matrix = Matrix.random(
                    self.config, self.rng, rows=rows, columns=columns, count=count
                )
                entries = matrix.entries
                if at >= len(entries):
                    continue
                if kind == "order":
                    entries[[at - 1, at]] = entries[[at, at - 1]]
                elif kind == "repeated":
                    entries[at, :2] = entries[at - 1, :2]
                elif rows + 1 < 1 << self.config.row_width:
                    entries[at:, 0] = rows
                found.append(matrix)
        return found


def _cleared(bench: Bench, matrix: Matrix) -> list[Phase]:
    """Return commands that are aborted in each state, and what has no effect."""
    config = bench.config
    ends = bench.results(np.zeros(0), "cleared")
    clear = Phase(inputs={"i": bench.command("product", matrix, clear=1)})
    ended = Phase(inputs=clear.inputs | {"i_sums": ends}, outputs={"o": ends})
    whole = bench.product(matrix)
    begun = {"i": whole.inputs["i"]}
    loaded = begun | {"i_vector": whole.inputs["i_vector"]}
    found = [clear, Phase(inputs=begun), ended, clear, Phase(inputs=loaded), ended]
    if matrix.columns > config.group:
        found += [Phase(inputs=begun | {"i_vector": whole.inputs["i_vector"][:1]}), ended, clear]
    for name in ("load",) if config.entries else ("update",):
        few = matrix.entries[:3]
        some = Phase(inputs={"i": bench.command(name, matrix), "i_entries": bench.entries(few)})
        if name == "update":
            some.outputs["o_entries"] = bench.entries(few, last=False)
        found += [some, Phase(inputs=clear.inputs, outputs={"o": ends})]
    return [*found, *_apart([bench.product(matrix)])]


def _passes(bench: Bench, matrix: Matrix, load: bool) -> list[Phase]:
    """Return products and updates with one matrix."""
    loads = [bench.load(matrix)] if load else []
    if load and not bench.config.entries:
        loads = []
    plus, minus = bench.product(matrix, k=1), bench.product(matrix, k=-1)
    return [*loads, bench.product(matrix), plus, minus, bench.update(matrix), bench.product(matrix)]


def _errors(bench: Bench, matrix: Matrix) -> list[Phase]:
    """Return errors of the dense results, of the vector and of entries, each with a pass after."""
    config = bench.config
    found = []
    rows = matrix.rows
    for count, status in ((0, "shape"), (rows // 2, "row"), (rows // 2, "ok"), (rows + 2, "ok")):
        found.append(bench.product(matrix, dense_rows=count, dense_status=status))
        found.append(bench.product(matrix))
    if matrix.columns > config.group:
        found += [bench.product(matrix, vector_beats=1), bench.product(matrix)]
    found += [bench.product(matrix, vector_beats=-1), bench.product(matrix)]
    for wrong in bench.wrong(rows, matrix.columns, min(12, config.entries or 12)):
        if config.entries:
            found += [bench.load(wrong)]
        else:
            found += [bench.product(wrong, k=1), bench.update(wrong)]
    # A matrix of fewer rows or columns has some of the entries outside.
    if config.entries and len(matrix.entries):
        found.append(bench.load(matrix))
        for less in ({"rows": max(1, rows // 2)}, {"columns": max(1, matrix.columns // 2)}):
            shape = {"rows": rows, "columns": matrix.columns} | less
            part = Matrix(**shape, entries=matrix.entries)
            found += [bench.product(part), bench.update(part)]
            matrix.entries = part.entries
            found.append(bench.product(matrix))
    return found


def _apart(phases: list[Phase]) -> list[Phase]:
    """Return the phases with each command before its data, which an error before would discard."""
    found = []
    for phase in phases:
        rest = {name: payloads for name, payloads in phase.inputs.items() if name != "i"}
        found.append(Phase(inputs={"i": phase.inputs["i"]}))
        found.append(Phase(inputs=rest, outputs=phase.outputs))
    return found


def case(config: SparseMacConfig, random: Random, *, rows: int = 20, apart: bool = True) -> Case:
    """Return passes over matrices with no, few, many and all entries, and every error.

    After an error, the data of a command is sent after it if ``apart``, and together otherwise: a
    bench that pauses at random would send some of it before.
    """
    bench = Bench(config=config, rng=np.random.default_rng(random.getrandbits(32)))
    most = config.entries or 60
    rows = min(rows, (1 << config.row_width) - 1)
    columns = min(config.columns, 3 * config.group + 1)
    phases = []
    for shape in (
        {"rows": rows, "columns": columns, "count": most // 2},
        {"rows": 1, "columns": columns, "count": most},
        {"rows": rows, "columns": 1, "count": most},
        {"rows": 3, "columns": columns, "count": 0},
    ):
        matrix = Matrix.random(config, bench.rng, **shape)
        matrix.first = random.randint(0, max(0, config.entries - len(matrix.entries)))
        phases += _passes(bench, matrix, load=True)
    matrix = Matrix.random(config, bench.rng, rows=rows, columns=columns, count=most)
    phases += _passes(bench, matrix, load=True)
    errors = _errors(bench, matrix)
    phases += _apart(errors) if apart else errors
    phases += ([bench.load(matrix)] if config.entries else []) + _cleared(bench, matrix)
    # What a command must not ask for.
    empty = Matrix(rows=3, columns=1, entries=np.zeros((0, 3), np.int64))
    for wrong in ({"rows": 0}, {"columns": 0}, {"kind": 3}):
        phases.append(
            Phase(
                inputs={"i": bench.command("update", empty, **wrong)},
                outputs={"o": bench.results(np.zeros(0), "shape")},
            )
        )
    return Case(phases=phases, quiet=True, retains=bool(config.entries))
