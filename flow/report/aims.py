"""Comparison of measured figures with the project's aims."""

from collections.abc import Callable

from seedbed.flow.report.table import (
    HEADINGS,
    JsonRow,
    Table,
    data_set,
    design,
    format_figure,
    from_columns,
    seeds,
)  # fmt: skip

__all__ = ["aims_table", "summary"]

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
}


def _measured_aims(rows: list[JsonRow]) -> list[tuple[JsonRow, str, float, str, float]]:
    """Return row, figure, value, relation and limit of each measured figure that has an aim."""
    return [
        (row, name, row["figures"][name], relation, limit)
        for row in rows
        for name, (relation, limit) in row["aim"].items()
        if name in row["figures"]
    ]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


#: Names of the checks in the summary, by the kind of the row.
CHECKS = {"simulation": "simulation", "cocotb": "run in cocotb", "proof": "proof"}


def summary(rows: list[JsonRow]) -> str:
    """Return the number of checked cores, the checks by kind, and the missed aims, as text."""
    # Rows of demonstrations belong to no core.
    cores = {row["core"] for row in rows if not row["core"].startswith("demo ")}
    counts = {kind: sum(row["kind"] == kind for row in rows) for kind in CHECKS}
    parts = [_counted(count, CHECKS[kind]) for kind, count in counts.items() if count]
    text = f"Measured: {_counted(len(cores), 'core')}: {_counted(sum(counts.values()), 'check')}"
    text += f" ({', '.join(parts)})." if parts else "."
    aims = _measured_aims(rows)
    if not aims:
        return f"{text} No aim was measured."
    missed = [
        f"{row['core']} {row['config']}{' on ' + row['target'] if row['target'] else ''}, "
        f"{HEADINGS[name]}: {format_figure(value)}, not {relation} {limit:g}"
        for row, name, value, relation, limit in aims
        if not RELATIONS[relation](value, limit)
    ]
    text += f" Of {_counted(len(aims), 'aim')}, {len(aims) - len(missed)} met, {len(missed)} missed"
    return f"{text}: {'; '.join(missed)}." if missed else f"{text}."


def aims_table(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return a line for each figure with an aim: the value, the aim, and met or missed."""
    aims = _measured_aims(rows)
    if not aims:
        return None
    return from_columns(title, text, [
        ("design", [f"{row['core']} {design(row)}" for row, *_ in aims]),
        ("target", [row["target"] or "" for row, *_ in aims]),
        ("data", [data_set(row) for row, *_ in aims]),
        ("seeds", [seeds(row) for row, *_ in aims]),
        ("figure", [HEADINGS[name] for _, name, *_ in aims]),
        ("measured", [format_figure(value) for _, _, value, *_ in aims]),
        ("aim", [f"{relation} {limit:g}" for *_, relation, limit in aims]),
        ("", [
            "met" if RELATIONS[relation](value, limit) else "missed"
            for *_, value, relation, limit in aims
        ]),
    ])  # fmt: skip
