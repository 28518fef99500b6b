"""The report's sections: one list for Markdown, HTML and the terminal."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from seedbed.flow.report import aims, tables
from seedbed.flow.report.energy_table import energy_table
from seedbed.flow.report.table import JsonRow, Table, from_rows
from seedbed.flow.report.testu01_table import battery_table

__all__ = ["SECTIONS", "sections"]


def of_kind(
    *kinds: str, figure: str = "", reference: Mapping[str, str] = MappingProxyType({})
) -> Callable[[list[JsonRow], str, str], Table | None]:
    """Return a function that makes a table of the rows of ``kinds`` that have ``figure``."""

    def make(rows: list[JsonRow], title: str, text: str) -> Table | None:
        pool = tables.merge_designs(rows) if "synthesis" in kinds else rows
        found = [row for row in pool if row["kind"] in kinds]
        found = [row for row in found if not figure or figure in row["figures"]]
        return from_rows(title, text, found, reference) if found else None

    return make


#: The sections in order: title, introduction, and the function that makes the table.
SECTIONS: list[tuple[str, str, Callable[[list[JsonRow], str, str], Table | None]]] = [
    (
        "Compared with the papers",
        "PeZO's Table 6: Vivado, ZCU102. seedbed: yosys for the same family (xcup), every cell "
        "counted. The paper's on-the-fly rows include the scale table; perturbation includes it, "
        "urng_array does not. The paper's baseline draws 1,024 new Gaussian numbers per cycle; its "
        "own rows repeat 31 uniform numbers. The ratios count both. SeedLM's Table 4: Virtex-7, "
        "with a conversion to FP16; seedbed computes in integers. No open place and route supports "
        "xcup, so that no Fmax is given.",
        tables.paper_comparison,
    ),
    ("Aims", "Target values of the project, and the measured values.", aims.aims_table),
    (
        "Matrix-vector products",
        "Cycles from the first beat of weights to the last result, both included, simulated on the "
        "emitted Verilog with random weights and activations. The reference is SeedLM's Table 5. "
        "It counts from the first memory read, and its uncompressed weights are FP16.",
        tables.matrix_vector,
    ),
    (
        "Fine-tuning in the RTL",
        "Cycles of InstantFT's complete job of 10 epochs, simulated on the emitted Verilog and "
        "bit-exact with the model: network and adapters are loaded, trained and read back. "
        "Accuracy is measured on held-out images, rotated by 90 degrees, of scikit-learn's digits "
        "or of MNIST. The paper's cycles are its 0.36 s at 200 MHz. Its accuracy is that of MNIST "
        "(RotMNIST), and is given for rows of MNIST only.",
        of_kind(
            "job",
            figure="pass_cycles",
            reference={
                "job_cycles": "paper, cycles per job",
                "pass_cycles": "paper, cycles per sample",
                "accuracy_after": "paper, RotMNIST %",
            },
        ),
    ),
    (
        "Lanes, cycles and area",
        "The same job by number of lanes, with the resources of the core. Milliseconds are "
        "simulated cycles divided by the median Fmax of place and route with these seeds. The "
        "memory is a model with 16 bytes per cycle. No figure was measured on a device.",
        tables.job_resources,
    ),
    (
        "Zeroth-order training in the RTL",
        "Cycles of an epoch of 1,024 images in batches of 32, simulated on the emitted Verilog; "
        "classes, signs and weights are bit-exact with the model. A pass is counted from sample to "
        "sample. Reads and writes are those of a parameter in an update of a sign other than 0. "
        "The epoch of MNIST has batches of 256; its cycles follow from those of a sample and of an "
        "update. Seconds are these cycles divided by the median Fmax of place and route.",
        tables.zeroth_order,
    ),
    (
        "Tuning of kept weights in the RTL",
        "Cycles of a complete job, simulated on the emitted Verilog and equal to the model bit for "
        "bit. The step is compared with its forward passes alone. Reads and writes are those of a "
        "kept weight in an update.",
        of_kind("job", figure="step_ratio"),
    ),
    (
        "Ratios",
        "Cost of the baseline divided by the cost of the array, from one run with the same tools: "
        "per beat of 1,024 lanes, where the array repeats its numbers, and per new number. The "
        "last column is the cost of a complete perturbation beyond the array, per lane.",
        of_kind("ratio"),
    ),
    (
        "Resources",
        "All cells after synthesis. Route-through LUTs only pass a signal into a carry chain: a "
        "carry cell of UltraScale+ needs one where no LUT drives its input. Fmax is the median "
        "over the seeds of place and route, with its range. The mapped core is placed between "
        "registers instead of pads, and its ready comes from a register. In the column 'ready from "
        "a LUT4', ready comes from a LUT4 of four registers.",
        of_kind(*tables.DESIGN),
    ),
    (
        "Bitstreams",
        "Applications for boards, with link, memory controller and pads: cells after place and "
        "route, and Fmax as the median over the seeds, with its range. The clock is the one that "
        "the application asks for. LUT are LUTs of four inputs, also in carry chains.",
        of_kind("bitstream"),
    ),
    (
        "Memory controllers",
        "Bytes a cycle of a chip with two bytes a word, the MT48LC16M16A2-75 at 60 MHz, simulated "
        "in Verilator with one model of the chip and one program. 'Stream' is 64 bursts of 2,048 "
        "bytes in sequence, 'bursts' 512 of 128 bytes at random addresses, 'beats' 2,048 of 8 "
        "bytes. The cycles are those from the first command to the last beat or response. Every "
        "beat that is read is compared. Cells are those of yosys for ECP5.",
        of_kind("memory"),
    ),
    (
        "Correlation",
        "Largest |r| over the beats: the whole period of an array, and the first beats of "
        "lutopt. A lane is a position in the beat. A generator is one LFSR, tracked through the "
        "rotation. 'Any pair' covers all pairs of lanes, 1 to 8 beats apart.",
        of_kind("statistics", figure="lane_to_lane"),
    ),
    (
        "Statistical tests",
        "dieharder on the core's words, packed without gaps. At the end of the file, dieharder "
        "starts again from its beginning. The reference is numpy's PCG64 with the same number of "
        "bytes.",
        of_kind("dieharder"),
    ),
    (
        "SmallCrush",
        "TestU01's SmallCrush on the core's words, packed without gaps: of all lanes, of one lane, "
        "and of two that alternate. 'Failed' is a p-value nearer to 0 or 1 than 1e-10. PCG64 has "
        "words that repeat with the period of the core's. Causes: 'repeats', where PCG64 fails, "
        "too; 'linear', a test of linear dependence over GF(2); 'states', the lanes of an array "
        "have the same 2^b - 1 words, rotated; 'overlap', words of which each has bits of the word "
        "before it; 'levels', a bit of tree_grng repeats with the register of its level.",
        battery_table("testu01"),
    ),
    (
        "Crush",
        "TestU01's Crush on the same words, of 2^32 bytes. 'PCG64, failed' counts PCG64's failures "
        "in the tests that the core fails.",
        battery_table("crush"),
    ),
    (
        "Scaling exponents",
        "Contents of the scale table over all states.",
        of_kind("statistics", figure="exponents"),
    ),
    (
        "Gaussian generators",
        "Moments of the baseline's numbers in LSB (sigma is 32 LSB), and the dependence between "
        "numbers: as published, and with longer registers.",
        of_kind("statistics", figure="sigma_lsb"),
    ),
    (
        "Compression",
        "Relative error of SeedLM's blocks on Gaussian weights, compared with block floating point "
        "in the same number of bits, with the exponent rule as printed in the paper, and with "
        "weights of a small standard deviation without a scale per tensor.",
        of_kind("statistics", figure="relative_error"),
    ),
    (
        "Speed of the compressor",
        "Two processes on Gaussian weights, in the same run as a direct NumPy implementation of "
        "Algorithm 1.",
        of_kind("speed", figure="times_literal"),
    ),
    (
        "Formats compared",
        "Relative errors of random weights and of a model's matrices. All bits count: codes, "
        "scales and tables.",
        tables.formats_compared,
    ),
    (
        "Formats in models",
        "What models lose, as means over texts and draws: the divergence from the float model in "
        "nats, or the cosine of the vectors of sentences with those of the float model. Kept are "
        "0.1 % of the weights, which take 0.048 bits per weight more.",
        tables.formats_judged,
    ),
    (
        "Formats of weights",
        "Relative error of each method on the same weights: that of all matrices together, and in "
        "parentheses the range over matrices. All bits count: codes, scales, tables, and 48 for "
        "each kept weight. Kept weights are the largest of a matrix, each compared with its row's "
        "root mean square.",
        partial(tables.formats, judged=False),
    ),
    (
        "Formats by text",
        "Divergence from the float model and perplexity, or cosine, as means and ranges over "
        "draws. With feedback, a draw is a part of the text that gives statistics, and a damping. "
        "The relative error has its range over matrices and draws.",
        partial(tables.formats, judged=True),
    ),
    (
        "Compressed networks",
        "Accuracy on the held-out images before and after compression, and multiplications of one "
        "layer in the emitted Verilog, bit-exact with the golden model. The seed is that of "
        "training.",
        of_kind("weights"),
    ),
    (
        "Imported networks",
        "Accuracy of trained networks on test images: in float, and in the integers of each core "
        "before any training there. Cycles are those of a forward pass in conv_engine with 32 "
        "lanes and 4 ways.",
        of_kind("check", figure="accuracy_float"),
    ),
    (
        "Exported files",
        "Bytes of the files of 'seedbed export'. Memories were read back in every format, headers "
        "were compiled, and all of them were compared bit by bit.",
        of_kind("check", figure="bytes"),
    ),
    (
        "Drivers",
        "Jobs that the drivers in C have run, on the emitted Verilog and on virtual boards, also "
        "with errors on the line. All outputs are those of the models.",
        of_kind("check", figure="jobs"),
    ),
    (
        "Energy",
        "In cells of the 180 nm library osu018 at 100 MHz, with the toggles of every net in the "
        "core's own test case, and without its memories. 'Less than TreeGRNG' compares a beat with "
        "1,024 numbers of the baseline, which PeZO repeats its numbers to. The paper's figure is "
        "from its watts of an FPGA, in Table 6.",
        energy_table,
    ),
    ("Switching activity", "Net toggles in the simulated, mapped netlist.", of_kind("activity")),
    (
        "Zeroth-order fine-tuning",
        "Accuracy on the held-out images, over the seeds, after fine-tuning with each source of "
        "perturbations. The reference is PeZO's Table 3, for another network and other data: "
        "RoBERTa-large on SST-2 with k samples per class.",
        of_kind(
            "demo",
            reference={"accuracy_k16": "paper, k = 16", "accuracy_k256": "paper, k = 256"},
        ),
    ),
    (
        "Parameter sweeps",
        "The same by number of generators, bits, size of the pool and learning rate, as in PeZO's "
        "Figures 3 and 4.",
        of_kind("sweep"),
    ),
    (
        "Speed of the golden models",
        "Single-threaded, on the machine that made the report.",
        of_kind("speed", figure="numbers"),
    ),
    ("Status of the cores", "Checks of each core.", tables.status),
    (
        "Proofs",
        "By k-induction, each with a reached cover and a failing mutant.",
        of_kind("proof"),
    ),
    (
        "Hostile frames",
        "Random commands, packets, programs and faults of the memory, on the emitted Verilog, each "
        "followed by a job whose results are the model's.",
        of_kind("hostile"),
    ),
    (
        "Mapped netlists",
        "The emitted Verilog, mapped by yosys's plain command, with cells; and mapped as for the "
        "figures of resources, simulated with pauses and resets, where every output is the "
        "model's.",
        of_kind("mapping", "netlist"),
    ),
    ("Mutation", "Mutants of the netlist that the testbench detects.", of_kind("mutation")),
    (
        "Surviving mutants",
        "Neither detected by the testbench nor proven to be equivalent: a bit inverted (inv), tied "
        "(const0, const1), or inverted while another one is 0 or 1 (cnot0, cnot1).",
        tables.surviving_mutants,
    ),
    (
        "Simulation",
        "Outputs are bit-exact with the golden model.",
        of_kind("simulation", "cocotb", "icarus"),
    ),
    ("Commands", "The command that reproduces each row.", tables.commands),
]


def sections(rows: list[JsonRow]) -> list[Table]:
    """Return the report's tables, without those that have no rows."""
    made = (make(rows, title, text) for title, text, make in SECTIONS)
    return [table for table in made if table]
