"""asyncpg: binary protocol, prepared statements, cursors, COPY, transactions, what it asks of catalogues."""

import asyncio
import datetime
import decimal
import sys
import uuid

import asyncpg
from tap import check, equal, run

UTC = datetime.timezone.utc


def with_connection(function):
    """A check that is a coroutine, with a connection of its own."""
    def checked():
        async def body():
            connection = await asyncpg.connect(ssl=False)
            try:
                await function(connection)
            finally:
                await connection.close()

        asyncio.run(body())

    checked.__name__ = function.__name__
    return check(checked)


async def raises(error, awaitable):
    try:
        await awaitable
    except error as raised:
        return raised
    raise AssertionError(f"no {error.__name__}")


@with_connection
async def connecting(connection):
    equal(await connection.fetchval("SELECT 1"), 1)
    equal(connection.get_server_version().major >= 15, True)
    equal(connection.get_settings().client_encoding.lower().replace("-", ""), "utf8")


@with_connection
async def types(connection):
    values = [
        ("boolean", True), ("smallint", -32768), ("integer", 2**31 - 1), ("bigint", -2**63), ("real", 0.5),
        ("double precision", 1e200), ("numeric(12, 3)", decimal.Decimal("-123456789.125")), ("text", "ü'\n"), ("varchar(5)", "abc"),
        ("bytea", b"\x00\xff"), ("date", datetime.date(2024, 2, 29)), ("timestamp", datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)),
        ("timestamptz", datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)), ("uuid", uuid.UUID(int=7)),
    ]
    await connection.execute("DROP TABLE IF EXISTS ap_types")
    columns = ", ".join(f"c{n} {name}" for n, (name, _) in enumerate(values))
    await connection.execute(f"CREATE TABLE ap_types (id int PRIMARY KEY, {columns})")
    places = ", ".join(f"${n + 2}" for n in range(len(values)))
    insert = f"INSERT INTO ap_types VALUES ($1, {places})"
    await connection.execute(insert, 1, *(value for _, value in values))
    await connection.execute(insert, 2, *(None for _ in values))
    row = await connection.fetchrow("SELECT * FROM ap_types WHERE id = $1", 1)
    equal(list(row)[1:], [value for _, value in values])
    equal(set(list(await connection.fetchrow("SELECT * FROM ap_types WHERE id = 2"))[1:]), {None})
    for name, value in values:
        equal(await connection.fetchval(f"SELECT $1::{name}", value), value)


@with_connection
async def arrays_and_intervals(connection):
    equal(await connection.fetchval("SELECT $1::int[]", [1, None, 3]), [1, None, 3])
    equal(await connection.fetchval("SELECT $1::text[]", ["a", 'b,"c', None]), ["a", 'b,"c', None])
    equal(await connection.fetchval("SELECT count(*) FROM generate_series(1, 10) AS g(i) WHERE i = ANY($1::int[])", [2, 5, 50]), 2)
    day = datetime.timedelta(days=1, hours=2)
    equal(await connection.fetchval("SELECT $1::timestamp + $2::interval", datetime.datetime(2024, 1, 1), day), datetime.datetime(2024, 1, 2, 2))
    equal(await connection.fetchval("SELECT interval '1 day 2 hours'"), day)
    equal(await connection.fetchval("SELECT $1::time", datetime.time(1, 2, 3)), datetime.time(1, 2, 3))


@with_connection
async def stored_arrays(connection):
    await connection.execute("DROP TABLE IF EXISTS ap_arrays; CREATE TABLE ap_arrays (id int PRIMARY KEY, n int[], t text[], w timestamptz[])")
    moment = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)
    row = (1, [1, None], ["a b", "", "NULL"], [moment])
    await connection.execute("INSERT INTO ap_arrays VALUES ($1, $2, $3, $4)", *row)
    equal(tuple(await connection.fetchrow("SELECT * FROM ap_arrays WHERE id = $1", 1)), row)
    equal(tuple(await connection.fetchrow("SELECT * FROM ap_arrays WHERE n = $1", [1, None])), row)
    await connection.copy_records_to_table("ap_arrays", records=[(2, [], ["x"], None), (3, None, [], [])])
    equal([tuple(row) for row in await connection.fetch("SELECT * FROM ap_arrays WHERE id > 1 ORDER BY id")],
          [(2, [], ["x"], None), (3, None, [], [])])
    equal(await connection.fetchval("UPDATE ap_arrays SET n = array_append(n, 5) WHERE id = 1 RETURNING n"), [1, None, 5])


