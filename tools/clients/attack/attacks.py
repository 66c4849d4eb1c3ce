"""The attacks, each with what it may be answered: `rows`, an SQLSTATE, or `lost` where the connection ends for it."""

import dataclasses
from collections.abc import Callable

ROWS, DEEP, FULL, LATE, LARGE = "rows", "54001", "53200", "57014", "54000"
SETUP = [
    "CREATE TABLE numbers (id bigint PRIMARY KEY, v bigint, t text)",
    "INSERT INTO numbers SELECT value, value % 7, 'text' FROM generate_series(1, 20000) s(value)",
    "CREATE TABLE wide (id bigint PRIMARY KEY, t text)",
    "CREATE TABLE taken (id bigint PRIMARY KEY, v text)",
]


@dataclasses.dataclass(frozen=True)
class Attack:
    """A statement, or what is done over a connection, and its answers."""

    name: str
    does: str | Callable
    answers: set[str]
    # Before it, over the same connection; may fail.
    first: tuple[str, ...] = ()
    # After it, whatever came of it.
    last: tuple[str, ...] = ()


def chains(terms: int, answers: set[str]):
    """Long flat lists, as programs write them."""
    def attack(name, sql):
        return Attack(f"{terms} of {name}", sql, answers)

    def joined(by, term="1"):
        return by.join([term] * terms)

    yield attack("+", f"SELECT {joined(' + ')}")
    yield attack("+ of columns", f"SELECT {joined(' + ', 'v')} FROM numbers WHERE id < 10")
    yield attack("* of floats", f"SELECT {joined(' * ', '1.0::float8')}")
    yield attack("||", "SELECT " + joined(" || ", "'a'"))
    yield attack("|| of columns", f"SELECT {joined(' || ', 't')} FROM numbers WHERE id < 10")
    yield attack("OR", "SELECT count(*) FROM numbers WHERE " + " OR ".join(f"v = {n} AND id > {n}" for n in range(terms)))
    yield attack("OR of equals", "SELECT count(*) FROM numbers WHERE " + " OR ".join(f"id = {n}" for n in range(terms)))
    yield attack("AND", "SELECT count(*) FROM numbers WHERE " + " AND ".join(f"v <> {-n - 1}" for n in range(terms)))
    yield attack("UNION ALL", joined(" UNION ALL ", "SELECT 1"))
    yield attack("UNION", joined(" UNION ", "SELECT 1"))
    yield attack("casts", "SELECT 1" + "::int" * terms)
    yield attack("IS NULL", "SELECT 1" + " IS NULL" * terms)
    yield attack("= any", "SELECT true" + " = true" * terms)
    yield Attack(f"{terms} of subscripts", "SELECT (ARRAY[1])" + "[1]" * terms, answers | {"42883"})
    # Calls within each other, which the planner takes the square of their number for.
    yield Attack(f"{terms} of AT TIME ZONE", "SELECT now()" + " AT TIME ZONE 'UTC'" * terms, answers | ({LATE} if terms > 1000 else set()))
    yield attack("WHEN", "SELECT CASE v " + " ".join(f"WHEN {n} THEN {n}" for n in range(terms)) + " END FROM numbers WHERE id < 10")
    yield attack("arguments", "SELECT greatest(" + ", ".join(["1"] * terms) + ")")
    yield attack("VALUES", "SELECT count(*) FROM (VALUES " + ", ".join(f"({n})" for n in range(terms)) + ") v(n)")
    yield attack("columns", "SELECT " + ", ".join(f"v + {n}" for n in range(min(terms, 1600))) + " FROM numbers WHERE id = 1")
    yield attack("CTEs", "WITH a0 AS (SELECT 1 AS n)" + "".join(f", a{n + 1} AS (SELECT n FROM a{n})" for n in range(terms)) + f" SELECT * FROM a{terms}")


