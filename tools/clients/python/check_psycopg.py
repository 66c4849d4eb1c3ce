"""psycopg 3: statements, transactions, cursors, cancelling, errors."""

import concurrent.futures
import sys
import threading
import time

import psycopg
import psycopg_types  # noqa: F401  # has checks of its own
from psycopg import errors, sql
from psycopg_connection import connect, raises, table
from tap import check, equal, run


@check
def connecting():
    with connect(application_name="checks") as connection:
        equal(connection.info.parameter_status("client_encoding"), "UTF8")
        equal(connection.info.parameter_status("integer_datetimes"), "on")
        equal(connection.info.parameter_status("standard_conforming_strings"), "on")
        equal(connection.execute("SHOW application_name").fetchone(), ("checks",))
        assert connection.info.server_version >= 150000, connection.info.server_version


@check
def tls():
    with connect(sslmode="verify-full") as connection:
        assert connection.pgconn.ssl_in_use
        equal(connection.execute("SELECT 1").fetchone(), (1,))


@check
def channel_binding():
    # Refused by the client's library unless the server proves that it ends this very TLS connection.
    with connect(sslmode="verify-full", channel_binding="require") as connection:
        equal(connection.execute("SELECT 1").fetchone(), (1,))
    error = raises(psycopg.OperationalError, lambda: connect(sslmode="disable", channel_binding="require"))
    assert "channel binding" in str(error), error
    error = raises(psycopg.OperationalError,
                   lambda: connect(sslmode="verify-full", channel_binding="require", password="wrong"))
    assert "password authentication failed" in str(error), error


@check
def wrong_password():
    error = raises(psycopg.OperationalError, lambda: connect(password="wrong"))
    assert "password authentication failed" in str(error), error


@check
def simple():
    with connect(autocommit=True) as connection:
        cursor = connection.execute("SELECT 1; SELECT 'two' AS word; SELECT NULL WHERE false")
        equal(cursor.fetchall(), [(1,)])
        assert cursor.nextset()
        equal((cursor.description[0].name, cursor.fetchall()), ("word", [("two",)]))
        assert cursor.nextset()
        equal((cursor.fetchall(), cursor.statusmessage), ([], "SELECT 0"))
        equal(connection.execute("").description, None)


@check
def parameters():
    with connect() as connection:
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            equal(cursor.execute("SELECT %s::int + %s::int, %s::text", (40, 2, "x' OR 1=1")).fetchone(), (42, "x' OR 1=1"))
            equal(cursor.execute("SELECT %(a)s::int8 * %(a)s::int8", {"a": 2**20}).fetchone(), (2**40,))
            equal(cursor.execute("SELECT 1 WHERE %s::int IS NULL", (None,)).fetchone(), (1,))


@check
def prepared():
    with connect() as connection:
        table(connection, "py_prepared", "id int PRIMARY KEY, word text")
        for id in range(20):
            connection.execute("INSERT INTO py_prepared VALUES (%s, %s)", (id, f"w{id}"), prepare=True)
        for id in range(20):
            row = connection.execute("SELECT word FROM py_prepared WHERE id = %s", (id,), prepare=True).fetchone()
            equal(row, (f"w{id}",))
        # A statement outlives a change of its table, or is refused in a way the driver's user can mend.
        connection.commit()
        connection.execute("ALTER TABLE py_prepared ADD COLUMN more int")
        connection.commit()
        equal(connection.execute("SELECT word FROM py_prepared WHERE id = %s", (7,), prepare=True).fetchone(), ("w7",))


@check
def transactions():
    with connect() as connection, connect(autocommit=True) as other:
        table(connection, "py_transactions", "id int PRIMARY KEY")
        count = "SELECT count(*) FROM py_transactions"
        connection.execute("INSERT INTO py_transactions VALUES (1)")
        equal(connection.execute(count).fetchone(), (1,))
        equal(other.execute(count).fetchone(), (0,))
        connection.rollback()
        equal(connection.execute(count).fetchone(), (0,))
        connection.execute("INSERT INTO py_transactions VALUES (2)")
        connection.commit()
        equal(other.execute(count).fetchone(), (1,))
        equal(connection.info.transaction_status.name, "IDLE")
        connection.execute(count)
        equal(connection.info.transaction_status.name, "INTRANS")


