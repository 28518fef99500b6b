"""Sentences with one of two classes: the sets of a folder, and the embedded ones."""

import csv
from collections.abc import Iterator
from pathlib import Path

__all__ = ["EMBEDDED", "read"]

#: A sentence and its class: 0, negative, or 1, positive.
Labelled = tuple[str, int]
#: The least magnitude of a rating that says a class.
RATING = 1.0

#: Two small sets, of films and of things, so that the demonstration runs without data.
EMBEDDED: dict[str, list[Labelled]] = {
    "films": [
        *((text, 1) for text in (
            "a warm and funny film from start to end",
            "the cast is wonderful and the story moves",
            "one of the best films of the year",
            "a clever plot with a moving end",
            "great music and lovely pictures",
            "i laughed and cried and want to see it again",
            "a brilliant first film by a young director",
            "the dialogue is sharp and the jokes are good",
            "beautiful and honest in every scene",
            "a delight for children and parents",
            "the actors are superb",
            "a charming story that is told with care",
            "exciting from the first minute to the last",
            "a strong film with a good heart",
            "fresh and full of wonderful ideas",
            "the best role of her life",
            "a thrilling and clever film",
            "it made me happy for days",
            "rich characters and a superb script",
            "a lovely film about friendship",
            "the end is perfect",
            "funny and moving and never dull",
            "an excellent film with great actors",
            "a gem that everyone should see",
        )),
        *((text, 0) for text in (
            "a dull and tired film from start to end",
            "the cast is wasted and the story goes nowhere",
            "one of the worst films of the year",
            "a silly plot with a weak end",
            "loud music and ugly pictures",
            "i was bored and left before the end",
            "a poor first film by a careless director",
            "the dialogue is flat and the jokes are stale",
            "false and clumsy in every scene",
            "a pain for children and parents",
            "the actors are awful",
            "a confused story that is told without care",
            "boring from the first minute to the last",
            "a weak film without a heart",
            "stale and without any ideas",
            "the worst role of her life",
            "a slow and stupid film",
            "it made me angry for days",
            "thin characters and an awful script",
            "a bad film about nothing",
            "the end is a mess",
            "sad and slow and always dull",
            "a terrible film with bad actors",
            "a failure that nobody should see",
        )),
    ],
    "things": [
        *((text, 1) for text in (
            "a wonderful radio with clear sound",
            "the shoes are lovely and strong",
            "it works and i am happy",
            "the best lamp that we ever had",
            "great coffee and a good price",
            "the battery is excellent",
        )),
        *((text, 0) for text in (
            "an awful radio with weak sound",
            "the shoes are ugly and thin",
            "it broke and i am angry",
            "the worst lamp that we ever had",
            "stale coffee and a bad price",
            "the battery is terrible",
        )),
    ],
}  # fmt: skip


def read(folder: Path) -> dict[str, list[Labelled]]:
    """Return the sets of a folder, by name.

    ``*.csv`` has the columns ``text`` and ``label``, 0 or 1, and perhaps ``source``, whose values
    are then the names of sets; otherwise a set has the name of its file. ``*.txt`` has lines of a
    number, a rating and a text, with tabs between them; a rating of 1 or more is positive, of -1 or
    less negative, and others are left out.

    Raises ``ValueError`` for a folder without sentences, or a file of another form.
    """
    found: dict[str, list[Labelled]] = {}
    for path in sorted([*folder.glob("*.csv"), *folder.glob("*.txt")]):
        try:
            for name, each in (_of_csv if path.suffix == ".csv" else _of_ratings)(path):
                found.setdefault(name, []).append(each)
        except UnicodeDecodeError as problem:
            raise ValueError(f"{path} is no text in UTF-8") from problem
        except csv.Error as problem:
            raise ValueError(f"{path} is no table: {problem}") from problem
    if not found:
        raise ValueError(f"{folder} has no file *.csv or *.txt with sentences")
    return found


def _of_csv(path: Path) -> Iterator[tuple[str, Labelled]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if not {"text", "label"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{path} must have the columns text and label")
        for row in rows:
            if row["label"] not in ("0", "1"):
                raise ValueError(
                    f"{path}, line {rows.line_num}: the label must be 0 or 1, not {row['label']!r}"
                )
            yield row.get("source") or path.stem, (row["text"] or "", int(row["label"]))


def _of_ratings(path: Path) -> Iterator[tuple[str, Labelled]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        parts = line.split("\t", 2)
        try:
            rating, text = float(parts[1]), parts[2]
        except (IndexError, ValueError) as problem:
            raise ValueError(
                f"{path}, line {number}: there must be a number, a rating and a text, with tabs "
                "between them"
            ) from problem
        if abs(rating) >= RATING:
            yield path.stem, (text, int(rating > 0))
