"""The three-table join over selectivities: DuckDB on its own tables, cold and hot."""

import json
import os
import pathlib
import statistics
import time

import duckdb

from saki import TABLES, Saki

SELECTIVITIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# c_acctbal is spread evenly over -999.99 to 9999.99.
LOWEST, CENTS = -99_999, 1_099_999


def add_arguments(parser) -> None:
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--page-size", type=int, default=16384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)


def query(selectivity: float, seed: int = 1) -> str:
    """The join for a range of balances that holds this share of the customers: the one of saki's own experiment."""
    width = min(max(round(CENTS * selectivity), 1), CENTS)
    low = LOWEST + ((seed * 0x9E3779B97F4A7C15 & (1 << 64) - 1) * (CENTS - width + 1) >> 64)
    return (
        "SELECT count(*), sum(l_quantity) FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND "
        f"o_orderkey = l_orderkey AND c_acctbal BETWEEN {low / 100:.2f} AND {(low + width - 1) / 100:.2f}"
    )


def run(arguments, _root: pathlib.Path) -> int:
    saki = Saki(arguments.saki.resolve(), arguments.data / f"tpch-{arguments.scale:g}-{arguments.page_size}.saki")
    saki.load_tpch(arguments.scale, arguments.page_size)
    files = arguments.data / f"tpch-{arguments.scale:g}-parquet" / str(arguments.page_size)
    saki.export(files)
    database = arguments.data / f"tpch-{arguments.scale:g}.duckdb"
    if not database.exists():
        connection = duckdb.connect(str(database))
        for table in TABLES:
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{files / table}.parquet')")
        connection.close()
    rows, wrong = [], 0
    print(f"DuckDB {duckdb.__version__}, {arguments.threads} threads, scale factor {arguments.scale:g}; medians of {arguments.repeat}")
    print(f"{'selectivity':>12} {'cold s':>8} {'hot s':>8}   same answer as saki")
    for selectivity in SELECTIVITIES:
        text = query(selectivity)
        cold, hot, how = [], [], ""
        for _ in range(arguments.repeat):
            how = drop_page_cache(database)
            connection = duckdb.connect(str(database), read_only=True, config={"threads": arguments.threads})
            for times in (cold, hot):
                started = time.monotonic()
                answer = connection.execute(text).fetchall()
                times.append(time.monotonic() - started)
            connection.close()
        path = arguments.data / "answer.parquet"
        saki.run(f"COPY ({text}) TO '{path}'")
        same = duckdb.connect().execute(f"SELECT * FROM read_parquet('{path}')").fetchall() == answer
        wrong += not same
        rows.append({"selectivity": selectivity, "cold_seconds": statistics.median(cold), "hot_seconds": statistics.median(hot)})
        print(f"{selectivity * 100:>11g}% {rows[-1]['cold_seconds']:>8.3f} {rows[-1]['hot_seconds']:>8.3f}   {'yes' if same else 'NO'}", flush=True)
    print(f"cold: new process state, {how}")
    if arguments.json:
        report = {"engine": f"DuckDB {duckdb.__version__}", "threads": arguments.threads, "scale": arguments.scale, "cold": how, "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if wrong else 0


def drop_page_cache(database: pathlib.Path) -> str:
    """Makes the system forget the file's pages; says how."""
    os.sync()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n")
        return "the system's page cache dropped"
    except OSError:
        with database.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return "the file's pages given up by posix_fadvise (dropping all of the cache is not permitted)"
