"""Statements as trees, so that one that shows a difference can be made smaller."""

import dataclasses
from collections.abc import Iterator

# A clause may be left out, of a list all items but one; everything else is an expression of that type.
CLAUSE, LIST, FIXED = "clause", "list", "fixed"
SIMPLEST = {
    "int": "1", "numeric": "1.5", "float": "1.5::float8", "text": "'a'", "date": "DATE '2024-01-31'",
    "timestamp": "TIMESTAMP '2024-01-31 12:00:00'", "bool": "true",
    "timestamptz": "TIMESTAMPTZ '2024-01-31 12:00:00+00'", "interval": "INTERVAL '1 day'",
}


@dataclasses.dataclass(frozen=True)
class Sql:
    """Text with trees in it."""

    kind: str
    parts: tuple

    def __str__(self) -> str:
        if self.kind == LIST:
            return ", ".join(map(str, self.parts))
        return "".join(map(str, self.parts))

    def within(self) -> Iterator["Sql"]:
        """All trees below this one."""
        for part in self.parts:
            if isinstance(part, Sql):
                yield part
                yield from part.within()

    def smaller(self) -> Iterator["Sql"]:
        """Trees of the same kind with less in them; the smallest first."""
        if self.kind == CLAUSE and self.parts:
            yield Sql(CLAUSE, ())
        if self.kind == LIST and len(self.parts) > 1:
            yield from (Sql(LIST, self.parts[:at] + self.parts[at + 1:]) for at in range(len(self.parts)))
        if self.kind in SIMPLEST and str(self) != SIMPLEST[self.kind]:
            yield Sql(self.kind, (SIMPLEST[self.kind],))
            yield from sorted((below for below in self.within() if below.kind == self.kind), key=lambda found: len(str(found)))
        for at, part in enumerate(self.parts):
            if isinstance(part, Sql):
                yield from (Sql(self.kind, (*self.parts[:at], less, *self.parts[at + 1:])) for less in part.smaller())


def fixed(*parts) -> Sql:
    return Sql(FIXED, parts)


def clause(*parts) -> Sql:
    return Sql(CLAUSE, parts)


def listed(parts) -> Sql:
    return Sql(LIST, tuple(parts))
