"""Combinational paths: what the pages list is what the designs have."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.cores.settings import read
from seedbed.flow.emit.paths import handshake_paths, listed

ALL = CORES | WRAPPERS


def paths(key, **params):
    name, *settings = key.split()
    core = ALL[name]
    return handshake_paths(core.component(core.configure({**params, **read(core, settings)})))


@pytest.mark.parametrize("key", listed())
def test_the_paths_on_the_pages_are_those_of_the_design(key):
    """They are the same in the small configuration, which takes seconds."""
    assert paths(key, **ALL[key.split()[0]].small) == dict(listed()[key])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, core in ALL.items() if core.small])
def test_the_paths_of_the_default_are_those_of_the_small_configuration(name):
    assert paths(name) == dict(listed()[name])


def test_every_core_is_listed():
    assert {key.split()[0] for key in listed()} == set(ALL)


def test_no_valid_waits_for_ready():
    """Of all cores: this is a rule of streams that a test with random pauses may miss."""
    outputs = {port for found in listed().values() for port in found}
    assert not {port for port in outputs if port.endswith("valid")}


class Passes(wiring.Component):
    """One stream through a register, one past it, and a ready that knows the first one's valid."""

    def __init__(self):
        flow = stream.Signature(2)
        super().__init__({"a": In(flow), "b": In(flow), "c": Out(flow), "d": Out(flow)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.c.valid.eq(self.a.valid)
        m.d.comb += [
            self.a.ready.eq(self.c.ready | ~self.c.valid),
            self.d.valid.eq(self.b.valid & self.b.payload[1]),
            self.b.ready.eq(self.d.ready & ~self.a.valid),
        ]
        return m


def test_a_path_is_found_over_logic_and_ends_at_a_register():
    assert handshake_paths(Passes()) == {
        "a_ready": ["c_ready"],
        "b_ready": ["a_valid", "d_ready"],
        "d_valid": ["b_payload", "b_valid"],
    }
