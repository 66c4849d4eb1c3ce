"""Compares saki with other engines on the same data: answers, then time.

`tpch`  the 22 queries over Parquet files that saki wrote, in every execution mode and page size
`join`  the three-table join of the paper over selectivities, cold, against DuckDB's native tables
"""

import argparse
import pathlib
import sys

import join
import saki
import tpch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saki", type=pathlib.Path, default=ROOT / "target/release/saki", help="the program to test")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "target/bench-data/peers", help="where databases and files go")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (tpch, join):
        command.add_arguments(commands.add_parser(command.__name__, help=command.__doc__))
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    try:
        return {"tpch": tpch.run, "join": join.run}[arguments.command](arguments, ROOT)
    except saki.Failed as failure:
        print(f"peers: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
