"""Runs a case on two servers and says how they differ, if they do."""

import collections
import dataclasses
import decimal
import itertools
import re

import psycopg

from . import schema
from .sql import Sql

# Sums of floats depend on their order, and PostgreSQL's averages have more digits than others'.
DIGITS = 12
PRECISE = decimal.Context(prec=DIGITS)
# Fewer digits after the point are exact, not where a quotient ends.
FRACTION_LEAST = 4
# Seconds after which a statement says nothing about either server.
LONGEST = 10
STOPPED = "57014"
ROWS_SHOWN = 6
# What orders all rows stands at the end: ORDER BY within brackets is a window's.
ORDERED = re.compile(r" ORDER BY [^()]*$")


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back: rows or a count, or the class of an error."""

    rows: tuple | None = None
    count: int = 0
    state: str | None = None
    message: str = ""

    def shown(self, other: "Answer") -> str:
        """Of rows, those that the other has not; all if it has the same in another order."""
        if self.state:
            return self.message
        if self.rows is None:
            return f"{self.count} rows changed"
        own = collections.Counter(self.rows) - collections.Counter(other.rows or ())
        same = collections.Counter(self.rows) == collections.Counter(other.rows or ())
        rows = self.rows if same else own.elements()
        return f"{len(self.rows)} rows, among them {', '.join(map(str, itertools.islice(rows, ROWS_SHOWN)))}"


@dataclasses.dataclass(frozen=True)
class Difference:
    """The statement of a case that the servers answer differently."""

    at: int
    answers: tuple[Answer, Answer]

    @property
    def nature(self) -> tuple:
        """What a smaller case has to have in common with a larger one."""
        return tuple(each.state or "rows" for each in self.answers)

    def shown(self) -> tuple[str, str]:
        one, other = self.answers
        return one.shown(other), other.shown(one)


class Peer:
    """A connection to one of the two servers, and the tables there in their first state."""

    def __init__(self, environment: dict[str, str], seed: int):
        self.settings = {"host": environment["PGHOST"], "port": environment["PGPORT"], "user": environment["PGUSER"],
                         "password": environment["PGPASSWORD"], "dbname": environment["PGDATABASE"]}
        self.rows = schema.rows(seed)
        self._connect()
        for statement in [*schema.CREATE, *self.rows]:
            self.connection.execute(statement)

    def _connect(self) -> None:
        self.connection = psycopg.connect(**self.settings, autocommit=True)
        self.connection.execute(f"SET statement_timeout = '{LONGEST}s'")
        self.connection.execute("SET TimeZone = 'UTC'")

    def run(self, case: list[Sql], committed: bool) -> list[Answer]:
        """A case as one transaction that is undone, or statement by statement; leaves the tables as they were."""
        try:
            return self._committed(case) if committed else self._undone(case)
        except psycopg.OperationalError as lost:
            self._connect()
            return [Answer(state="08", message=str(lost).strip())]

    def _committed(self, case: list[Sql]) -> list[Answer]:
        try:
            return [self._answer(str(statement)) for statement in case]
        finally:
            if not self.connection.broken:
                self.connection.execute("SET TimeZone = 'UTC'")
                for statement in [*schema.EMPTY, *self.rows]:
                    self.connection.execute(statement)

    def _undone(self, case: list[Sql]) -> list[Answer]:
        answers = []
        self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        for statement in case:
            self.connection.execute("SAVEPOINT before")
            answers.append(self._answer(str(statement)))
            if answers[-1].state:
                self.connection.execute("ROLLBACK TO before")
        self.connection.execute("ROLLBACK")
        return answers

    def _answer(self, statement: str) -> Answer:
        # Both ways to ask and to answer, chosen by the statement so that a case repeats.
        binary = len(statement) % 2 == 0
        try:
            cursor = self.connection.cursor(binary=binary).execute(statement)
            if cursor.description is None:
                return Answer(count=cursor.rowcount)
            rows = tuple(tuple(map(plain, row)) for row in cursor.fetchall())
        except psycopg.Error as error:
            if self.connection.broken or error.sqlstate is None:
                raise
            return Answer(state=error.sqlstate if error.sqlstate == STOPPED else error.sqlstate[:2],
                          message=f"({error.sqlstate}) {error.diag.message_primary}")
        return Answer(rows if ORDERED.search(statement) else tuple(sorted(rows, key=repr)))


def plain(value):
    """Values that may differ in form alone, in one form: numbers without zeros at their end."""
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        return value
    number = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    if not number.is_finite():
        return str(number)
    if not isinstance(value, int):
        number = PRECISE.plus(number)
    digits = f"{number:f}"
    return Number(digits.rstrip("0").rstrip(".") if "." in digits else digits)


class Number(str):
    """A number's digits. One that ends earlier than another is the same if the other rounds to it: quotients and averages
    have as many digits as their server gives them.
    """

    def __eq__(self, other):
        return str.__eq__(self, other) or (isinstance(other, Number) and alike(self, other))

    __hash__ = str.__hash__


def alike(one: str, other: str) -> bool:
    one, other = decimal.Decimal(one), decimal.Decimal(other)
    least = min(-one.as_tuple().exponent, -other.as_tuple().exponent)
    if least < FRACTION_LEAST:
        return abs(one - other) <= max(abs(one), abs(other)).scaleb(-DIGITS)
    return abs(one - other) < decimal.Decimal(1).scaleb(-least)


def differ(peers: tuple[Peer, Peer], case: list[Sql], committed: bool) -> Difference | None:
    """The first statement whose answers are not the same."""
    answers = [peer.run(case, committed) for peer in peers]
    for at, (one, other) in enumerate(zip(*answers)):
        if STOPPED in (one.state, other.state):
            return None
        if (one.rows, one.count, one.state) != (other.rows, other.count, other.state):
            return Difference(at, (one, other))
    return None
