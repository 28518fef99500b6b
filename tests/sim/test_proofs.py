from pathlib import Path

import pytest
from amaranth.hdl import Assert, Assume, Cover, Fragment

from seedbed.flow.cores.registry import CORES
from seedbed.hw.generators.lfsr import Lfsr
from seedbed.sim.proofs import PROOFS
from seedbed.sim.proofs.bench import free_inputs, stream_rules
from seedbed.sim.prove import Mutant, Proof, ProofFailed, check
from seedbed.spec import LfsrConfig

#: Cores without a proof that takes seconds.
LONG = {"conv_engine"}
#: One proof of each other core, of its numbers or their order; `make formal`, which CI calls, does
#: all.
SAMPLE = (
    "lfsr_words_8", "urng_array_replay_serial_3x4", "lutopt_restore_4x4", "scale_lut_table_3x5",
    "prng_pool_windows_5x4", "perturbation_replay_urng", "tree_grng_stream_published",
    "skid_buffer_beats", "seedlm_decompress_beats_5x1", "trellis_decompress_3x6",
    "lut_dequantize_tables",
    "mac_array_sums_2x2", "gemv_jobs", "sparse_mac_rows", "nf4_peaks_2x2",
    "vector_unit_results", "stream_engine_bursts", "softmax_loss_best", "requantize_nearest",
    "loss_sign_passes",
    "weight_perturb_replay", "forward_cache_bursts", "lora_outer_products", "instantft_packets",
    "bp_tail_rows",
    "zo_trainer_update", "sparse_trainer_walk", "stream_trainer_sample",
    "host_link_commands", "sdram_progress",
)  # fmt: skip
PROVEN = [proof for proof in PROOFS if proof.name in SAMPLE]
RUNS_ON = Mutant("runs on", "with m.If(self.o.ready):", "with m.If(1):")
HARMLESS = Mutant("harmless", "with m.If(self.o.ready):", "with m.If(self.o.ready!=0):")


@pytest.mark.parametrize("proof", PROVEN, ids=lambda proof: proof.name)
def test_proven(proof, tmp_path):
    (result,) = check([proof], tmp_path)
    assert result["status"] == "proven"
    assert result["covers_reached"] > 0
    assert result["mutants_killed"] == [mutant.name for mutant in proof.mutants]


def test_names():
    names = [proof.name for proof in PROOFS]
    assert len(set(names)) == len(names)
    assert [proof.core for proof in PROVEN] == [name for name in CORES if name not in LONG]


def rules(dut, *, never=False, wrong=False, assume=False):
    m, _ = free_inputs(dut)
    stream_rules(m, dut.o)
    with m.If(dut.i_seed.valid):
        m.d.comb += Assume(dut.i_seed.payload != 0)
    if never:
        m.d.comb += Cover(dut.o.payload == 0)
    if wrong:
        m.d.comb += Assert(dut.o.payload[0])
    if assume:
        m.d.comb += Assume(dut.o.payload == 0)
    return m


@pytest.mark.parametrize(
    ("harness", "mutants", "why"),
    [
        (rules, (RUNS_ON, HARMLESS), "mutant survives: harmless"),
        (rules, (), "no mutant"),
        (lambda dut: rules(dut, never=True), (RUNS_ON,), "covers: FAIL"),
        (lambda dut: rules(dut, wrong=True), (RUNS_ON,), "induction: FAIL"),
        (lambda dut: rules(dut, assume=True), (RUNS_ON,), "covers: FAIL, 0 reached"),
        (lambda dut: free_inputs(dut)[0], (RUNS_ON,), "covers: "),
    ],
    ids=["survivor", "no mutant", "unreached", "false", "contradiction", "empty"],
)
def test_not_proven(harness, mutants, why, tmp_path):
    """Whatever would make a proof worthless makes it fail."""
    proof = Proof(
        name="lfsr",
        says="Something.",
        component=Lfsr,
        config=LfsrConfig(width=4),
        harness=harness,
        reach=4,
        mutants=mutants,
    )
    with pytest.raises(ProofFailed, match=rf"^lfsr: .*{why}"):
        check([proof], tmp_path)


def test_mutant_must_fit():
    with pytest.raises(ValueError, match="must hold 'no such text' once, not 0 times"):
        Mutant("x", "no such text", "").apply(Lfsr)


def test_every_mutant_applies():
    """The sample above applies the mutants of a few proofs only."""
    for proof in PROOFS:
        for mutant in proof.mutants:
            mutant.apply(proof.component)


def test_every_harness_finds_its_signals():
    """A register that was renamed is noticed here, not only in `make formal`."""
    for proof in PROOFS:
        Fragment.get(proof.harness(proof.component(proof.config)), None)


def test_documented():
    """docs/formal.md has every statement, and none that is not proven."""
    page = Path(__file__).parents[2] / "docs" / "formal.md"
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| `")]
    assert {(row[0].strip("| `"), row[1]) for row in rows} == {(p.core, p.says) for p in PROOFS}
