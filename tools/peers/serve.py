"""Another engine at a program's service: requests on standard input, answers on standard output, a line of JSON each.

```text
first of all                             {"engine": "DuckDB 2.0.0"}
{"run": "SELECT …", "cold": true}        {"seconds": 0.12, "rows": 4, "first": ["7", "12.00"], "cold": "how"}
{"profile": "SELECT …"}                  {"plan": "…"}
whatever goes wrong                      {"error": "…"}
```
"""

import json
import pathlib
import sys

from duck import DuckDB
from postgresql import PostgreSQL

ENGINES = {"duckdb": DuckDB, "postgresql": PostgreSQL}


def add_arguments(parser) -> None:
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--tables", type=pathlib.Path, required=True, help="directory of Parquet files, and schema.sql")
    parser.add_argument("--threads", type=int, default=2)


def run(arguments, _root: pathlib.Path) -> int:
    try:
        engine = ENGINES[arguments.engine](arguments.tables, arguments.data, arguments.threads)
        engine.start()
    except Exception as problem:
        answer({"error": str(problem)})
        return 1
    answer({"engine": engine.name})
    try:
        for line in sys.stdin:
            try:
                answer(served(engine, json.loads(line)))
            except Exception as problem:
                answer({"error": str(problem)})
    finally:
        engine.stop()
    return 0


def served(engine, request: dict) -> dict:
    if "profile" in request:
        engine.start()
        return {"plan": engine.profile(request["profile"])}
    how = engine.start_cold() if request.get("cold") else engine.start()
    seconds, rows = engine.run(request["run"])
    first = [None if value is None else str(value) for value in rows[0]] if rows else []
    return {"seconds": seconds, "rows": len(rows), "first": first, "cold": how}


def answer(what: dict) -> None:
    print(json.dumps(what), flush=True)
