"""DuckDB on native tables of its own, made once from Parquet files."""

import pathlib
import time

import duckdb

from system import forget


class DuckDB:
    """One database file, opened for reading."""

    name = f"DuckDB {duckdb.__version__}"

    def __init__(self, tables: pathlib.Path, data: pathlib.Path, threads: int):
        self.database = data / f"{tables.name}.duckdb"
        self.threads = threads
        self.connection = None
        if not self.database.exists():
            self._load(tables)

    def start(self) -> None:
        """Goes on with what has been cached."""
        if self.connection is None:
            self.connection = duckdb.connect(str(self.database), read_only=True, config={"threads": self.threads})

    def start_cold(self) -> str:
        """Begins again with nothing cached; says how."""
        self.stop()
        how = forget(self.database)
        self.start()
        return f"a new instance, {how}"

    def run(self, sql: str) -> tuple[float, list]:
        """Seconds until the whole result is there, and its rows. Turning them into Python's takes no part in the time."""
        started = time.monotonic()
        self.connection.execute(sql)
        seconds = time.monotonic() - started
        return seconds, self.connection.fetchall()

    def profile(self, sql: str) -> str:
        return self.connection.execute(f"EXPLAIN ANALYZE {sql}").fetchall()[0][1]

    def stop(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _load(self, tables: pathlib.Path) -> None:
        # Renamed when it is whole, so that what exists is complete.
        unfinished = self.database.with_name(f"{self.database.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        connection = duckdb.connect(str(unfinished))
        for path in sorted(tables.glob("*.parquet")):
            connection.execute(f"CREATE TABLE {path.stem} AS SELECT * FROM read_parquet('{path}')")
        connection.close()
        unfinished.rename(self.database)
