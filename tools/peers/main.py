"""Compares saki with other engines on the same data: answers, then time.

`tpch`  the 22 queries over Parquet files that saki wrote, in every execution mode and page size
`serve` another engine on tables of its own, for `saki-bench tpch --duckdb` and `saki-bench join`, which compare times
"""

import argparse
import pathlib
import sys

import saki
import serve
import tpch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saki", type=pathlib.Path, default=ROOT / "target/release/saki", help="the program to test")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "target/bench-data/peers", help="where databases and files go")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (tpch, serve):
        command.add_arguments(commands.add_parser(command.__name__, help=command.__doc__))
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    try:
        return {"tpch": tpch.run, "serve": serve.run}[arguments.command](arguments, ROOT)
    except saki.Failed as failure:
        print(f"peers: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
