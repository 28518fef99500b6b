"""Published reference figures, and the aims of this project."""

from collections.abc import Mapping
from typing import Any

__all__ = [
    "AIMS",
    "INSTANTFT",
    "PEZO",
    "SEEDLM",
    "aims",
    "demo_reference",
    "published",
    "reference",
]

PEZO = (
    "Perturbation-efficient Zeroth-order Optimization for Hardware-friendly On-device Training "
    "(PeZO, ICCAD 2025)"
)

SEEDLM = "SeedLM: Compressing LLM Weights into Seeds of Pseudo-Random Generators (arXiv:2410.10714)"

INSTANTFT = (
    "InstantFT: An FPGA-Based Runtime Subsecond Fine-tuning of CNN Models (Sugiura and Matsutani, "
    "2025)"
)

#: Sections 5.2 and 5.3: 0.36 s at 200 MHz for 10 epochs of 1,024 images, rotated by 90 degrees.
INSTANTFT_5: dict[str, dict[str, float]] = {
    "0.36 s at 200 MHz": {
        "job_cycles": 72_000_000, "pass_cycles": 7030, "accuracy_after": 91.8,
    },
}  # fmt: skip

#: Table 4, "FPGA resource utilization comparison", of 128 weights per cycle on a Virtex-7.
SEEDLM_TABLE_4: dict[str, dict[str, float]] = {
    "LSFR Decompress PreMAC": {"lut": 67034, "ff": 45407, "bram": 144, "dsp": 0},
    "Fix2Float, of these": {"lut": 12292, "ff": 13448, "bram": 0, "dsp": 0},
    "MAC Block": {"lut": 42174, "ff": 12594, "bram": 0, "dsp": 128},
    "Total": {"lut": 120105, "ff": 73666, "bram": 154.5, "dsp": 128},
}

#: Table 5, cycles of a matrix-vector product by the matrix's side; the reference is FP16.
SEEDLM_TABLE_5: dict[str, dict[str, float]] = {
    "SeedLM, Reference, Speed Up": {
        "cycles_512": 2341, "cycles_1024": 8723, "cycles_2048": 34331,
        "plain_cycles_512": 8593, "plain_cycles_1024": 34201, "plain_cycles_2048": 136559,
        "speed_up_512": 3.67, "speed_up_1024": 3.92, "speed_up_2048": 3.98,
    },
}  # fmt: skip

#: Table 6, "Hardware implementation of random number generation part on ZCU102 FPGA".
PEZO_TABLE_6: dict[str, dict[str, float]] = {
    "ZCU102 available": {"lut": 274080, "ff": 548160, "bram": 150},
    "MeZO": {"lut": 133120, "ff": 69632, "power_w": 4.474, "fmax_mhz": 500},
    "Ours Pre-gen": {"ff": 16, "bram": 8, "power_w": 2.104, "fmax_mhz": 700},
    "Ours O-t-F (RoBERTa)": {"lut": 32, "ff": 449, "bram": 1, "power_w": 0.608, "fmax_mhz": 700},
    "Ours O-t-F (OPT)": {"lut": 32, "ff": 512, "bram": 1, "power_w": 0.626, "fmax_mhz": 700},
}

#: Table 3, accuracy in percent of RoBERTa-large on SST-2 with k samples per class.
PEZO_TABLE_3: dict[str, dict[str, float]] = {
    "Gaussian": {"accuracy_k16": 90.4, "accuracy_k256": 93.1},
    "Rademacher (+1, -1)": {"accuracy_k16": 51.9, "accuracy_k256": 50.5},
    "Uniform": {"accuracy_k16": 51.2, "accuracy_k256": 49.5},
    "Ours": {"accuracy_k16": 90.7, "accuracy_k256": 92.9},
}

#: Reference row of Table 3 for each perturbation source of the demonstration.
DEMO_REFERENCES = {
    "gaussian": "Gaussian",
    "rademacher": "Rademacher (+1, -1)",
    "unscaled": "Uniform",
    "on-the-fly": "Ours",
    "pre-generated": "Ours",
}

