from seedbed.flow.jobs import plan
from seedbed.flow.registry import CORES


def test_every_core_is_mutated(tmp_path):
    """In one configuration, which 'seedbed mutate CORE' takes."""
    found = plan(tmp_path, kinds={"mutation"})
    assert [job.core for job in found] == list(CORES)
    assert not any(job.main for job in found)
