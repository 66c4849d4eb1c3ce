"""psql, as people and scripts use it: what it prints is the check."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from tap import check, equal, run

SCHEMA = """
DROP TABLE IF EXISTS psql_child;
DROP TABLE IF EXISTS psql_things;
CREATE TABLE psql_things (
    id integer PRIMARY KEY,
    name varchar(20) NOT NULL,
    price numeric(10,2) DEFAULT 1.50,
    at timestamptz
);
CREATE UNIQUE INDEX psql_things_name ON psql_things (name);
CREATE TABLE psql_child (id bigint PRIMARY KEY, thing integer REFERENCES psql_things (id), CHECK (id > 0));
INSERT INTO psql_things (id, name) VALUES (1, 'one'), (2, 'two');
"""
THINGS = """\
Table "public.psql_things"
 Column |           Type           | Collation | Nullable | Default 
--------+--------------------------+-----------+----------+---------
 id     | integer                  |           | not null | 
 name   | character varying(20)    |           | not null | 
 price  | numeric(10,2)            |           |          | 1.50
 at     | timestamp with time zone |           |          | 
Indexes:
    "psql_things_pkey" PRIMARY KEY, btree (id)
    "psql_things_name" UNIQUE, btree (name)
Referenced by:
    TABLE "psql_child" CONSTRAINT "psql_child_thing_fkey" FOREIGN KEY (thing) REFERENCES psql_things(id)

"""
CHILD = """\
Table "public.psql_child"
 Column |  Type   | Collation | Nullable | Default 
--------+---------+-----------+----------+---------
 id     | bigint  |           | not null | 
 thing  | integer |           |          | 
Indexes:
    "psql_child_pkey" PRIMARY KEY, btree (id)
Check constraints:
    "psql_child_id_check" CHECK (id > 0)
Foreign-key constraints:
    "psql_child_thing_fkey" FOREIGN KEY (thing) REFERENCES psql_things(id)

"""


def psql(script: str, *options: str, status: int = 0, **environment: str) -> str:
    """What psql prints for a script, errors in between."""
    command = ["psql", "--no-psqlrc", "--quiet", *options]
    done = subprocess.run(command, input=script, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                          env=dict(os.environ) | environment)
    if done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}, expected {status}: {done.stdout}")
    return done.stdout


def things() -> None:
    psql(f"SET client_min_messages = warning;{SCHEMA}", "--set=ON_ERROR_STOP=1")


def rows(script: str, *options: str) -> list[str]:
    return psql(script, "--tuples-only", "--no-align", *options).splitlines()


@check
def connecting():
    equal(psql("SELECT 1 AS one, 'x' AS letter, NULL AS nothing;"),
          " one | letter | nothing \n-----+--------+---------\n   1 | x      | \n(1 row)\n\n")
    equal(rows("\\echo :USER :DBNAME :ENCODING"), [f"{os.environ['PGUSER']} {os.environ['PGDATABASE']} UTF8"])
    assert "You are connected" in psql("\\conninfo")


@check
def tls():
    assert "SSL connection (protocol: TLSv1." in psql("\\conninfo", PGSSLMODE="verify-full")


@check
def wrong_password():
    said = psql("SELECT 1", PGPASSWORD="wrong", status=2)
    assert "FATAL:  password authentication failed for user" in said, said


@check
def command_tags():
    script = ("DROP TABLE IF EXISTS psql_tags; CREATE TABLE psql_tags (id int PRIMARY KEY, n int);"
              "INSERT INTO psql_tags VALUES (1, 1), (2, 2); UPDATE psql_tags SET n = 3; DELETE FROM psql_tags WHERE id = 1;"
              "BEGIN; SAVEPOINT a; ROLLBACK TO a; RELEASE a; COMMIT; BEGIN; ROLLBACK; SET TimeZone = 'UTC';"
              "TRUNCATE psql_tags; CREATE INDEX psql_tags_n ON psql_tags (n); ALTER TABLE psql_tags ADD COLUMN m int;"
              "DROP TABLE psql_tags;")
    said = subprocess.run(["psql", "--no-psqlrc"], input=script, text=True, capture_output=True, timeout=60)
    equal(said.stdout.splitlines(),
          ["DROP TABLE", "CREATE TABLE", "INSERT 0 2", "UPDATE 2", "DELETE 1", "BEGIN", "SAVEPOINT", "ROLLBACK", "RELEASE",
           "COMMIT", "BEGIN", "ROLLBACK", "SET", "TRUNCATE TABLE", "CREATE INDEX", "ALTER TABLE", "DROP TABLE"])


@check
def describe_table():
    things()
    equal(psql("\\d psql_things").lstrip(), THINGS)
    equal(psql("\\d psql_child").lstrip(), CHILD)


@check
def describe_index():
    things()
    equal(psql("\\d psql_things_name").lstrip(),
          'Index "public.psql_things_name"\n'
          " Column |         Type          | Key? | Definition \n"
          "--------+-----------------------+------+------------\n"
          " name   | character varying(20) | yes  | name\n"
          'unique, btree, for table "public.psql_things"\n\n')


@check
def list_relations():
    things()
    user = os.environ["PGUSER"]
    equal(rows("\\dt psql_things"), [f"public|psql_things|table|{user}"])
    equal(rows("\\di psql_things*"),
          [f"public|psql_things_name|index|{user}|psql_things", f"public|psql_things_pkey|index|{user}|psql_things"])
    for command in ("\\dt", "\\di", "\\ds", "\\dv", "\\d", "\\d+ psql_things", "\\dt+", "\\dn", "\\du", "\\l", "\\df", "\\dT"):
        said = psql(command)
        assert "ERROR" not in said, f"{command}: {said}"


@check
def error_position():
    said = psql("\\set VERBOSITY verbose\nSELECT 1,\n  nothing\nFROM generate_series(1, 2) AS g(i);")
    assert said.startswith('ERROR:  42703: column "nothing" does not exist\nLINE 2:   nothing\n          ^'), said
    psql("SELECT 1/0; SELECT 1", "--set=ON_ERROR_STOP=1", status=3)


@check
def copy_in_and_out():
    things()
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "rows.csv")
        path.write_text('10,"a, b",2.50,\n11,"say ""x""",,2024-01-01 00:00:00+00\n')
        psql(f"\\copy psql_things FROM '{path}' WITH (FORMAT csv)", "--set=ON_ERROR_STOP=1")
        psql(f"SET TimeZone = 'UTC';\n\\copy (SELECT * FROM psql_things WHERE id >= 10 ORDER BY id) TO '{path}' CSV HEADER")
        equal(path.read_text(), 'id,name,price,at\n10,"a, b",2.50,\n11,"say ""x""",,2024-01-01 00:00:00+00\n')
    equal(psql("COPY psql_things (id, name) FROM STDIN;\n12\ttab\\there\n13\tback\\\\slash\n\\.\n"
               "COPY (SELECT id, name FROM psql_things WHERE id > 11 ORDER BY id) TO STDOUT;"),
          "12\ttab\\there\n13\tback\\\\slash\n")
    said = psql("COPY psql_things (id, name) FROM STDIN;\n14\tx\nfifteen\ty\n\\.\nSELECT count(*) AS n FROM psql_things WHERE id = 14;",
                "--tuples-only", "--no-align")
    assert 'invalid input syntax for type integer: "fifteen"' in said and said.endswith("\n0\n"), said


