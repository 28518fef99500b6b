"""Tables of the report's JSON rows: one list of sections for Markdown, HTML and the terminal."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

__all__ = [
    "SECTIONS",
    "Table",
    "highlights",
    "markdown",
    "sections",
    "show",
    "status",
    "summary",
    "verdicts",
]

JsonRow = dict[str, Any]

#: What a column of figures is headed with; a figure that is not here is not in a table.
HEADINGS = {
    "lut": "LUT",
    "lut_carry": "into carries",
    "ff": "FF",
    "bram": "BRAM",
    "dsp": "DSP",
    "cells": "cells",
    "lut_per_lane": "LUT a lane",
    "bits": "bits",
    "fmax_mhz": "Fmax MHz, median",
    "fmax_min_mhz": "min",
    "fmax_max_mhz": "max",
    "fmax_logic_mhz": "ready from a LUT4",
    "fmax_free_mhz": "no floorplan",
    "lut_per_beat": "LUT a beat, times",
    "ff_per_beat": "FF a beat, times",
    "lut_per_number": "LUT a fresh number, times",
    "ff_per_number": "FF a fresh number, times",
    "lut_per_lane_more": "LUT a lane more",
    **{f"cycles_{side}": f"cycles, {side}" for side in (512, 1024, 2048)},
    **{f"speed_up_{side}": f"speed-up, {side}" for side in (512, 1024, 2048)},
    "blocks": "blocks",
    "images": "images tuned on",
    "held_images": "held out",
    "job_cycles": "cycles per job",
    "pass_cycles": "cycles per cached sample",
    "job_ms": "job, ms",
    "cycles_per_second": "simulated cycles per second",
    "runs": "runs",
    "cycles": "cycles",
    "beats": "beats",
    "proved": "proved",
    "covers": "covers reached",
    "mutants": "mutants",
    "killed": "killed",
    "score_percent": "score %",
    "lane_autocorrelation": "lane, lags 1..8",
    "generator_autocorrelation": "generator, lags 1..8",
    "lane_to_lane": "lane to lane, lag 0",
    "any_pair": "any pair, lags 1..8",
    "bytes": "bytes",
    "period_bytes": "period, bytes",
    "tests": "lines",
    "failed": "failed",
    "weak": "weak",
    "reference_failed": "PCG64, failed",
    "failing": "what fails",
    "exponents": "exponents that occur",
    "commonest_percent": "share of the commonest, %",
    "toggles": "toggles",
    "toggles_per_number": "toggles a number",
    "bits_per_weight": "bits a weight",
    "relative_error": "relative error",
    "plain_error": "block floating point",
    "paper_rule_error": "exponents as printed",
    "unscaled_error": "deviation 1e-3, no scale",
    "scale_spread_percent": "spread over scales, %",
    "blocks_per_second": "blocks a second",
    "literal_blocks_per_second": "Algorithm 1, literally",
    "times_literal": "times as fast",
    "hours_7b": "hours for 7e9 weights",
    "products": "products in the RTL",
    "numbers": "numbers",
    "seconds": "seconds",
    "cpu_seconds": "CPU seconds",
    "peak_mib": "peak MiB",
    "accuracy_mean": "accuracy %, mean",
    "accuracy_std": "standard deviation",
    "accuracy_before": "before, %",
    "accuracy_after": "after, %",
    "points_to_gaussian": "points to Gaussian",
    "diverged": "diverged",
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A titled table of texts; ``lines`` are as long as ``header``."""

    title: str
    text: str
    header: list[str]
    lines: list[list[str]]

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold nothing but numbers."""

        def number(cell: str) -> bool:
            return not cell or cell.replace(",", "").replace(".", "").lstrip("-").isdigit()

        return [all(number(line[k]) for line in self.lines) for k in range(len(self.header))]


def show(value: Any) -> str:
    """Return a figure as text: thousands apart, and no more digits than are worth reading."""
    if isinstance(value, float):
        magnitude = abs(value)
        return f"{value:,.1f}" if magnitude >= 10 else f"{value:.{2 if magnitude >= 1 else 4}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _data(row: JsonRow) -> str:
    """Return what images or numbers a row's figures are of, where that may be more than one."""
    return row["params"].get("data", "")


def _seeds(row: JsonRow) -> str:
    """Return a row's seeds: single ones, or the first and the last of several in order."""
    seeds = row.get("seeds", [])
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}..{seeds[-1]}"
    return ", ".join(map(str, seeds))


def _published(row: JsonRow) -> dict[str, Any]:
    """Return the figures of the paper that stand beside a row."""
    return (row["paper"] or {}).get("figures", {})


