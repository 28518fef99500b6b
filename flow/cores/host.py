"""The link to a host: bytes, frames and words."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.host.host_link import HostLink
from seedbed.sim.cases import host_link

__all__ = ["CORES"]

CORES = [
    Core(
        name="host_link",
        title="Host link: frames of bytes to registers and a stream of words",
        config=spec.HostLinkConfig,
        component=HostLink,
        case=host_link.case,
        paper="-",
    ),
]
