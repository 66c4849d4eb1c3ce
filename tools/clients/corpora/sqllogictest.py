"""Files of SQLite's sqllogictest: https://www.sqlite.org/sqllogictest/doc/trunk/about.wiki."""

import collections
import hashlib
import pathlib
import random
import re
from collections.abc import Iterator

import psycopg
from psycopg.pq import ExecStatus

FINE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
HASHED = re.compile(r"(\d+) values hashing to (\w+)")
# What a file leaves behind.
RELATIONS = """SELECT format('DROP %s IF EXISTS %I CASCADE', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, relname)
FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v') ORDER BY relkind DESC"""


def run(saki, arguments) -> int:
    files = sorted(path for path in arguments.directory.rglob("*.test") if arguments.only in str(path))
    counted = collections.Counter()
    chosen = random.Random(1)
    here = saki.environment()
    where = {"host": here["PGHOST"], "port": here["PGPORT"], "user": here["PGUSER"], "password": here["PGPASSWORD"], "dbname": here["PGDATABASE"]}
    with arguments.report.open("w") as report, psycopg.connect(**where, autocommit=True) as connection:
        for file in files:
            for drop, in connection.execute(RELATIONS).fetchall():
                connection.execute(drop)
            for words, sql, expected in records(file):
                if words[0] == "query" and chosen.random() >= arguments.share:
                    continue
                result = connection.pgconn.exec_(sql.encode())
                outcome = judge(words, expected, result)
                counted[outcome] += 1
                if outcome != "fine":
                    said = result.error_message.decode().strip() or f"expected {expected[:8]}"
                    report.write(f"{outcome}: {file}\n{sql}\n  {said}\n")
    print(", ".join(f"{outcome}: {count}" for outcome, count in sorted(counted.items())), f"({arguments.report})")
    return 1 if counted["wrong"] else 0


def records(path: pathlib.Path) -> Iterator[tuple[list[str], str, list[str]]]:
    """The statements and queries for PostgreSQL: their first line's words, the text, and the lines of the answer."""
    for block in path.read_text(errors="replace").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        is_ours = True
        while lines and lines[0].split()[0] in ("skipif", "onlyif"):
            condition, system = lines.pop(0).split()[:2]
            is_ours &= (condition == "skipif") != (system == "postgresql")
        if not lines or not is_ours:
            continue
        words, rest = lines[0].split(), lines[1:]
        if words[0] == "halt":
            return
        if words[0] in ("statement", "query"):
            end = rest.index("----") if "----" in rest else len(rest)
            yield words, "\n".join(rest[:end]), rest[end + 1 :]


def judge(words: list[str], expected: list[str], result) -> str:
    is_fine = result.status in FINE
    if words[0] == "statement":
        return "fine" if is_fine == (words[1] == "ok") else "refused" if words[1] == "ok" else "accepted"
    if not is_fine:
        return "refused"
    columns = range(result.nfields)
    rows = [[shown(result.get_value(row, column), words[1][column : column + 1]) for column in columns] for row in range(result.ntuples)]
    order = words[2] if len(words) > 2 else "nosort"
    values = [value for row in (sorted(rows) if order == "rowsort" else rows) for value in row]
    if order == "valuesort":
        values.sort()
    hashed = HASHED.match(expected[0]) if expected else None
    if hashed:
        digest = hashlib.md5("".join(value + "\n" for value in values).encode()).hexdigest()
        return "fine" if (str(len(values)), digest) == hashed.groups() else "wrong"
    # Answers have a value or a row on each line.
    return "fine" if expected == values or " ".join(expected).split() == " ".join(values).split() else "wrong"


def shown(value: bytes | None, kind: str) -> str:
    """A value as the files have it."""
    if value is None:
        return "NULL"
    text = value.decode()
    try:
        if kind == "I":
            return text if text.lstrip("-").isdigit() else str(int(float(text)))
        if kind == "R":
            return f"{float(text):.3f}"
    except ValueError:
        return "0" if kind == "I" else "0.000"
    return "".join(letter if " " <= letter <= "~" else "@" for letter in text) or "(empty)"