@check
def savepoints():
    with connect(autocommit=True) as connection:
        table(connection, "py_savepoints", "id int PRIMARY KEY")
        with connection.transaction():
            connection.execute("INSERT INTO py_savepoints VALUES (1)")
            try:
                with connection.transaction():
                    connection.execute("INSERT INTO py_savepoints VALUES (2)")
                    connection.execute("INSERT INTO py_savepoints VALUES (1)")
            except errors.UniqueViolation:
                pass
            with connection.transaction():
                connection.execute("INSERT INTO py_savepoints VALUES (3)")
        equal(connection.execute("SELECT id FROM py_savepoints ORDER BY id").fetchall(), [(1,), (3,)])


@check
def failed_transaction():
    with connect() as connection:
        raises(errors.DivisionByZero, connection.execute, "SELECT 1/0")
        equal(connection.info.transaction_status.name, "INERROR")
        raises(errors.InFailedSqlTransaction, connection.execute, "SELECT 1")
        connection.rollback()
        equal(connection.execute("SELECT 1").fetchone(), (1,))


@check
def isolation():
    for level in (psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE):
        with connect() as reader, connect(autocommit=True) as writer:
            table(reader, "py_isolation", "id int PRIMARY KEY")
            reader.isolation_level = level
            equal(reader.execute("SHOW transaction_isolation").fetchone(), (level.name.lower().replace("_", " "),))
            equal(reader.execute("SELECT count(*) FROM py_isolation").fetchone(), (0,))
            writer.execute("INSERT INTO py_isolation VALUES (1)")
            equal(reader.execute("SELECT count(*) FROM py_isolation").fetchone(), (0,))
            reader.commit()
            equal(reader.execute("SELECT count(*) FROM py_isolation").fetchone(), (1,))
    with connect() as reader:
        reader.read_only = True
        raises(errors.ReadOnlySqlTransaction, reader.execute, "INSERT INTO py_isolation VALUES (2)")


@check
def retry():
    with connect() as first, connect() as second:
        table(first, "py_retry", "id int PRIMARY KEY, n int")
        first.execute("INSERT INTO py_retry VALUES (1, 0)")
        first.commit()
        first.isolation_level = second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        refused = 0
        equal(second.execute("SELECT n FROM py_retry").fetchone(), (0,))
        first.execute("UPDATE py_retry SET n = n + 1 WHERE id = 1")
        first.commit()
        while True:
            try:
                second.execute("UPDATE py_retry SET n = n + 1 WHERE id = 1")
                second.commit()
                break
            except (errors.SerializationFailure, errors.DeadlockDetected):
                second.rollback()
                refused += 1
        equal((refused, first.execute("SELECT n FROM py_retry").fetchone()), (1, (2,)))


@check
def write_skew():
    # Both see two on call, both leave: serializable refuses one of them.
    with connect() as first, connect() as second:
        table(first, "py_skew", "id int PRIMARY KEY, on_call boolean")
        first.execute("INSERT INTO py_skew VALUES (1, true), (2, true)")
        first.commit()
        refused = []
        first.isolation_level = second.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        for connection in (first, second):
            equal(connection.execute("SELECT count(*) FROM py_skew WHERE on_call").fetchone(), (2,))
        for id, connection in ((1, first), (2, second)):
            try:
                connection.execute("UPDATE py_skew SET on_call = false WHERE id = %s", (id,))
                connection.commit()
            except errors.SerializationFailure:
                connection.rollback()
                refused.append(id)
        equal(len(refused), 1)


@check
def executemany():
    with connect() as connection:
        table(connection, "py_many", "id int PRIMARY KEY, word text")
        cursor = connection.cursor()
        cursor.executemany("INSERT INTO py_many VALUES (%s, %s)", [(id, str(id)) for id in range(1000)])
        equal(cursor.rowcount, 1000)
        cursor.executemany("UPDATE py_many SET word = %s WHERE id = %s RETURNING id", [("x", 1), ("y", 2)], returning=True)
        equal(cursor.fetchall(), [(1,)])
        assert cursor.nextset()
        equal(cursor.fetchall(), [(2,)])