def _table(title: str, text: str, rows: list[JsonRow], published: Mapping[str, str]) -> Table:
    """Return the rows with one column a figure that any of them has, their data and their seeds.

    ``published`` are figures of the paper that follow, with their headings.
    """
    return _columns(title, text, [
        ("core", [row["core"] for row in rows]),
        ("configuration", [row["config"] for row in rows]),
        ("target", [row["target"] or "" for row in rows]),
        ("data", [_data(row) for row in rows]),
        *_figures([row["figures"] for row in rows], HEADINGS),
        ("seeds", [_seeds(row) for row in rows]),
        *_figures([_published(row) for row in rows], published),
    ])  # fmt: skip


def _columns(title: str, text: str, columns: list[tuple[str, list[str]]]) -> Table:
    """Return a table of those columns that hold anything."""
    columns = [(heading, cells) for heading, cells in columns if any(cells)]
    lines = [list(line) for line in zip(*(cells for _, cells in columns), strict=True)]
    return Table(title=title, text=text, header=[heading for heading, _ in columns], lines=lines)


def _figures(
    rows: list[Mapping[str, Any]], headings: Mapping[str, str]
) -> list[tuple[str, list[str]]]:
    """Return a column of texts for each figure that is in ``headings``."""
    return [
        (heading, [show(figures[name]) if name in figures else "" for figures in rows])
        for name, heading in headings.items()
    ]


#: Kinds that say something of a mapped design.
DESIGN = ("synthesis", "place", "place_ready", "place_free")


def merged(rows: Iterable[JsonRow]) -> list[JsonRow]:
    """Return synthesis and place rows with the figures of one design in one row."""
    designs: dict[tuple, JsonRow] = {}
    for row in rows:
        if row["kind"] in DESIGN:
            key = (row["core"], row["config"], row["target"])
            known = designs.setdefault(key, {**row, "figures": {}})
            known["figures"] = known["figures"] | row["figures"]
            known["paper"] = known["paper"] or row["paper"]
            # Synthesis has none: they are those of place and route.
            known["seeds"] = known.get("seeds") or row.get("seeds", [])
    return list(designs.values())


