from seedbed.flow.registry import CORES
from seedbed.flow.report.jobs import plan


def test_every_core_is_mutated(tmp_path):
    """In one configuration, which 'seedbed mutate CORE' takes."""
    found = plan(tmp_path, kinds={"mutation"})
    assert [job.core for job in found] == list(CORES)
    assert not any(job.main for job in found)