@check
def pipeline():
    with connect(autocommit=True) as connection:
        table(connection, "py_pipeline", "id int PRIMARY KEY")
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int", (number,)) for number in range(100)]
            connection.execute("INSERT INTO py_pipeline VALUES (1)")
        equal([cursor.fetchone() for cursor in cursors], [(number,) for number in range(100)])
        with connection.transaction():
            equal(connection.execute("SELECT id FROM py_pipeline").fetchall(), [(1,)])

        def failing():
            with connection.pipeline():
                connection.execute("INSERT INTO py_pipeline VALUES (2)")
                connection.execute("INSERT INTO py_pipeline VALUES (1)")
                connection.execute("INSERT INTO py_pipeline VALUES (3)")

        # What comes without a Sync between is one transaction.
        raises(errors.UniqueViolation, failing)
        equal(connection.execute("SELECT id FROM py_pipeline").fetchall(), [(1,)])


@check
def cursors():
    with connect() as connection:
        with connection.cursor("py_cursor") as cursor:
            cursor.itersize = 1000
            cursor.execute("SELECT i FROM generate_series(1, 10000) AS g(i) ORDER BY i")
            equal(cursor.fetchmany(3), [(1,), (2,), (3,)])
            equal(sum(row[0] for row in cursor), 10000 * 10001 // 2 - 6)
        with connection.cursor("py_held", withhold=True) as cursor:
            cursor.execute("SELECT i FROM generate_series(1, 10) AS g(i) ORDER BY i")
            connection.commit()
            equal(cursor.fetchmany(2), [(1,), (2,)])


ENDLESS = "SELECT count(*) FROM generate_series(1, 3000000) AS a(i), generate_series(1, 3000000) AS b(j) WHERE i + j < 0"


@check
def cancel():
    with connect(autocommit=True) as connection:
        started = time.monotonic()
        threading.Timer(0.5, connection.cancel_safe).start()
        raises(errors.QueryCanceled, connection.execute, ENDLESS)
        assert time.monotonic() - started < 5, "the cancelled query went on"
        equal(connection.execute("SELECT 1").fetchone(), (1,))


@check
def statement_timeout():
    with connect(autocommit=True) as connection:
        connection.execute("SET statement_timeout = '300ms'")
        raises(errors.QueryCanceled, connection.execute, ENDLESS)
        connection.execute("RESET statement_timeout")
        equal(connection.execute("SELECT 1").fetchone(), (1,))


@check
def vanished_client():
    # A socket closed under a running query leaves the server in order.
    connection = connect()
    connection.pgconn.send_query(ENDLESS.encode())
    connection.pgconn.flush()
    connection.pgconn.finish()
    with connect() as other:
        equal(other.execute("SELECT 1").fetchone(), (1,))


@check
def sqlstates():
    with connect(autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS py_child")
        table(connection, "py_errors", "id int PRIMARY KEY, n int NOT NULL CHECK (n > 0), v varchar(3), s smallint")
        table(connection, "py_child", "id int PRIMARY KEY, parent int REFERENCES py_errors (id)")
        connection.execute("INSERT INTO py_errors VALUES (1, 1)")
        connection.execute("INSERT INTO py_child VALUES (1, 1)")
        wrong = []
        for state, statement in (
            ("23505", "INSERT INTO py_errors VALUES (1, 1)"),
            ("23502", "INSERT INTO py_errors VALUES (2, NULL)"),
            ("23514", "INSERT INTO py_errors VALUES (2, 0)"),
            ("23503", "INSERT INTO py_child VALUES (2, 99)"),
            ("23503", "DELETE FROM py_errors WHERE id = 1"),
            ("22001", "INSERT INTO py_errors VALUES (2, 1, 'four')"),
            ("22003", "INSERT INTO py_errors VALUES (2, 1, NULL, 40000)"),
            ("22003", "SELECT 2147483647::int + 1::int"),
            ("42P01", "SELECT * FROM py_nowhere"),
            ("42P07", "CREATE TABLE py_errors (id int)"),
            ("42703", "SELECT nothing FROM py_errors"),
            ("42702", "SELECT id FROM py_errors a, py_errors b"),
            ("42803", "SELECT id, count(*) FROM py_errors"),
            ("42883", "SELECT no_such_function(1)"),
            ("42601", "SELEC 1"),
            ("42704", "SET no_such_parameter = 1"),
            ("22P02", "SELECT 'abc'::int"),
            ("22007", "SELECT 'abc'::date"),
            ("22012", "SELECT 1/0"),
            ("21000", "SELECT (SELECT i FROM generate_series(1, 2) AS g(i))"),
            ("0A000", "CREATE VIEW py_gone AS WITH q AS (DELETE FROM py_errors RETURNING id) SELECT id FROM q"),
        ):
            found = raises(psycopg.Error, connection.execute, statement).sqlstate
            if found != state:
                wrong.append(f"{statement}: {found}, expected {state}")
        equal(wrong, [])
        error = raises(errors.UniqueViolation, connection.execute, "INSERT INTO py_errors VALUES (1, 1)")
        assert "py_errors_pkey" in error.diag.message_primary, error.diag.message_primary
        error = raises(errors.UndefinedColumn, connection.execute, "SELECT nothing FROM py_errors")
        equal(error.diag.statement_position, "8")


@check
def large():
    with connect() as connection:
        rows = checksum = 0
        cursor = connection.cursor(binary=True)
        for number, word in cursor.stream("SELECT i, 'row ' || i FROM generate_series(1, 1000000) AS g(i)", size=1000):
            rows += 1
            checksum += number + len(word)
        equal((rows, checksum), (1_000_000, 500_000_500_000 + 4 * 1_000_000 + 5_888_896))
        wide = "x" * 10_000_000
        equal(connection.execute("SELECT %s::text", (wide,)).fetchone(), (wide,))


@check
def concurrency():
    with connect() as connection:
        table(connection, "py_counters", "id int PRIMARY KEY, n int")
        connection.execute("INSERT INTO py_counters SELECT i, 0 FROM generate_series(1, 4) AS g(i)")
        connection.commit()

    def work(seed: int) -> int:
        again = 0
        with connect() as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for step in range(20):
                while True:
                    try:
                        connection.execute("UPDATE py_counters SET n = n + 1 WHERE id = %s", ((seed + step) % 4 + 1,))
                        connection.commit()
                        break
                    except (errors.SerializationFailure, errors.DeadlockDetected):
                        connection.rollback()
                        again += 1
        return again

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        again = sum(pool.map(work, range(16)))
    with connect() as connection:
        equal(connection.execute("SELECT sum(n) FROM py_counters").fetchone(), (320,))
    print(f"# {again} transactions were tried again")


@check
def metadata():
    with connect() as connection:
        table(connection, "py_metadata", "id int PRIMARY KEY, v varchar(7) NOT NULL, n numeric(10,2)")
        cursor = connection.execute("SELECT * FROM py_metadata")
        equal([(column.name, column.type_display) for column in cursor.description],
              [("id", "int4"), ("v", "varchar(7)"), ("n", "numeric(10,2)")])
        cursor = connection.execute("SELECT 1, count(*), upper('x'), 1 AS one, max(id), id::text FROM py_metadata GROUP BY id")
        equal([column.name for column in cursor.description], ["?column?", "count", "upper", "one", "max", "id"])
        rows = connection.execute(
            "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
            " WHERE table_name = 'py_metadata' AND table_schema = 'public' ORDER BY ordinal_position").fetchall()
        equal(rows, [("id", "integer", "NO"), ("v", "character varying", "NO"), ("n", "numeric", "YES")])
        name = sql.Identifier("py_metadata")
        equal(connection.execute(sql.SQL("SELECT count(*) FROM {}").format(name)).fetchone(), (0,))


if __name__ == "__main__":
    sys.exit(run())
