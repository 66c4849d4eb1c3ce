"""What all checks through psycopg 3 need."""

import psycopg


def connect(**how) -> psycopg.Connection:
    """The rest is in the environment."""
    return psycopg.connect(**how)


def raises(error, call, *arguments) -> psycopg.Error:
    try:
        call(*arguments)
    except error as raised:
        return raised
    raise AssertionError(f"no {error.__name__}: {arguments}")


def table(connection, name: str, columns: str) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"CREATE TABLE {name} ({columns})")
    connection.commit()