@check
def variables():
    things()
    equal(rows("\\set name two\nSELECT id FROM psql_things WHERE name = :'name';\n"
               "SELECT max(id) AS top FROM psql_things \\gset\n\\echo :top"), ["2", "2"])


@check
def gdesc():
    things()
    equal(rows("SELECT id, name, price * 2 AS twice, at FROM psql_things \\gdesc")[0:2] +
          rows("SELECT at FROM psql_things \\gdesc"),
          ["id|integer", "name|character varying(20)", "at|timestamp with time zone"])


@check
def timing():
    said = psql("\\timing on\nSELECT 1;")
    assert "Time: " in said and " ms" in said, said


@check
def crosstab_and_expanded():
    things()
    equal(psql("\\x\nSELECT id, name FROM psql_things ORDER BY id LIMIT 1;"), "-[ RECORD 1 ]\nid   | 1\nname | one\n\n")
    equal(rows("SELECT id, name, price FROM psql_things \\crosstabview"), ["1|1.50|", "2||1.50"])


@check
def fetch_count():
    found = rows("\\set FETCH_COUNT 100\nSELECT i FROM generate_series(1, 1000) AS g(i);")
    equal(sorted(map(int, found)), list(range(1, 1001)))


@check
def gexec():
    equal(rows("SELECT 'SELECT ' || i FROM generate_series(1, 3) AS g(i) ORDER BY i \\gexec"), ["1", "2", "3"])


@check
def single_transaction():
    things()
    psql("INSERT INTO psql_things VALUES (20, 'x');\nSELECT 1/0;", "-1", "--set=ON_ERROR_STOP=1", status=3)
    equal(rows("SELECT count(*) FROM psql_things WHERE id = 20"), ["0"])
    psql("INSERT INTO psql_things VALUES (20, 'x');", "-1")
    equal(rows("SELECT count(*) FROM psql_things WHERE id = 20"), ["1"])


@check
def several_statements_are_one_transaction():
    things()
    psql("", "--command", "INSERT INTO psql_things VALUES (30, 'y'); SELECT 1/0", status=1)
    equal(rows("SELECT count(*) FROM psql_things WHERE id = 30"), ["0"])


@check
def sql_level_statements():
    equal(rows("PREPARE add (int, int) AS SELECT $1 + $2;\nEXECUTE add (40, 2);\nDEALLOCATE add;\n"
               "SET statement_timeout = 5000;\nSHOW statement_timeout;\nRESET ALL;\nSHOW server_encoding;\nDISCARD ALL;"),
          ["42", "5s", "UTF8"])
    equal(rows("BEGIN;\nDECLARE c CURSOR FOR SELECT i FROM generate_series(1, 5) AS g(i) ORDER BY i;\n"
               "FETCH 2 FROM c;\nFETCH NEXT FROM c;\nCLOSE c;\nCOMMIT;"), ["1", "2", "3"])


@check
def cancel():
    query = "SELECT count(*) FROM generate_series(1, 3000000) AS a(i), generate_series(1, 3000000) AS b(j) WHERE i + j < 0"
    child = subprocess.Popen(["psql", "--no-psqlrc", "--command", query], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(0.5)
    started = time.monotonic()
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=30)[0]
    assert "canceling statement due to user request" in said, said
    assert time.monotonic() - started < 5, "the cancelled query went on"


@check
def large():
    found = rows("SELECT i, 'row' FROM generate_series(1, 300000) AS g(i);")
    equal((len(found), sum(int(row.split("|")[0]) for row in found)), (300_000, 300_000 * 300_001 // 2))


if __name__ == "__main__":
    sys.exit(run())