def compared(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return ours and the paper's figures in alternating columns."""
    found = [row for row in merged(rows) if row["paper"]]
    names = [n for n in ("lut", "ff", "bram", "fmax_mhz") if any(n in r["figures"] for r in found)]
    heads = [head for n in names for head in (HEADINGS[n], "paper")]
    lines = []
    for row in found:
        paper = row["paper"]
        line = [f"{row['core']} {row['config']}"]
        for name in names:
            for figures in (row["figures"], paper["figures"]):
                line.append(show(figures[name]) if name in figures else "")
        lines.append([*line, f"{paper['table']}, {paper['row']}"])
    header = ["design", *heads, "the paper's row"]
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


#: How the figures of a kind are obtained.
OBTAINED = {
    "synthesis": "synthesized, yosys",
    "cycles": "simulated, Verilator",
    "job": "simulated, Verilator",
}

#: What the README shows: core, configuration, target and figure.
HIGHLIGHTS: list[tuple[str, str, str | None, str]] = [
    ("urng_array", "31 x 8", "xcup", "lut"),
    ("urng_array", "31 x 8", "xcup", "ff"),
    ("prng_pool", "8 lanes x 12", "xcup", "bram"),
    ("seedlm_decompress", "4 bits x 16", "xcup", "lut"),
    ("mac_array", "128 lanes", "xcup", "lut"),
    ("seedlm_gemv", "4 bits, 64 bytes", "xcup", "lut"),
    ("seedlm_gemv", "4 bits, 64 bytes", None, "cycles_2048"),
    ("seedlm_gemv", "4 bits, 64 bytes", None, "speed_up_2048"),
    ("instantft", "LeNet-5, 32 lanes", None, "job_cycles"),
    ("instantft", "LeNet-5, 32 lanes", None, "pass_cycles"),
]


def highlights(rows: list[JsonRow]) -> Table | None:
    """Return ours, the paper's and their ratio for each of :data:`HIGHLIGHTS` that is measured."""
    lines = []
    for core, config, target, name in HIGHLIGHTS:
        for row in rows:
            key = row["core"], row["config"], row["target"], row["kind"] in OBTAINED
            if key != (core, config, target, True) or name not in row["figures"]:
                continue
            ours, paper = row["figures"][name], _published(row).get(name)
            lines.append([
                core, config, HEADINGS[name], show(ours), "" if paper is None else show(paper),
                f"{ours / paper:.2f}" if paper else "", OBTAINED[row["kind"]],
            ])  # fmt: skip
            break
    header = ["core", "configuration", "figure", "ours", "paper", "ours / paper", "how"]
    return Table(title="", text="", header=header, lines=lines) if lines else None


def products(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return the cycles of matrix-vector products, a line for each size."""
    names = {"cycles": "cycles", "plain_cycles": "plain", "speed_up": "speed-up"}
    lines = []
    for row in [row for row in rows if row["kind"] == "cycles"]:
        paper = _published(row)
        for side in (512, 1024, 2048):
            line = [row["config"], f"{side} x {side}"]
            for name in names:
                key = f"{name}_{side}"
                line += [show(row["figures"][key]), show(paper[key]) if key in paper else ""]
            lines.append([*line, _seeds(row)])
    heads = [head for name in names.values() for head in (name, "paper")]
    header = ["configuration", "matrix", *heads, "seeds"]
    columns = [list(cells) for cells in zip(*lines, strict=True)]
    return _columns(title, text, list(zip(header, columns, strict=True))) if lines else None


def sizes(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return what each design that a whole job was run on occupies, and how long it takes there."""
    ran = {(row["core"], row["config"]): row for row in rows if row["kind"] == "job"}
    found = []
    for row in merged(rows):
        job = ran.get((row["core"], row["config"]))
        if job is None:
            continue
        figures = row["figures"] | {n: job["figures"][n] for n in ("job_cycles", "pass_cycles")}
        if "fmax_mhz" in figures:
            figures["job_ms"] = figures["job_cycles"] / figures["fmax_mhz"] / 1e3
        for name in ("lut_per_lane", "lut_carry"):
            figures.pop(name, None)
        found.append({**row, "figures": figures, "params": job["params"]})
    return _table(title, text, found, {}) if found else None


RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
}


def _aims(rows: list[JsonRow]) -> list[tuple[JsonRow, str, float, str, float]]:
    """Return row, figure, value, relation and limit of everything that has an aim."""
    return [
        (row, name, row["figures"][name], relation, limit)
        for row in rows
        for name, (relation, limit) in row["aim"].items()
        if name in row["figures"]
    ]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


#: What a check is called, by the kind of its row; the emitted Verilog is run in cocotb.
CHECKS = {"simulation": "simulation", "cocotb": "run in cocotb", "proof": "proof"}


def summary(rows: list[JsonRow]) -> str:
    """Return in words how many cores were checked, in how many ways, and which aims are missed."""
    # A demonstration is of cores, and is none.
    cores = {row["core"] for row in rows if not row["core"].startswith("demo ")}
    counts = {kind: sum(row["kind"] == kind for row in rows) for kind in CHECKS}
    parts = [_counted(count, CHECKS[kind]) for kind, count in counts.items() if count]
    text = f"Measured of {_counted(len(cores), 'core')}: {_counted(sum(counts.values()), 'check')}"
    text += f" ({', '.join(parts)})." if parts else "."
    aims = _aims(rows)
    if not aims:
        return f"{text} No aim was measured."
    missed = [
        f"{row['core']} {row['config']}{' on ' + row['target'] if row['target'] else ''}, "
        f"{HEADINGS[name]}: {show(value)}, not {relation} {limit:g}"
        for row, name, value, relation, limit in aims
        if not RELATIONS[relation](value, limit)
    ]
    text += f" Of {_counted(len(aims), 'aim')}, {len(aims) - len(missed)} met, {len(missed)} missed"
    return f"{text}: {'; '.join(missed)}." if missed else f"{text}."


def verdicts(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return every figure that the project set itself a value for, and whether it is met."""
    aims = _aims(rows)
    if not aims:
        return None
    return _columns(title, text, [
        ("design", [f"{row['core']} {row['config']}" for row, *_ in aims]),
        ("target", [row["target"] or "" for row, *_ in aims]),
        ("data", [_data(row) for row, *_ in aims]),
        ("seeds", [_seeds(row) for row, *_ in aims]),
        ("figure", [HEADINGS[name] for _, name, *_ in aims]),
        ("measured", [show(value) for _, _, value, *_ in aims]),
        ("aim", [f"{relation} {limit:g}" for *_, relation, limit in aims]),
        ("", [
            "met" if RELATIONS[relation](value, limit) else "missed"
            for *_, value, relation, limit in aims
        ]),
    ])  # fmt: skip


def surviving(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return a line for each mutant that no bench noticed: what was changed, and where."""
    lines = [
        [row["core"], row["config"], *_mutation(each)]
        for row in rows
        if row["kind"] == "mutation"
        for each in row["figures"]["survivors"]
    ]
    header = ["core", "configuration", "fault", "cell", "line of the Verilog"]
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


def _mutation(command: str) -> tuple[str, str, str]:
    """Return fault, cell and line of a command ``mutate`` of yosys."""
    said = dict(re.findall(r" -(\w+) (\S+)", command))
    bit = f"{said['port']}[{said['portbit']}]"
    return f"{said['mode']} at {bit}", said["cell"], said.get("src", "").split(".v:")[-1]


def commands(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return the line that measures each row again."""
    found = dict.fromkeys(
        (row["kind"], row["core"], row["config"], row["target"] or "", row["command"])
        for row in rows
    )
    header = ["kind", "core", "configuration", "target", "command"]
    lines = [list(line) for line in found]
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


def done(kind: str, rows: list[JsonRow]) -> str:
    """Return how much was done, in words: proofs, mutants killed, or configurations."""
    if not rows:
        return "-"
    if kind == "mutation":
        killed, mutants = (sum(row["figures"][n] for row in rows) for n in ("killed", "mutants"))
        return f"{killed} of {mutants} killed"
    count = len({row["config"] for row in rows})
    noun = "proof" if kind == "proof" else "configuration"
    return f"{count} {noun}{'s' if count > 1 else ''}"


def status(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return how far each core has come: in how many configurations, or on which targets."""
    header = ["core", "simulated", "cocotb", "proven", "mutated", "synthesized", "placed"]
    kinds = ["simulation", "cocotb", "proof", "mutation", "synthesis", "place"]
    lines = []
    for core in dict.fromkeys(row["core"] for row in rows if row["kind"] in kinds):
        line = [core]
        for kind in kinds:
            found = [row for row in rows if (row["core"], row["kind"]) == (core, kind)]
            targets = dict.fromkeys(row["target"] for row in found if row["target"])
            line.append(", ".join(targets) or done(kind, found))
        lines.append(line)
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


def of_kind(
    *kinds: str, figure: str = "", published: Mapping[str, str] = MappingProxyType({})
) -> Callable[[list[JsonRow], str, str], Table | None]:
    """Return what makes a plain table of the rows of ``kinds``, of those that have ``figure``."""

    def make(rows: list[JsonRow], title: str, text: str) -> Table | None:
        pool = merged(rows) if "synthesis" in kinds else rows
        found = [row for row in pool if row["kind"] in kinds]
        found = [row for row in found if not figure or figure in row["figures"]]
        return _table(title, text, found, published) if found else None

    return make


#: The report from top to bottom: title, what to know before reading it, and what makes the table.
SECTIONS: list[tuple[str, str, Callable[[list[JsonRow], str, str], Table | None]]] = [
    (
        "Compared with the papers",
        "PeZO's Table 6 was made with Vivado for a ZCU102. Ours is made with yosys for the same "
        "family (xcup), with every cell counted. The paper's on-the-fly rows include the scale "
        "table, as perturbation does and urng_array does not. Its baseline draws 1,024 new "
        "Gaussian numbers a cycle; its own rows repeat 31 uniform numbers. The ratios count both "
        "ways. SeedLM's Table 4 is of a Virtex-7 and includes a conversion to FP16; ours stays in "
        "integers. No open place and route supports xcup, so that there is no Fmax of ours.",
        compared,
    ),
    ("Aims", "Values that the project set itself, and what was measured.", verdicts),
    (
        "Matrix-vector products",
        "Cycles from the first beat of weights to the last result, both included, simulated on the "
        "emitted Verilog with random weights and activations. The reference is SeedLM's Table 5, "
        "which starts at the first read of its memory and whose plain weights are FP16.",
        products,
    ),
    (
        "Fine-tuning in the RTL",
        "Cycles of InstantFT's complete job of 10 epochs, simulated on the emitted Verilog and "
        "equal to the model bit for bit: network and adapters are loaded, trained and read back. "
        "Accuracy is on the held-out images, rotated by 90 degrees, of scikit-learn's digits, or "
        "of MNIST where that was given. The paper's cycles are its 0.36 s at 200 MHz. Its accuracy "
        "is of MNIST (RotMNIST), and is compared with rows of MNIST only.",
        of_kind(
            "job",
            published={
                "job_cycles": "paper, cycles per job",
                "pass_cycles": "paper, cycles per sample",
                "accuracy_after": "paper, RotMNIST %",
            },
        ),
    ),
    (
        "Lanes, cycles and area",
        "The same job by the number of lanes, with the resources of the core. Where the core was "
        "placed and routed with these seeds, milliseconds are simulated cycles divided by the "
        "median Fmax, with a modelled memory of 16 bytes a cycle. No figure is from a device.",
        sizes,
    ),
    (
        "Ratios",
        "Cost of the baseline divided by the cost of the array, from one run with the same tools: "
        "for a beat of 1,024 lanes, where the array repeats its numbers, and for one new number. "
        "The last column is what a complete perturbation adds to the array, for each lane.",
        of_kind("ratio"),
    ),
    (
        "Resources",
        "All cells after synthesis. LUTs into carries only pass a signal into a carry chain: a "
        "carry cell of UltraScale+ takes them where no LUT drives it. Fmax is the median over the "
        "seeds of place and route, with its range. The mapped core is placed between registers "
        "instead of pads, and its ready comes from a register. In the column 'ready from a LUT4', "
        "ready comes from a LUT4 of four registers.",
        of_kind(*DESIGN),
    ),
    (
        "Correlation",
        "Largest |r| over the whole period of the array. A lane is a position in the beat. A "
        "generator is one LFSR, followed through the rotation. Any pair is any lane with any lane, "
        "some beats later.",
        of_kind("statistics", figure="lane_to_lane"),
    ),
    (
        "Statistical tests",
        "dieharder on the core's words, packed without gaps; a file that ends is read again. The "
        "reference is numpy's PCG64 over as many bytes.",
        of_kind("dieharder"),
    ),
    (
        "Scaling exponents",
        "Contents of the scale table, over all states.",
        of_kind("statistics", figure="exponents"),
    ),
    (
        "Gaussian generators",
        "Moments of the baseline's numbers in units of their last bit (sigma is 32 of them), and "
        "the dependence of numbers on one another: as published, and with longer registers.",
        of_kind("statistics", figure="sigma_lsb"),
    ),
    (
        "Compression",
        "Relative error of SeedLM's blocks on Gaussian weights, compared with plain block floating "
        "point in as many bits, with the exponent rule as the paper prints it, and with weights of "
        "a small deviation without a scale for each tensor.",
        of_kind("statistics", figure="relative_error"),
    ),
    (
        "Speed of the compressor",
        "Two processes, in one run with Algorithm 1 written literally in NumPy, on Gaussian "
        "weights.",
        of_kind("speed", figure="times_literal"),
    ),
    (
        "Compressed networks",
        "Accuracy on the held-out images before and after compression, and products of a layer in "
        "the emitted Verilog, equal to the golden model's bit for bit. The seed is that of "
        "training.",
        of_kind("weights"),
    ),
    ("Switching activity", "Net toggles in the simulated, mapped netlist.", of_kind("activity")),
    (
        "Zeroth-order fine-tuning",
        "Accuracy on the held-out images, over the seeds, after fine-tuning with each source of "
        "perturbations. The reference is PeZO's Table 3, which is of another network and other "
        "data: RoBERTa-large on SST-2 with k samples a class.",
        of_kind(
            "demo",
            published={"accuracy_k16": "paper, k = 16", "accuracy_k256": "paper, k = 256"},
        ),
    ),
    (
        "Bits and numbers",
        "The same with fewer or more generators, bits and numbers in the pool, as in PeZO's "
        "Figures 3 and 4.",
        of_kind("sweep"),
    ),
    (
        "Speed of the golden models",
        "On one core of the machine that made the report.",
        of_kind("speed", figure="numbers"),
    ),
    ("Status of the cores", "How each core was checked.", status),
    (
        "Proofs",
        "By k-induction, each with a reached cover and a mutant that fails.",
        of_kind("proof"),
    ),
    ("Mutation", "Mutants of the netlist that the bench notices.", of_kind("mutation")),
    (
        "Surviving mutants",
        "Neither noticed by the bench nor proven to be equivalent: a bit inverted (inv), tied "
        "(const0, const1), or inverted while another one is 0 or 1 (cnot0, cnot1).",
        surviving,
    ),
    (
        "Simulation",
        "Outputs equal to the golden model's, bit for bit.",
        of_kind("simulation", "cocotb"),
    ),
    ("To measure it again", "The command behind every row.", commands),
]


def sections(rows: list[JsonRow]) -> list[Table]:
    """Return the report's tables; one that nothing was measured for is not among them."""
    made = (make(rows, title, text) for title, text, make in SECTIONS)
    return [table for table in made if table]


def markdown(table: Table) -> str:
    """Return the header and lines as a Markdown table; figures are aligned to the right."""
    rules = ["---:" if right else "---" for right in table.numeric]
    cells = [table.header, rules, *table.lines]
    return "\n".join(
        "| " + " | ".join(c.replace("|", r"\|") for c in line) + " |" for line in cells
    )