#: Source and rows of each table.
TABLES: dict[str, tuple[str, dict[str, dict[str, float]]]] = {
    "Table 3": (PEZO, PEZO_TABLE_3),
    "Table 6": (PEZO, PEZO_TABLE_6),
    "SeedLM, Table 4": (SEEDLM, SEEDLM_TABLE_4),
    "SeedLM, Table 5": (SEEDLM, SEEDLM_TABLE_5),
    "InstantFT, section 5": (INSTANTFT, INSTANTFT_5),
}

#: The paper's matrix-vector product: blocks of 4 bits per weight, 64 bytes per beat.
GEMV = {
    **{"beat_bits": 512, "block": 8, "latent": 3, "width": 16, "word_bits": 16},
    **{"decode": "seedlm", "vectors": 1, "entries": None},
}

#: References of synthesized designs: core, required parameters, table, row.
REFERENCES: list[tuple[str, dict[str, Any], str, str]] = [
    (core, {"lanes": 31, "width": width} | extra, "Table 6", row)
    for core, extra in (("urng_array", {"leap": 1}), ("perturbation", {"source": "urng"}))
    for width, row in ((8, "Ours O-t-F (RoBERTa)"), (14, "Ours O-t-F (OPT)"))
] + [
    ("perturbation", {"source": "pool"}, "Table 6", "Ours Pre-gen"),
    ("prng_pool", {}, "Table 6", "Ours Pre-gen"),
    ("tree_grng", {"instances": 1024, "lfsrs": "published"}, "Table 6", "MeZO"),
    (
        "seedlm_decompress",
        {"blocks": 16, "block": 8, "latent": 3, "width": 16},
        "SeedLM, Table 4",
        "LSFR Decompress PreMAC",
    ),
    ("mac_array", {"lanes": 128, "blocks": 16}, "SeedLM, Table 4", "MAC Block"),
    ("gemv", GEMV, "SeedLM, Table 4", "Total"),
]

#: Aims of the project: core, parameters, kind, target, and a relation by figure.
AIMS: list[tuple[str, dict[str, Any], str, str | None, dict[str, list]]] = [
    (
        "urng_array",
        {"lanes": 31, "width": 8, "leap": 1, "seeding": "serial", "repair": False},
        "synthesis",
        "xcup",
        {"lut": ["<=", 36], "ff": ["<=", 260]},
    ),
    (
        "urng_array",
        {"lanes": 31, "width": 14, "leap": 1, "seeding": "serial", "repair": False},
        "synthesis",
        "xcup",
        {"lut": ["<=", 36], "ff": ["<=", 446]},
    ),
    *(
        ("urng_array", {"lanes": 31, "leap": 1}, "place", target, {"fmax_mhz": [">=", 300]})
        for target in ("ecp5", "ecp5-8")
    ),
    (
        "urng_array",
        {"width": 14, "leap": 14},
        "statistics",
        None,
        {"lane_autocorrelation": ["<", 0.01], "lane_to_lane": ["<", 0.01]}
        | {"generator_autocorrelation": ["<", 0.01]},
    ),
    (
        "urng_array",
        {"width": 8, "leap": 8},
        "statistics",
        None,
        {"lane_autocorrelation": ["<", 0.03], "lane_to_lane": ["<", 0.03]}
        | {"generator_autocorrelation": ["<", 0.03]},
    ),
    ("urng_array", {"width": 14}, "speed", None, {"seconds": ["<", 10]}),
    *(
        ("lutopt", {"lanes": 31, "width": 14, "seeding": "serial"}, kind, target, {name: aim})
        for kind, target, name, aim in (
            # 1.05 LUT a bit and 1.1 LUT4 a bit of 434.
            ("synthesis", "xcup", "lut", ["<=", 455]),
            ("synthesis", "ecp5", "lut", ["<=", 477]),
            ("place", "ecp5", "fmax_mhz", [">=", 300]),
        )
    ),
    (
        "lutopt",
        {"lanes": 31, "width": 14},
        "statistics",
        None,
        {"lane_autocorrelation": ["<", 0.01], "lane_to_lane": ["<", 0.01]}
        | {"any_pair": ["<", 0.01]},
    ),
    ("prng_pool", {"lanes": 8, "banks": 8}, "synthesis", "xcup", {"bram": ["<=", 8]}),
    ("perturbation", {"lanes": 31}, "ratio", "xcup", {"lut_per_lane_more": ["<=", 3]}),
    *(
        (
            "seedlm_decompress",
            {"blocks": 16, "block": 8, "latent": 3, "width": 16, "word_bits": word_bits},
            "synthesis",
            "xcup",
            {"lut": ["<=", lut * 128], "bram": ["<=", 0], "dsp": ["<=", 0]},
        )
        for word_bits, lut in ((16, 100), (8, 55))
    ),
    ("seedlm_decompress", {}, "place", "ecp5", {"fmax_mhz": [">=", 150]}),
    *(
        (
            "seedlm_decompress",
            {"block": block},
            "statistics",
            None,
            {"relative_error": ["<=", most]},
        )
        # Within 1 % of the errors of a full search: 0.123 and 0.226.
        for block, most in ((8, 0.1242), (12, 0.2283))
    ),
    ("seedlm_decompress", {}, "speed", None, {"times_literal": [">=", 100]}),
    (
        "gemv",
        GEMV,
        "cycles",
        None,
        {"cycles_512": ["<=", 2100], "cycles_1024": ["<=", 8250], "cycles_2048": ["<=", 32850]}
        | {f"speed_up_{side}": [">=", 3.95] for side in (512, 1024, 2048)},
    ),
    # A side path: at most 3 % more than the 18,703 LUTs of the engine without it, two multipliers,
    # 1 % more cycles.
    *(
        (
            "gemv",
            GEMV | {"entries": entries},
            "synthesis",
            "xcup",
            {"lut": ["<=", 19264], "dsp": ["<=", 130]},
        )
        for entries in (0, 4096)
    ),
    ("gemv", GEMV | {"entries": 0}, "cycles", None, {"tenth_percent_cycles_2048": ["<=", 33121]}),
    (
        "instantft",
        {"lanes": 32},
        "job",
        None,
        {"job_cycles": ["<=", 12e6], "pass_cycles": ["<=", 400]},
    ),
    (
        "zo_trainer",
        {"lanes": 32},
        "job",
        None,
        {"throughput_percent": [">=", 98], "writes_per_update": ["<=", 1]},
    ),
    ("demo zo", {"source": "on-the-fly"}, "demo", None, {"points_to_gaussian": [">=", -1]}),
    ("demo zo", {"source": "pre-generated"}, "demo", None, {"points_to_gaussian": [">=", -1]}),
]


