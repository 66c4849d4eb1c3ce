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
    unions = "".join(f", a{n} AS (SELECT * FROM a{n - 1} UNION ALL SELECT * FROM a{n - 1})" for n in range(1, 12))
    yield Attack("12 doubling unions", f"WITH a0 AS (SELECT * FROM numbers){unions} SELECT * FROM a11 ORDER BY t, id OFFSET 100000000", {FULL, LATE, ROWS, "53100"})


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
    wide = "(SELECT id, repeat(t, 5000) AS y FROM numbers WHERE id < 1000)"
    yield Attack("join of wide rows without keys", f"SELECT max(length(a.y || b.y)) FROM {wide} a JOIN {wide} b ON a.id < b.id", {LATE, FULL, ROWS})
    yield Attack("cross join of wide rows", f"SELECT max(length(a.y || b.y)) FROM {wide} a, {wide} b", {LATE, FULL, ROWS})
    yield Attack("GROUP BY with a large LIMIT", "SELECT v, count(*) FROM numbers GROUP BY v ORDER BY v LIMIT 2147483647", {ROWS})
    yield Attack("top of a large LIMIT", "SELECT v, max(id) FROM numbers GROUP BY v ORDER BY max(id) DESC LIMIT 2147483647", {ROWS})
    yield Attack("sort with a large LIMIT", "SELECT id FROM numbers ORDER BY v LIMIT 2147483647", {ROWS})
    yield Attack("endless recursion", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r", {LATE, FULL})
    yield Attack("growing recursion", "WITH RECURSIVE r(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM r) SELECT count(*) FROM r", {LATE, FULL, LARGE})
    yield Attack("array_fill", "SELECT cardinality(array_fill(1, ARRAY[1000000000]))", {FULL, LARGE, "42883", ROWS})
    yield Attack("lists of any length", "SELECT cardinality(array_repeat(1, 2000000000))", {"42883"})
    yield Attack("lists that grow to any length", "SELECT cardinality(array_resize(ARRAY[1], 2000000000, 1))", {"42883"})
    yield Attack("ranges of any length", "SELECT cardinality(range(1, 3000000000))", {"42883"})
    yield Attack("ranges of any length as rows", "SELECT count(*) FROM range(1, 3000000000)", {"42883"})
    yield Attack("a default of any length", "CREATE TABLE lists (id int, n int DEFAULT cardinality(array_repeat(1, 2000000000)))", {"42883"})
    yield Attack("a condition of any length", "CREATE TABLE lists (id int, CHECK (cardinality(array_repeat(id, 2000000000)) > 1))", {"42883"})
    yield Attack("series of many rows", "SELECT count(g) FROM (SELECT generate_series(1, 1000000 + id) AS g FROM numbers) q", all_or_full | {LATE})
    yield Attack("lpad with long letters", "SELECT length(lpad('', 400000000, 'ä'))", {FULL, LARGE})
    yield Attack("regexp_replace, one large", "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 100000), 'g'))", {FULL, LARGE})
    yield Attack("regexp_replace that names what it found", r"SELECT length(regexp_replace(repeat('a', 1000000), '(a+)', repeat('\1', 5000)))", {FULL, LARGE})
    yield Attack("concat", "SELECT length(concat(" + ", ".join(["r"] * 90) + ")) FROM (SELECT repeat('y', 20000000 + id::int) AS r FROM numbers WHERE id = 1) q", {FULL, LARGE})
    yield Attack("concat_ws", "SELECT length(concat_ws(repeat('y', 30000000), " + ", ".join(["t"] * 90) + ")) FROM numbers WHERE id = 1", {FULL, LARGE})
    yield Attack("|| that doubles", "SELECT length(t) FROM " + "(SELECT t || t AS t FROM " * 22 + "numbers" + ") q" * 22, {FULL, LARGE, LATE, DEEP})
    yield Attack("|| of a long text", "SELECT length(" + " || ".join(["r"] * 90) + ") FROM (SELECT repeat('y', 20000000 + id::int) AS r FROM numbers WHERE id = 1) q", {FULL, LARGE})
    yield Attack("array_to_string", "SELECT length(array_to_string(string_to_array(repeat('a,', 1000000), ','), repeat('b', 100000)))", {FULL, LARGE})
    yield Attack("array_replace", "SELECT cardinality(array_replace(string_to_array(repeat('a,', 1000000), ','), 'a', repeat('b', 100000)))", {FULL, LARGE})
    yield Attack("a list of long texts", "SELECT cardinality(ARRAY[" + ", ".join(["r"] * 90) + "]) FROM (SELECT repeat('y', 20000000 + id::int) AS r FROM numbers WHERE id = 1) q", {FULL, LARGE})
    yield Attack("format, widths", "SELECT sum(length(format(repeat('%1000000s', 900), " + ", ".join(["t"] * 900) + "))) FROM numbers", {FULL, LARGE})
    yield Attack("format, one argument many times", "SELECT length(format(repeat('%1$s', 100000), repeat('y', 100000)))", {FULL, LARGE})
    yield Attack("to_char", "SELECT length(to_char(now(), repeat('MONTH ', 50000000)))", {FULL, LARGE})
    yield Attack("translate", "SELECT length(translate(repeat('a', 400000000), 'a', '\N{GRINNING FACE}'))", {FULL, LARGE})
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
    yield Attack("DELETE that cascades to many wide rows", "DELETE FROM parents", {FULL, ROWS, LATE},
                 first=("CREATE TABLE parents (id bigint PRIMARY KEY)", "INSERT INTO parents VALUES (1)",
                        "CREATE TABLE children (id bigint PRIMARY KEY, p bigint REFERENCES parents ON DELETE CASCADE, t text)", "CREATE INDEX ON children (p)",
                        *(f"INSERT INTO children SELECT {n} * 1000 + value, 1, repeat('y', 50000) FROM generate_series(1, 1000) s(value)" for n in range(10)), "CHECKPOINT"),
                 last=("DROP TABLE children", "DROP TABLE parents", "CHECKPOINT"))
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
    yield Attack("many named portals", many_portals, {FULL, "lost"})
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


def many_portals(wire) -> str:
    wire.query("BEGIN")
    wire.prepare("SELECT length($1::text)", "s")
    value = b"x" * (10 << 20)
    for number in range(200):
        wire.bind(f"p{number}", "s", [value])
        wire.send(b"H", b"")
    wire.send(b"S", b"")
    outcome = wire.answer()
    wire.query("ROLLBACK")
    return outcome


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
