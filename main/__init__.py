"""RTL cores, generated from Python, for on-device training on FPGAs."""

from importlib.metadata import version

__version__ = version("seedbed")
