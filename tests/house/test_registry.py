# amaranth: UnusedElaboratable=no
import pytest
from amaranth.hdl import Elaboratable

from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.report.jobs import plan


def test_every_core_is_mutated(tmp_path):
    """In one configuration, which 'seedbed mutate CORE' takes."""
    found = plan(tmp_path, kinds={"mutation"})
    assert [job.core for job in found] == list(CORES)
    assert not any(job.main for job in found)


@pytest.mark.parametrize("core", [*CORES.values(), *WRAPPERS.values()], ids=lambda core: core.name)
def test_parts_are_built_when_a_core_is_elaborated(core):
    """So that its ports are known without them, and none is left unused."""
    component = core.component(core.configure(core.small))
    held = [value if isinstance(value, list) else [value] for value in vars(component).values()]
    assert not [part for values in held for part in values if isinstance(part, Elaboratable)]
