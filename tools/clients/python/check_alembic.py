"""Alembic over SQLAlchemy and psycopg: revisions up and down, with rows, and what autogenerate finds afterwards."""

import contextlib
import datetime
import decimal
import pathlib
import sys

import sqlalchemy as sa
from alembic import command, config, migration
from alembic.autogenerate import compare_metadata
from tap import check, equal, run

PROJECT = pathlib.Path(__file__).parent / "projects/alembic"
sys.path.insert(0, str(PROJECT))
import models  # noqa: E402  (of the project)

ENGINE = sa.create_engine("postgresql+psycopg://")
TABLES = ("al_tags", "al_orders", "al_customers", "al_version")


@contextlib.contextmanager
def alembic():
    """Alembic's commands, on one connection, and that."""
    with ENGINE.connect() as connection:
        settings = config.Config(attributes={"connection": connection})
        settings.set_main_option("script_location", str(PROJECT))
        yield settings, connection


def fresh() -> None:
    with ENGINE.begin() as connection:
        for table in TABLES:
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {table}"))


def up(revision: str) -> None:
    with alembic() as (settings, _):
        command.upgrade(settings, revision)


def down(revision: str) -> None:
    with alembic() as (settings, _):
        command.downgrade(settings, revision)


def rows(statement: str) -> list[tuple]:
    with ENGINE.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


def shape() -> dict[str, list]:
    """Names of everything there is of the tables, with the types of columns."""
    found, inspector, dialect = {}, sa.inspect(ENGINE), ENGINE.dialect
    for table in TABLES[:-1]:
        if not inspector.has_table(table):
            continue
        found[table] = sorted(
            [f"{column['name']} {column['type'].compile(dialect)}{'' if column['nullable'] else ' NOT NULL'}"
             f"{' DEFAULT' if column['default'] else ''}" for column in inspector.get_columns(table)]
            + [index["name"] for index in inspector.get_indexes(table)]
            + [constraint["name"] for constraint in inspector.get_check_constraints(table)
               + inspector.get_foreign_keys(table) + inspector.get_unique_constraints(table)])
    return found


@check
def upgrade():
    fresh()
    up("head")
    equal(rows("SELECT version_num FROM al_version"), [("0004",)])
    equal(rows("SELECT count(*), sum(total), count(*) FILTER (WHERE shipped), min(placed), max(placed) FROM al_orders"),
          [(1000, decimal.Decimal("625625.0000"), 500, datetime.date(2024, 1, 2), datetime.date(2026, 9, 27))])
    equal(rows("SELECT count(*), sum(credit), count(DISTINCT key), min(country), max(full_name) FROM al_customers"),
          [(100, decimal.Decimal("3367.00"), 100, "JP", "Customer 99")])
    equal(rows("SELECT count(*), sum(weight) FROM al_tags"), [(200, 300.0)])
    equal(rows("SELECT obj_description('al_customers'::regclass), col_description('al_customers'::regclass, 2)"),
          [("Who orders", "As on the letter")])


@check
def no_difference():
    # What autogenerate would write is nothing; of a database that lacks a revision it is that revision.
    fresh()
    up("head")
    with alembic() as (settings, _):
        command.check(settings)
    down("0003")
    with ENGINE.connect() as connection:
        context = migration.MigrationContext.configure(connection, opts={
            "version_table": "al_version", "compare_server_default": True,
            "include_name": lambda name, kind, _: kind != "table" or name.startswith("al_")})
        found = compare_metadata(context, models.Base.metadata)
    kinds = sorted(each[0] if isinstance(each, tuple) else each[0][0] for each in found)
    equal(kinds, ["add_column", "add_constraint", "add_fk", "add_index", "add_index", "add_index",
                  "add_table_comment", "modify_comment", "remove_fk", "remove_index"])


@check
def downgrade():
    # Each revision down and up again leaves what was there.
    fresh()
    shapes, sums = {}, "SELECT count(*) FROM al_orders JOIN al_customers c ON c.id = {}"
    for revision, customer in {"0001": "customer", "0002": "customer_id", "0003": "customer_id"}.items():
        up(revision)
        shapes[revision] = shape()
        equal(rows(sums.format(customer)), [(1000,)])
    up("head")
    for revision in ("0003", "0002", "0001"):
        down(revision)
        equal(rows("SELECT version_num FROM al_version"), [(revision,)])
        equal(shape(), shapes[revision])
    equal(rows("SELECT sum(cents), min(placed) FROM al_orders"), [(62562500, "2024-01-02")])
    up("head")
    equal(rows("SELECT sum(total) FROM al_orders"), [(decimal.Decimal("625625.0000"),)])
    down("base")
    equal((shape(), rows("SELECT version_num FROM al_version")), ({}, []))


@check
def failed_revision():
    # A revision that fails half way leaves nothing, and can be run again.
    fresh()
    up("0003")
    before = shape()
    with ENGINE.begin() as connection:
        connection.execute(sa.text("UPDATE al_customers SET email = 'same@example.com'"))
    try:
        up("head")
    except sa.exc.IntegrityError as error:
        equal(error.orig.sqlstate, "23505")
    else:
        raise AssertionError("equal addresses became unique")
    equal((shape(), rows("SELECT version_num FROM al_version")), (before, [("0003",)]))
    with ENGINE.begin() as connection:
        connection.execute(sa.text("UPDATE al_customers SET email = id || '@example.com'"))
    up("head")
    equal(rows("SELECT version_num FROM al_version"), [("0004",)])


if __name__ == "__main__":
    sys.exit(run())