def nesting(depth: int):
    """What is within itself."""
    def attack(name, sql):
        return Attack(f"{depth} {name}", sql, {DEEP, "42601"})

    yield attack("brackets", f"SELECT {'(' * depth}1{')' * depth}")
    yield attack("brackets that stay open", f"SELECT {'(' * depth}1")
    yield attack("subqueries", f"SELECT * FROM {'(SELECT * FROM ' * depth}numbers{') q' * depth}")
    yield attack("scalar subqueries", f"SELECT {'(SELECT ' * depth}1{')' * depth}")
    yield attack("CASE", f"SELECT {'CASE WHEN true THEN ' * depth}1{' END' * depth}")
    yield attack("arrays", f"SELECT {'ARRAY[' * depth}1{']' * depth}")
    yield attack("array types", f"SELECT NULL::int{'[]' * depth}")
    yield attack("CAST", f"SELECT {'CAST(' * depth}1{' AS int)' * depth}")
    yield attack("NOT", f"SELECT {'NOT ' * depth}true")
    yield attack("minus", f"SELECT {'- ' * depth}1")
    yield attack("functions", f"SELECT {'abs(' * depth}1{')' * depth}")
    yield attack("EXPLAIN", f"{'EXPLAIN ' * depth}SELECT 1")


def texts():
    yield Attack("100 000 literals", "SELECT count(*) FROM numbers WHERE id IN (" + ", ".join(map(str, range(100_000))) + ")", {ROWS})
    yield Attack("10 MB of text", "SELECT length('" + "x" * (10 << 20) + "')", {ROWS, FULL})
    yield Attack("10 MB of +", "SELECT 1" + " + 1" * (10 << 18), {DEEP, FULL})
    yield Attack("10 MB of OR", "SELECT true" + " OR true" * (10 << 17), {DEEP, FULL})
    yield Attack("200 MB of text", "SELECT length('" + "x" * (200 << 20) + "')", {FULL, ROWS, "lost"})
    yield Attack("60 joined tables", "SELECT count(*) FROM " + ", ".join(f"numbers n{n}" for n in range(60)) + " WHERE "
                 + " AND ".join(f"n{n}.id = n{n + 1}.id" for n in range(59)), {ROWS, DEEP, FULL})
    yield Attack("60 doubling CTEs", doubling(60), {DEEP, FULL})
    yield Attack("12 doubling CTEs", doubling(12), {DEEP, FULL, LATE, ROWS})


def doubling(count: int) -> str:
    names = "".join(f", a{n} AS (SELECT x.n FROM a{n - 1} x, a{n - 1} y)" for n in range(1, count))
    return f"WITH a0 AS (SELECT v AS n FROM numbers){names} SELECT count(*) FROM a{count - 1}"


