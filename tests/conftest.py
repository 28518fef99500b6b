from seedbed.sim.tools import setup_environment

setup_environment()