@with_connection
async def prepared(connection):
    await connection.execute("DROP TABLE IF EXISTS ap_prepared; CREATE TABLE ap_prepared (id int PRIMARY KEY, word varchar(20))")
    insert = await connection.prepare("INSERT INTO ap_prepared VALUES ($1, $2) RETURNING id")
    equal(insert.get_parameters()[0].name, "int4")
    equal([attribute.name for attribute in insert.get_attributes()], ["id"])
    for number in range(30):
        equal(await insert.fetchval(number, f"w{number}"), number)
    look = await connection.prepare("SELECT word FROM ap_prepared WHERE id = $1")
    equal([await look.fetchval(number) for number in (3, 29, 99)], ["w3", "w29", None])
    await connection.executemany("INSERT INTO ap_prepared VALUES ($1, $2)", [(number, "many") for number in range(100, 600)])
    equal(await connection.fetchval("SELECT count(*) FROM ap_prepared WHERE word = 'many'"), 500)
    # Its columns change: the statement is prepared anew, as asyncpg does it by itself.
    await connection.execute("ALTER TABLE ap_prepared ADD COLUMN extra int DEFAULT 7")
    star = "SELECT * FROM ap_prepared WHERE id = 1"
    equal(tuple(await connection.fetchrow(star)), (1, "w1", 7))
    await connection.execute("ALTER TABLE ap_prepared DROP COLUMN word")
    equal(tuple(await connection.fetchrow(star)), (1, 7))


@with_connection
async def transactions(connection):
    await connection.execute("DROP TABLE IF EXISTS ap_transactions; CREATE TABLE ap_transactions (id int PRIMARY KEY)")

    async def ids():
        return [row["id"] for row in await connection.fetch("SELECT id FROM ap_transactions ORDER BY id")]

    async with connection.transaction():
        await connection.execute("INSERT INTO ap_transactions VALUES (1)")
        async with connection.transaction():
            await connection.execute("INSERT INTO ap_transactions VALUES (2)")

        async def fails():
            async with connection.transaction():
                await connection.execute("INSERT INTO ap_transactions VALUES (3), (1)")

        error = await raises(asyncpg.UniqueViolationError, fails())
        equal((error.table_name, error.constraint_name), ("ap_transactions", "ap_transactions_pkey"))
    equal(await ids(), [1, 2])
    other = await asyncpg.connect(ssl=False)
    try:
        async with connection.transaction(isolation="serializable", readonly=True, deferrable=True):
            equal(await ids(), [1, 2])
            await other.execute("INSERT INTO ap_transactions VALUES (9)")
            equal(await ids(), [1, 2])
            await raises(asyncpg.ReadOnlySQLTransactionError, connection.execute("DELETE FROM ap_transactions"))
    finally:
        await other.close()
    equal(await ids(), [1, 2, 9])


@with_connection
async def cursors(connection):
    async with connection.transaction():
        numbers = [row["i"] async for row in connection.cursor("SELECT i FROM generate_series(1, $1::int) AS g(i)", 250, prefetch=40)]
        equal(numbers, list(range(1, 251)))
        cursor = await connection.cursor("SELECT i FROM generate_series(1, 100) AS g(i)")
        await cursor.forward(10)
        equal([row["i"] for row in await cursor.fetch(2)], [11, 12])


@with_connection
async def copying(connection):
    await connection.execute("DROP TABLE IF EXISTS ap_copy; CREATE TABLE ap_copy (id int PRIMARY KEY, word text, at timestamptz)")
    now = datetime.datetime(2024, 5, 6, tzinfo=UTC)
    rows = [(number, None if number % 7 == 0 else f"w\t{number}", now) for number in range(3000)]
    equal(await connection.copy_records_to_table("ap_copy", records=rows), "COPY 3000")
    equal([tuple(row) for row in await connection.fetch("SELECT * FROM ap_copy ORDER BY id LIMIT 8")], rows[:8])
    parts = []

    async def take(data):
        parts.append(data)

    await connection.copy_from_query("SELECT id, word FROM ap_copy WHERE id < $1 ORDER BY id", 2, output=take, format="csv")
    equal(b"".join(parts), b'0,\n1,w\t1\n')


@with_connection
async def errors(connection):
    """Conditions have their classes, and the connection goes on after each."""
    error = await raises(asyncpg.PostgresSyntaxError, connection.execute("SELEC 1"))
    equal(error.sqlstate, "42601")
    await raises(asyncpg.UndefinedTableError, connection.fetch("SELECT * FROM ap_nowhere"))
    await raises(asyncpg.DivisionByZeroError, connection.fetchval("SELECT 1 / $1::int", 0))
    await raises(asyncpg.QueryCanceledError, connection.execute("SET statement_timeout = '100ms'; SELECT pg_sleep(5)"))
    await connection.execute("SET statement_timeout = 0")
    await raises(asyncio.TimeoutError, connection.execute("SELECT pg_sleep(5)", timeout=0.1))
    equal(await connection.fetchval("SELECT 2"), 2)


@check
def pool():
    async def body():
        async with asyncpg.create_pool(ssl=False, min_size=2, max_size=8) as some:
            await some.execute("DROP TABLE IF EXISTS ap_pool; CREATE TABLE ap_pool (id int PRIMARY KEY, n int)")
            await asyncio.gather(*(some.execute("INSERT INTO ap_pool VALUES ($1, 1)", number) for number in range(200)))
            # Connections come back reset: RESET ALL, UNLISTEN, advisory locks, cursors.
            async with some.acquire() as connection:
                await connection.execute("SET search_path = nowhere")
            equal(await some.fetchval("SELECT sum(n) FROM ap_pool"), 200)

    asyncio.run(body())


if __name__ == "__main__":
    sys.exit(run())
