"""saki as a program: databases, statements, and tables as Parquet files."""

import pathlib
import subprocess

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")


class Failed(Exception):
    """saki refused; the message is its own."""


class Saki:
    """One database, reached through the command line as a user would."""

    def __init__(self, program: pathlib.Path, database: pathlib.Path):
        self.program = program
        self.database = database

    def load_tpch(self, scale: float, page_size: int) -> None:
        """Makes the database, unless it is there."""
        if self.database.exists():
            return
        # Renamed when it is whole, so that what exists is complete.
        unfinished = self.database.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        self._call("create", "--page-size", str(page_size), unfinished)
        self._call("load", "tpch", "--db", unfinished, "--sf", str(scale))
        unfinished.rename(self.database)

    def run(self, *statements: str) -> str:
        """Runs statements in one session."""
        return self._call("sql", "--db", self.database, "-c", ";\n".join(statements))

    def export(self, directory: pathlib.Path) -> None:
        """Writes every table as a Parquet file."""
        directory.mkdir(parents=True, exist_ok=True)
        for table in TABLES:
            path = directory / f"{table}.parquet"
            if not path.exists():
                unfinished = path.with_name(f"unfinished-{table}.parquet")
                self.run(f"COPY {table} TO '{unfinished}'")
                unfinished.rename(path)

    def _call(self, *arguments) -> str:
        command = [str(self.program), *map(str, arguments)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            raise Failed(f"{self.program}: {error.strerror}; build it, or name it with --saki") from error
        if done.returncode != 0:
            shown = " ".join(command)
            raise Failed(f"{shown[:300]}\n  exit status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout
