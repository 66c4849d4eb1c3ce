"""Statements that others have collected, which are not part of this project.

  sqllogictest DIRECTORY   files in the format of SQLite's sqllogictest: answers as the files have them
  regress DIRECTORY        PostgreSQL's src/test/regress: what psql shows, of Sakigake and of PostgreSQL
"""

import argparse
import pathlib
import sys

import server
from server import Failed

from . import regress, sqllogictest


def main() -> int:
    parser = argparse.ArgumentParser(prog="corpora", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", choices=["sqllogictest", "regress"])
    parser.add_argument("directory", type=pathlib.Path, help="where the corpus is")
    parser.add_argument("--share", type=float, default=1.0, help="of the queries of sqllogictest, drawn from a seed")
    parser.add_argument("--only", default="", help="files that have this in their paths")
    parser.add_argument("--report", type=pathlib.Path, default=pathlib.Path("corpora.txt"), help="a file for what differs")
    server.add_arguments(parser)
    arguments = parser.parse_args()
    try:
        saki = server.new_server("saki", arguments, False, "corpora-saki")
        # Tables are filled from the corpus's files.
        saki.options = ["--file-dir", arguments.directory.resolve()]
        with saki:
            if arguments.corpus == "sqllogictest":
                return sqllogictest.run(saki, arguments)
            with server.new_server("postgres", arguments, False, "corpora-postgres") as postgres:
                return regress.run({"saki": saki, "postgres": postgres}, arguments)
    except Failed as failure:
        print(f"corpora: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
