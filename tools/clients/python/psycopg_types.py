"""psycopg 3: values of every type, there and back, in the text and in the binary format, by parameters and by COPY."""

import datetime
import decimal
import uuid

from psycopg import errors
from psycopg_connection import connect, raises, table
from tap import check, equal

UTC = datetime.timezone.utc
COLUMNS = {
    "c_bool": "boolean", "c_int2": "smallint", "c_int4": "integer", "c_int8": "bigint", "c_float4": "real",
    "c_float8": "double precision", "c_numeric": "numeric(38,10)", "c_text": "text", "c_varchar": "varchar(20)",
    "c_char": "char(5)", "c_bytea": "bytea", "c_date": "date", "c_timestamp": "timestamp",
    "c_timestamptz": "timestamptz", "c_uuid": "uuid",
}
ROWS = [
    (True, -32768, -2147483648, -(2**63), 1.5, 1e300, decimal.Decimal("-1234567890123456789012345678.0123456789"),
     "grüße, 世界 🦀", "it's \"quoted\"", "ab   ", b"\x00\xff\\", datetime.date(1, 1, 1),
     datetime.datetime(1999, 12, 31, 23, 59, 59, 999999), datetime.datetime(2024, 2, 29, 12, 0, tzinfo=UTC),
     uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")),
    (False, 32767, 2147483647, 2**63 - 1, -0.25, -2.5e-300, decimal.Decimal("0E-10"),
     "", "", "     ", b"", datetime.date(9999, 12, 31),
     datetime.datetime(1969, 12, 31, 0, 0), datetime.datetime(1970, 1, 1, tzinfo=UTC), uuid.UUID(int=0)),
    (None,) * 15,
]


def types_round_trip(binary: bool):
    with connect() as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        table(connection, "py_types", f"id int PRIMARY KEY, {columns}")
        cursor = connection.cursor(binary=binary)
        mark = "%b" if binary else "%t"
        insert = f"INSERT INTO py_types VALUES ({', '.join([mark] * 16)})"
        for id, row in enumerate(ROWS):
            cursor.execute(insert, (id, *row))
        cursor.execute("SELECT * FROM py_types ORDER BY id")
        equal([column.type_code for column in cursor.description],
              [23, 16, 21, 23, 20, 700, 701, 1700, 25, 1043, 1042, 17, 1082, 1114, 1184, 2950])
        for found, expected in zip(cursor.fetchall(), ROWS, strict=True):
            for name, value, wanted in zip(COLUMNS, found[1:], expected, strict=True):
                if value != wanted:
                    raise AssertionError(f"{name}: found {value!r}, expected {wanted!r}")
        # Each value finds its row again.
        for (name, kind), value in zip(COLUMNS.items(), ROWS[0], strict=True):
            cursor.execute(f"SELECT id FROM py_types WHERE {name} = CAST({mark} AS {kind})", (value,))
            if cursor.fetchall() != [(0,)]:
                raise AssertionError(f"{name} = {value!r} does not find the row")


@check
def types_text():
    types_round_trip(binary=False)


@check
def types_binary():
    types_round_trip(binary=True)


@check
def special_values():
    with connect() as connection:
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            cursor.execute("SELECT 'NaN'::float8, 'Infinity'::float8, '-Infinity'::float4, 1e-7::float8, 100000::float4")
            nan, *rest = cursor.fetchone()
            assert nan != nan
            equal(rest, [float("inf"), float("-inf"), 1e-7, 100000.0])


@check
def copy():
    with connect() as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        table(connection, "py_copy", f"id int PRIMARY KEY, {columns}")
        oids = ["int4", *(kind.split("(")[0] for kind in COLUMNS.values())]
        oids = [{"double precision": "float8", "char": "text"}.get(name, name) for name in oids]
        for format in ("TEXT", "BINARY"):
            connection.execute("DELETE FROM py_copy")
            cursor = connection.cursor()
            with cursor.copy(f"COPY py_copy FROM STDIN (FORMAT {format})") as into:
                if format == "BINARY":
                    into.set_types(oids)
                for id, row in enumerate(ROWS):
                    into.write_row((id, *row))
            equal(cursor.rowcount, len(ROWS))
            with cursor.copy(f"COPY (SELECT * FROM py_copy ORDER BY id) TO STDOUT (FORMAT {format})") as out:
                out.set_types(oids)
                found = list(out.rows())
            equal(found, [(id, *row) for id, row in enumerate(ROWS)])
        with cursor.copy("COPY (SELECT 1, 'a,b', NULL) TO STDOUT (FORMAT csv, HEADER false)") as out:
            equal(b"".join(map(bytes, out)), b'1,"a,b",\n')

        def spoiled():
            with cursor.copy("COPY py_copy (id, c_int4) FROM STDIN") as into:
                into.write("10\t1\n11\tone\n")

        raises(errors.InvalidTextRepresentation, spoiled)
        connection.rollback()
        # What was copied before was not committed, and neither was the table's content.
        equal(connection.execute("SELECT count(*) FROM py_copy").fetchone(), (0,))