def results():
    """Values and results that are larger than the pool."""
    all_or_full = {ROWS, FULL}
    yield Attack("repeat, one large", "SELECT length(repeat('y', 900000000))", {FULL, ROWS})
    yield Attack("repeat, too large", "SELECT length(repeat('y', 2000000000))", {FULL, LARGE})
    yield Attack("repeat of many rows", "SELECT sum(length(repeat(t, 100000))) FROM numbers", all_or_full)
    yield Attack("rows of repeat to a client", "SELECT repeat('y', 100000) FROM numbers", all_or_full)
    yield Attack("nested repeat", "SELECT length(repeat(repeat('y', 100000), 100000))", {FULL, LARGE})
    yield Attack("lpad", "SELECT length(lpad('', 2000000000, 'x'))", {FULL, LARGE})
    yield Attack("lpad of rows", "SELECT sum(length(lpad(t, 100000, 'x'))) FROM numbers", all_or_full)
    yield Attack("rpad of rows", "SELECT max(rpad(t, 100000, 'x')) FROM numbers", all_or_full)
    yield Attack("regexp_replace", "SELECT sum(length(regexp_replace(repeat('a', 50000), 'a', 'bbbbbbbb', 'g'))) FROM numbers", all_or_full)
    yield Attack("replace", "SELECT length(replace(repeat('a', 20000000), 'a', repeat('b', 1000)))", {FULL, LARGE})
    yield Attack("regular expression", r"SELECT 'x' ~ '((((a{1,100}){1,100}){1,100}){1,100})'", {"2201B", FULL, ROWS})
    yield Attack("string_agg", "SELECT length(string_agg(repeat('y', 100000), '')) FROM numbers", {FULL, LARGE, ROWS})
    yield Attack("array_agg", "SELECT cardinality(array_agg(repeat('y', 100000))) FROM numbers", all_or_full)
    yield Attack("array_agg of a long series", "SELECT array_agg(value) FROM generate_series(1, 10000000000) s(value)", {FULL, LATE})
    yield Attack("string_agg of a long series", "SELECT string_agg(value::text, ',') FROM generate_series(1, 10000000000) s(value)", {FULL, LATE})
    yield Attack("sort of a long series", "SELECT value FROM generate_series(1, 10000000000) s(value) ORDER BY value DESC OFFSET 5", {FULL, LATE, "53100"})
    yield Attack("groups of a long series", "SELECT value, count(*) FROM generate_series(1, 10000000000) s(value) GROUP BY value", {FULL, LATE, "53100"})
    yield Attack("distinct of a long series", "SELECT count(DISTINCT value) FROM generate_series(1, 10000000000) s(value)", {FULL, LATE, "53100"})
    yield Attack("join of long series", "SELECT count(*) FROM generate_series(1, 1000000000) a(x) JOIN generate_series(1, 1000000000) b(y) ON x = y", {FULL, LATE, "53100"})
    yield Attack("window over a long series", "SELECT sum(s) FROM (SELECT sum(value) OVER () AS s FROM generate_series(1, 1000000000) s(value)) q", {FULL, LATE, "53100"})
    yield Attack("cross joins", "SELECT count(*) FROM numbers a, numbers b, numbers c WHERE a.v + b.v + c.v = 5", {LATE, FULL})
    yield Attack("self join of equal keys", "SELECT count(*) FROM numbers a JOIN numbers b ON a.t = b.t JOIN numbers c ON b.t = c.t", {LATE, FULL, ROWS})
    yield Attack("self join of equal keys, sorted", "SELECT a.id, b.t FROM numbers a JOIN numbers b ON a.t = b.t ORDER BY b.t, a.id OFFSET 1", {LATE, FULL, ROWS, "53100"})
    yield Attack("GROUP BY with a large LIMIT", "SELECT v, count(*) FROM numbers GROUP BY v ORDER BY v LIMIT 2147483647", {ROWS})
    yield Attack("top of a large LIMIT", "SELECT v, max(id) FROM numbers GROUP BY v ORDER BY max(id) DESC LIMIT 2147483647", {ROWS})
    yield Attack("sort with a large LIMIT", "SELECT id FROM numbers ORDER BY v LIMIT 2147483647", {ROWS})
    yield Attack("endless recursion", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r", {LATE, FULL})
    yield Attack("growing recursion", "WITH RECURSIVE r(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM r) SELECT count(*) FROM r", {LATE, FULL, LARGE})
    yield Attack("array_fill", "SELECT cardinality(array_fill(1, ARRAY[1000000000]))", {FULL, LARGE, "42883", ROWS})
    yield Attack("one huge row", "SELECT " + ", ".join(["repeat('y', 30000000)"] * 30), {FULL, ROWS})


def changes():
    """Rows that wait in transactions, and in tables that are built."""
    fill = "INSERT INTO wide SELECT value, repeat('y', 100000) FROM generate_series(1, 20000) s(value)"
    yield Attack("UPDATE of many wide rows", "UPDATE numbers SET t = repeat('y', 100000)", {FULL, ROWS}, last=("UPDATE numbers SET t = 'text'",))
    yield Attack("INSERT of many wide rows", fill, {FULL, ROWS, LATE}, last=("TRUNCATE wide", "CHECKPOINT"))
    yield Attack("INSERT into a table with rows", fill, {FULL, ROWS, LATE}, first=("INSERT INTO wide VALUES (0, 'x')",), last=("TRUNCATE wide", "CHECKPOINT"))
    yield Attack("many changes in a transaction", many_changes, {FULL, ROWS}, last=("ROLLBACK", "TRUNCATE wide", "CHECKPOINT"))
    yield Attack("ON CONFLICT of many rows", "INSERT INTO numbers SELECT value, 1, repeat('z', 50000) FROM generate_series(1, 20000) s(value) "
                 "ON CONFLICT (id) DO UPDATE SET t = excluded.t", {FULL, ROWS, LATE}, last=("UPDATE numbers SET t = 'text'", "CHECKPOINT"))
    yield Attack("cursor with hold", "COMMIT", {FULL, ROWS, LATE},
                 first=("BEGIN", "DECLARE c CURSOR WITH HOLD FOR SELECT repeat('y', 100000) FROM numbers"), last=("ROLLBACK", "CLOSE ALL"))
    yield Attack("index of wide rows", "CREATE INDEX ON wide (md5(t))", {FULL, ROWS, LATE, "0A000"},
                 first=(fill.replace("20000)", "2000)"),), last=("ANALYZE wide", "TRUNCATE wide", "CHECKPOINT"))


def many_changes(wire) -> str:
    wire.query("BEGIN")
    for number in range(200):
        outcome = wire.query(f"INSERT INTO wide SELECT {number} * 100 + value, repeat('y', 100000) FROM generate_series(1, 100) s(value)")
        if outcome != ROWS:
            return outcome
    return wire.query("COMMIT")


def messages():
    yield Attack("many prepared statements", many_prepared, {FULL, ROWS})
    yield Attack("large prepared statements", large_prepared, {FULL, ROWS, "lost"})
    yield Attack("huge parameter", lambda wire: wire.execute("SELECT length($1::text)", [b"x" * (200 << 20)]), {FULL, ROWS, "lost"})
    yield Attack("many huge parameters", huge_parameters, {FULL, ROWS, "lost"})
    yield Attack("a COPY line of 512 MB", copy_line, {FULL, LARGE, "lost"})
    yield Attack("COPY of many wide rows", copy_rows, {FULL, ROWS}, last=("TRUNCATE taken", "CHECKPOINT"))


def many_prepared(wire) -> str:
    for number in range(20_000):
        wire.prepare(f"SELECT {number} + v FROM numbers WHERE id = $1", f"p{number}")
        if number % 1000 == 999:
            wire.send(b"S", b"")
            if (outcome := wire.answer()) != ROWS:
                return outcome
    return ROWS


def large_prepared(wire) -> str:
    for number in range(100):
        wire.prepare(f"SELECT length('{'x' * (10 << 20)}')", f"l{number}")
        wire.send(b"S", b"")
        if (outcome := wire.answer()) != ROWS:
            return outcome
    return ROWS


def huge_parameters(wire) -> str:
    return wire.execute("SELECT length($1::text) + length($2::text) + length($3::text)", [b"x" * (70 << 20)] * 3)


def copy_line(wire) -> str:
    wire.query("COPY taken FROM STDIN")
    wire.send(b"d", b"1\t")
    for _ in range(512):
        wire.send(b"d", b"x" * (1 << 20))
    wire.send(b"d", b"\n")
    wire.send(b"c", b"")
    return wire.answer()


def copy_rows(wire) -> str:
    wire.query("COPY taken FROM STDIN")
    for number in range(1000):
        wire.send(b"d", f"{number}\t".encode() + b"x" * (1 << 20) + b"\n")
    wire.send(b"c", b"")
    return wire.answer()


def all_attacks():
    yield from chains(300, {ROWS})
    yield from chains(2000, {ROWS})
    yield from chains(20_000, {ROWS, DEEP, FULL, LATE})
    yield from nesting(100)
    yield from nesting(10_000)
    yield from texts()
    yield from results()
    yield from changes()
    yield from messages()
