"""After every error, a good job whose data comes in the cycle of its command is complete."""

from random import Random

import numpy as np
import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases import sparse_mac, sparse_trainer, zo_trainer
from seedbed.sim.harness import Stalls, simulate

ONE = {"samples": 1, "epochs": 1, "batch": 1}


def of_zo_trainer(config):
    rng = np.random.default_rng(1)
    model = zo_trainer.drawn(config, rng)
    schedule = [(0, 3, 4, 5)]
    image = rng.integers(0, 256, config.layers[0].inputs)
    short = zo_trainer.sample_payloads(config, image, 0, rng, config.image_beats - 1)
    words = zo_trainer.word_payloads(config, model.words())
    loads = [Phase(inputs={"i_parameters": words})]
    loads.append(Phase(inputs={"i_schedule": zo_trainer.schedule_payloads(config, schedule)}))

    def failed(kind, name, sent=(), **fields):
        inputs = {"i": [zo_trainer.job(config, kind, **ONE | fields)], "i_samples": [*sent]}
        return Phase(inputs=inputs, outputs={"o_status": [zo_trainer.status(kind, name)]})

    broken = [
        failed("train", "sample", short),
        failed("train", "command", batch=0),
        failed("infer", "command", samples=0),
        failed("infer", "sample", short),
    ]
    phases = [failed("infer", "parameters"), *loads]
    for fault in broken:
        run = zo_trainer.training(model, rng, samples=1, batch=1, schedule=schedule)[1]
        phases += [fault, run, fault, zo_trainer.classified(model, rng, 1)]
    return [*phases, zo_trainer.read_out(model)]


def of_sparse_trainer(config):
    rng = np.random.default_rng(1)
    model = sparse_trainer.drawn(config, rng, (18, 14, 5))
    phases = [*sparse_trainer.load(model)]
    long = sparse_trainer.sample_payloads(config, np.ones(18, int), 0, beats=9)

    def failed(kind, name, inputs, **fields):
        inputs = {"i": [sparse_trainer.job(config, kind, **ONE | fields)], **inputs}
        return Phase(inputs=inputs, outputs={"o_status": [sparse_trainer.status(kind, name)]})

    entries = sparse_trainer.entry_payloads(config, np.vstack([model.entries(0)[[0, 0]]]))
    for fault in (
        failed("train", "sample", {"i_samples": long}),
        failed("train", "command", {}, samples=0),
        failed("load", "repeated", {"i_entries": entries}),
    ):
        load = sparse_trainer.load(model, table=False)
        run = sparse_trainer.training(model, rng, samples=1, batch=1, rate=60000, shift=2)
        phases += [fault, *load, fault, *(load if "i_entries" in fault.inputs else []), run]
    return [*phases, sparse_trainer.read_out(model)]


def of_sparse_mac(config):
    return [
        phase
        for phase in sparse_mac.case(config, Random(7), apart=False).phases
        if phase.inputs or phase.outputs
    ]


PHASES = {
    "zo_trainer": of_zo_trainer,
    "sparse_trainer": of_sparse_trainer,
    "sparse_mac": of_sparse_mac,
}


# Inputs without pauses: all that a phase sends is offered in its first cycle.
@pytest.mark.parametrize("stalls", [Stalls.NONE, Stalls.READY])
@pytest.mark.parametrize("name", PHASES)
def test_data_that_comes_with_its_command_is_kept(name, stalls):
    core = CORES[name]
    config = core.configure(core.small)
    case = Case(phases=PHASES[name](config), quiet=True)
    simulate(core.component(config), case, stalls=stalls, seed=7)
