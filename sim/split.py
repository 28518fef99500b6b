"""Splits a design into smaller fragments, which Amaranth's simulator runs faster."""

from collections import defaultdict

from amaranth.hdl import Fragment

__all__ = ["split"]


def split(design: object) -> Fragment:
    """Elaborate ``design``, and split combinational statements by the signals that they drive.

    The simulator evaluates all combinational statements of a module whenever one of the module's
    inputs changes: several times a cycle in a large module. Here, the statements that drive the
    same signals become a fragment, in their order, which is evaluated only when one of *their*
    inputs changes. Large cores take two thirds of the time. The behaviour is the same; only the
    scopes in a waveform differ.
    """
    top = Fragment.get(design, None)
    waiting = [top]
    while waiting:
        fragment = waiting.pop()
        waiting += [inner for inner, _, _ in fragment.subfragments]
        # Memories and instances are fragments of other classes, which are left unchanged.
        if type(fragment) is Fragment:
            _split_comb(fragment)
    return top


def _split_comb(fragment: Fragment) -> None:
    parents: dict[int, int] = {}

    def root(signal: int) -> int:
        while parents.setdefault(signal, signal) != signal:
            signal = parents[signal]
        return signal

    statements = [
        ([id(signal) for signal in statement._lhs_signals()], statement)
        for statement in fragment.statements.pop("comb", ())
    ]
    for driven, _ in statements:
        for signal in driven:
            parents[root(signal)] = root(driven[0])
    groups = defaultdict(list)
    for driven, statement in statements:
        if driven:
            groups[root(driven[0])].append(statement)
        else:
            # Assertions, for example, drive nothing.
            fragment.add_statements("comb", statement)
    for group in groups.values():
        part = Fragment(src_loc=fragment.src_loc)
        part.add_statements("comb", group)
        fragment.add_subfragment(part)
