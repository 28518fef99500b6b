"""Takes a design apart, so that Amaranth's simulator has less to do."""

from collections import defaultdict

from amaranth.hdl import Fragment

__all__ = ["apart"]


def apart(design: object) -> Fragment:
    """Elaborate ``design``, and part combinational statements that drive nothing in common.

    The simulator evaluates all combinational statements of a module whenever one of its inputs has
    changed: a large module several times a cycle. Here, those that drive the same signals become a
    fragment, in their order, and are evaluated when one of *their* inputs has changed: large cores
    take two thirds of the time. What each signal is driven by stays the same; only scopes of a
    waveform are others.
    """
    top = Fragment.get(design, None)
    waiting = [top]
    while waiting:
        fragment = waiting.pop()
        waiting += [inner for inner, _, _ in fragment.subfragments]
        # Memories and instances are fragments of their own kinds, and stay what they are.
        if type(fragment) is Fragment:
            _part(fragment)
    return top


def _part(fragment: Fragment) -> None:
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
            # Assertions and the like.
            fragment.add_statements("comb", statement)
    for group in groups.values():
        part = Fragment(src_loc=fragment.src_loc)
        part.add_statements("comb", group)
        fragment.add_subfragment(part)