def _matches(wanted: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    return all(params.get(name) == value for name, value in wanted.items())


def published(table: str, row: str) -> dict[str, Any]:
    """Return one row of a paper's table, in the format of a report row."""
    source, rows = TABLES[table]
    return {"source": source, "table": table, "row": row, "figures": dict(rows[row])}


def reference(
    core: str, params: Mapping[str, Any], kind: str, target: str | None
) -> dict[str, Any] | None:
    """Return the published reference of a measurement, or ``None``.

    The papers' devices, UltraScale+ and Virtex-7, have LUT6: only ``xcup`` is comparable.
    """
    if (core, kind) == ("gemv", "cycles") and _matches(GEMV, params):
        return published("SeedLM, Table 5", "SeedLM, Reference, Speed Up")
    if (core, kind) == ("instantft", "job"):
        found = published("InstantFT, section 5", "0.36 s at 200 MHz")
        if params.get("data") != "mnist":
            # Cycles do not depend on the images; accuracy does.
            del found["figures"]["accuracy_after"]
        return found
    for name, wanted, table, row in REFERENCES:
        if (name, kind, target) == (core, "synthesis", "xcup") and _matches(wanted, params):
            return published(table, row)
    return None


def demo_reference(source: str) -> dict[str, Any] | None:
    """Return the published accuracies of a source, for another network and task."""
    return published("Table 3", DEMO_REFERENCES[source]) if source in DEMO_REFERENCES else None


def aims(core: str, params: Mapping[str, Any], kind: str, target: str | None) -> dict[str, list]:
    """Return the aims for a measurement: relation and value, by figure."""
    found: dict[str, list] = {}
    for name, wanted, of_kind, of_target, figures in AIMS:
        if (name, of_kind, of_target) == (core, kind, target) and _matches(wanted, params):
            found |= figures
    return found
