"""Differences from PostgreSQL that are meant, each with its reason."""

import re

from .compare import Difference

# What the last statement of a smallest case matches, how the two answer (state class or "rows"), and why it is so.
KNOWN: list[tuple[str, tuple[str, str], str]] = [
    (r"first_value\('", ("rows", "42"), "a text literal is text, where PostgreSQL has not decided yet"),
    (r"^UPDATE \w+ SET .*\b(id|item|tag) = ", ("rows", "23"), "uniqueness is checked at the end of a statement, so rows may swap keys"),
    (r"^INSERT INTO ", ("22", "23"), "values are read before keys are looked for, of all rows of an INSERT"),
    (r" IN \(\(SELECT ", ("42", "rows"), "the parser takes a subquery first in an IN list for the list itself"),
]


def reason(statement: str, difference: Difference) -> str | None:
    """Why the servers may differ here; `None` if nobody knows."""
    for pattern, nature, why in KNOWN:
        if re.search(pattern, statement) and difference.nature == nature:
            return why
    return None
