"""PostgreSQL in a cluster of its own, made once from Parquet files and the schema beside them.

The server listens on a socket in its data directory only, reads with as many workers as there are threads, and has
as much of its own cache as saki has by default. It refuses to run as root: there it runs as the user `postgres`.
"""

import os
import pathlib
import shutil
import subprocess
import time

import duckdb

from system import forget

PROGRAMS = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
SETTINGS = """
listen_addresses = ''
shared_buffers = 256MB
work_mem = 256MB
maintenance_work_mem = 512MB
max_wal_size = 8GB
random_page_cost = 1.1
effective_io_concurrency = 256
effective_cache_size = 8GB
"""
# Printed by psql after every answer.
END = "--- end of the answer ---"


class PostgreSQL:
    """One cluster and one connection."""

    def __init__(self, tables: pathlib.Path, data: pathlib.Path, threads: int):
        found = shutil.which("pg_ctl")
        self.programs = pathlib.Path(found).resolve().parent if found else (PROGRAMS or [None])[-1]
        if self.programs is None:
            raise FileNotFoundError("PostgreSQL is not installed")
        self.name = self._call("postgres", "--version").strip()
        self.cluster = (data / f"{tables.name}.postgresql").resolve()
        self.threads = threads
        self.psql = None
        if not self.cluster.exists():
            self._load(tables)

    def start(self) -> None:
        """Goes on with what has been cached."""
        if self.psql is None:
            self._serve()

    def start_cold(self) -> str:
        """Begins again with nothing cached; says how."""
        self.stop()
        how = forget(self.cluster)
        self.start()
        return f"the server started again, {how}"

    def run(self, sql: str) -> tuple[float, list]:
        """Seconds until the answer has come through the socket, and its rows as text."""
        started = time.monotonic()
        lines = self._ask(sql)
        return time.monotonic() - started, [line.split("|") for line in lines]

    def profile(self, sql: str) -> str:
        return "\n".join(self._ask(f"EXPLAIN (ANALYZE, BUFFERS) {sql}"))

    def stop(self) -> None:
        if self.psql is not None:
            self.psql.stdin.close()
            self.psql.wait()
            self.psql = None
            self._call("pg_ctl", "--pgdata", self.cluster, "--mode", "fast", "--wait", "stop")

    def _serve(self) -> None:
        options = f"-k {self.cluster} -c max_parallel_workers_per_gather={self.threads}"
        log = self.cluster / "server.log"
        self._call("pg_ctl", "--pgdata", self.cluster, "--log", log, "--options", options, "--wait", "start")
        command = ["psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--host", self.cluster, "postgres"]
        # Errors come where the answer would.
        self.psql = subprocess.Popen(
            [*self._user(), *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd=self.cluster,
        )
        self._ask("SELECT 1")

    def _ask(self, sql: str) -> list[str]:
        print(f"{sql};\n\\echo {END}", file=self.psql.stdin, flush=True)
        lines = []
        for line in self.psql.stdout:
            if line.rstrip("\n") != END:
                lines.append(line.rstrip("\n"))
            elif any(line.startswith("ERROR:") for line in lines):
                raise RuntimeError("\n".join(lines))
            else:
                return lines
        raise EOFError(f"psql has ended: {lines}")

    def _load(self, tables: pathlib.Path) -> None:
        # Renamed when it is whole, so that what exists is complete.
        whole, self.cluster = self.cluster, self.cluster.with_name(f"{self.cluster.name}.unfinished")
        shutil.rmtree(self.cluster, ignore_errors=True)
        self.cluster.mkdir(parents=True)
        if os.geteuid() == 0:
            shutil.chown(self.cluster, "postgres", "postgres")
        self._call("initdb", "--pgdata", self.cluster, "--username", "postgres", "--no-locale", "--encoding", "UTF8")
        with (self.cluster / "postgresql.conf").open("a") as configuration:
            configuration.write(SETTINGS)
        self._serve()
        try:
            self._fill(tables)
        finally:
            self.stop()
        self.cluster = self.cluster.rename(whole)

    def _fill(self, tables: pathlib.Path) -> None:
        schema = (tables / "schema.sql").read_text().split(";\n")
        for statement in schema:
            if statement.startswith("CREATE TABLE"):
                self._ask(statement)
        rows = self.cluster / "rows.csv"
        for path in sorted(tables.glob("*.parquet")):
            duckdb.execute(f"COPY (SELECT * FROM read_parquet('{path}')) TO '{rows}' (HEADER false)")
            self._ask(f"COPY {path.stem} FROM '{rows}' (FORMAT csv)")
            rows.unlink()
        indexes = [statement for statement in schema if not statement.startswith("CREATE TABLE")]
        for statement in [*indexes, "VACUUM (ANALYZE, FREEZE)", "CHECKPOINT"]:
            self._ask(statement)

    def _user(self) -> list[str]:
        return ["runuser", "--user", "postgres", "--"] if os.geteuid() == 0 else []

    def _call(self, program: str, *arguments) -> str:
        command = [*self._user(), str(self.programs / program), *map(str, arguments)]
        # The server inherits what pg_ctl has: a pipe to us would never end.
        quiet = program == "pg_ctl"
        done = subprocess.run(command, text=True, cwd="/", stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL if quiet else subprocess.PIPE,
                              stderr=subprocess.DEVNULL if quiet else subprocess.PIPE)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed ({done.returncode}): {done.stderr or arguments}")
        return done.stdout or ""
