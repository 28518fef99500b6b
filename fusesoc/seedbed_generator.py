# FuseSoC generator of seedbed 0.2.0: seedbed_generator.py INPUT.yml
"""Writes the files of a core to the current folder, as FuseSoC asks for them."""

import sys

try:
    import yaml

    from seedbed.flow.emit.fusesoc import generate
    from seedbed.sim.tools import setup_environment
except ModuleNotFoundError as problem:
    sys.exit(f"error: {problem.name} is not installed: pip install 'seedbed[projects]' brings it")

try:
    setup_environment()
    with open(sys.argv[1]) as file:
        generate(yaml.safe_load(file))
except (OSError, RuntimeError, TypeError, ValueError) as problem:
    sys.exit(f"error: {problem}")
