"""TPC-H: the answers of the 22 queries, saki's against DuckDB's over the same data."""

import itertools
import pathlib
import re
import time

import duckdb

from compare import difference
from saki import TABLES, Failed, Saki

QUERIES = "crates/saki/src/tpch/queries"
# Output columns that each query sorts by, and its LIMIT.
SORTED_BY = {
    1: (0, 1), 2: (0, 2, 1, 3), 3: (1, 2), 4: (0,), 5: (1,), 6: (), 7: (0, 1, 2), 8: (0,), 9: (0, 1), 10: (2,),
    11: (1,), 12: (0,), 13: (1, 0), 14: (), 15: (0,), 16: (3, 0, 1, 2), 17: (), 18: (4, 3), 19: (), 20: (0,),
    21: (1, 0), 22: (0,),
}
LIMITS = {2: 100, 3: 10, 10: 20, 18: 100, 21: 100}
MODES = ("out_of_order", "in_order")


def add_arguments(parser) -> None:
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--page-sizes", default="4096,16384,131072", help="bytes, separated by commas")
    parser.add_argument("--queries", default="1-22", help="for example 1-22 or 3,5,7")
    parser.add_argument("--set", action="append", default=[], help="a further setting, such as index_join=always")


def run(arguments, root: pathlib.Path) -> int:
    queries = numbers(arguments.queries)
    texts = {number: (root / QUERIES / f"q{number:02}.sql").read_text().rstrip().rstrip(";") for number in queries}
    files = arguments.data / f"tpch-{arguments.scale:g}-parquet"
    expected, failures, wrong, compared = {}, 0, 0, 0
    for page_size in map(int, arguments.page_sizes.split(",")):
        saki = Saki(arguments.saki.resolve(), arguments.data / f"tpch-{arguments.scale:g}-{page_size}.saki")
        saki.load_tpch(arguments.scale, page_size)
        # Always from this database: every page size has to give back what was loaded.
        exported = files / str(page_size)
        saki.export(exported)
        answers = theirs(exported, texts)
        for number in queries:
            if expected.setdefault(number, answers[number]) != answers[number]:
                failures += 1
                print(f"FAILED  page size {page_size}: Q{number} over the exported files differs between page sizes")
        for mode, number in itertools.product(MODES, queries):
            settings = [f"SET saki.execution = '{mode}'"]
            settings += ["SET saki.{} = '{}'".format(*setting.split("=", 1)) for setting in arguments.set]
            label = f"page size {page_size:6}  {mode:12}  Q{number:<2}"
            compared += 1
            started = time.monotonic()
            try:
                problem = difference(ours(saki, arguments.data, settings, texts[number]), answers[number],
                                     SORTED_BY[number], LIMITS.get(number))
            except Failed as failure:
                problem = str(failure)
            seconds = time.monotonic() - started
            wrong += bool(problem)
            print(f"{label}  {'FAILED: ' + problem if problem else f'same, {len(answers[number])} rows'}  {seconds:.2f} s", flush=True)
    print(f"{compared - wrong} of {compared} answers are the same as DuckDB {duckdb.__version__}'s, scale factor {arguments.scale:g}")
    return 1 if failures or wrong else 0


def numbers(text: str) -> list[int]:
    ranges = [re.fullmatch(r"(\d+)(?:-(\d+))?", part) for part in text.split(",")]
    return [number for found in ranges for number in range(int(found[1]), int(found[2] or found[1]) + 1)]


def theirs(files: pathlib.Path, texts: dict[int, str]) -> dict[int, list]:
    """DuckDB's answers over the exported files."""
    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files / table}.parquet')")
    return {number: connection.execute(text).fetchall() for number, text in texts.items()}


def ours(saki: Saki, data: pathlib.Path, settings: list[str], query: str) -> list:
    """saki's answer, taken as Parquet so that types and digits survive."""
    path = data / "answer.parquet"
    path.unlink(missing_ok=True)
    saki.run(*settings, f"COPY ({query}) TO '{path}'")
    if not path.exists():
        return []
    return duckdb.connect().execute(f"SELECT * FROM read_parquet('{path}')").fetchall()
