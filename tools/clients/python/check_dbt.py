"""dbt over psycopg2: seeds, models that are views, tables and grow, tests, a snapshot, and all of it again."""

import os
import pathlib
import shutil
import sys
import tempfile

import psycopg2
from dbt.cli.main import dbtRunner
from tap import check, equal, run

PROJECT = pathlib.Path(__file__).parent / "projects/dbt"
os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"


def execute(*statements: str) -> list[tuple]:
    """The rows of the last statement."""
    with psycopg2.connect("") as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


class Project:
    """A copy of the project, whose seeds may change, over a schema of its own."""

    def __init__(self, directory: str):
        self.directory = pathlib.Path(directory) / "dbt"
        shutil.copytree(PROJECT, self.directory)
        execute("DROP SCHEMA IF EXISTS dbt_shop CASCADE")
        # dbt writes the database's name before each schema, so it has to be the server's own.
        os.environ["DBT_DATABASE"] = execute("SELECT current_database()")[0][0]

    def __call__(self, command: str, *words: str) -> dict[str, str]:
        """What became of each node."""
        places = ["--project-dir", str(self.directory), "--profiles-dir", str(self.directory), "--log-level", "none"]
        result = dbtRunner().invoke([command, *words, *places])
        if result.exception:
            raise result.exception
        return {each.node.name: each.message if each.status in ("error", "fail") else str(each.status)
                for each in result.result}

    def succeeds(self, command: str, *words: str) -> set[str]:
        """The nodes of a command, all of which went well."""
        found = self(command, *words)
        bad = {name: status for name, status in found.items() if status not in ("success", "pass")}
        equal(bad, {})
        return set(found)

    def add(self, seed: str, text: str) -> None:
        with (self.directory / "seeds" / f"{seed}.csv").open("a") as file:
            file.write(text)

    def replace(self, seed: str, old: str, new: str) -> None:
        path = self.directory / "seeds" / f"{seed}.csv"
        path.write_text(path.read_text().replace(old, new))


@check
def twice():
    with tempfile.TemporaryDirectory() as directory:
        dbt = Project(directory)
        equal(dbt.succeeds("seed"), {"raw_customers", "raw_orders"})
        equal(dbt.succeeds("run"), {"customers", "totals", "added", "appended", "merged"})
        equal(len(dbt.succeeds("test")), 5)
        equal(execute("SELECT name, orders, total::float FROM dbt_shop.totals ORDER BY customer_id"),
              [("Sei", 2, 30.5), ("Murasaki", 2, 8.25), ("Ono", 0, 0.0), ("Izumi", 1, 100.0)])
        dbt.succeeds("snapshot")
        equal(execute("SELECT count(*), count(dbt_valid_to) FROM dbt_shop.history"), [(4, 0)])

        dbt.add("raw_orders", "6,3,2024-04-01,5.00\n")
        dbt.replace("raw_customers", "4,Izumi,FR", "4,Izumi,JP")
        dbt.succeeds("seed")
        dbt.succeeds("run")
        dbt.succeeds("snapshot")
        equal(execute("SELECT count(*), max(id) FROM dbt_shop.added"), [(6, 6)])
        equal(execute("SELECT count(*), max(id) FROM dbt_shop.appended"), [(6, 6)])
        equal(execute("SELECT count(*), max(id) FROM dbt_shop.merged"), [(6, 6)])
        equal(execute("SELECT country, dbt_valid_to IS NULL FROM dbt_shop.history WHERE id = 4 ORDER BY 2"),
              [("FR", False), ("JP", True)])

        dbt.replace("raw_orders", "1,1,2024-01-01,10.50\n", "")
        dbt.succeeds("seed", "--full-refresh")
        dbt.succeeds("run", "--full-refresh")
        equal(execute("SELECT count(*), min(id) FROM dbt_shop.added"), [(5, 2)])
        equal(len(dbt.succeeds("test")), 5)


@check
def failures():
    # A test that finds rows says how many; what comes after a model that fails is left out.
    with tempfile.TemporaryDirectory() as directory:
        dbt = Project(directory)
        dbt.add("raw_orders", "7,9,2024-04-01,-5.00\n")
        dbt.add("raw_customers", "9,Nine,XX\n")
        (dbt.directory / "models/broken.sql").write_text("SELECT nothing AS x FROM {{ ref('totals') }}")
        (dbt.directory / "models/after.sql").write_text("SELECT x FROM {{ ref('broken') }}")
        dbt.succeeds("seed")
        found = dbt("run")
        assert 'column "nothing" does not exist' in found["broken"], found
        equal((found["after"], found["added"]), ("skipped", "success"))
        found = dbt("test")
        for failed in ("no_negative_totals", "accepted_values_customers_country__JP__FR__none"):
            equal(found[failed], "Got 1 result, configured to fail if != 0")


if __name__ == "__main__":
    sys.exit(run())
