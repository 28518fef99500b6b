"""RTL cores, generated from Python, with which a small FPGA learns."""

from importlib.metadata import version

__version__ = version("seedbed")
