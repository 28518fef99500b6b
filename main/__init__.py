"""RTL cores, generated from Python, for on-device training on FPGAs."""

__version__: str


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Loaded when it is asked for: the command line is interrupted with one line from its start on.
    from importlib.metadata import version

    return version("seedbed")
