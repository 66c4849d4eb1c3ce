"""The tables that random statements are about, and their rows; the same for every case."""

import random

TABLES = {
    "items": {"id": "int", "i": "int", "n": "numeric", "f": "float", "t": "text", "d": "date", "p": "bool",
              "a": "ints"},
    "orders": {"id": "int", "item": "int", "quantity": "int", "price": "numeric", "at": "timestamp", "note": "text",
               "made": "timestamptz", "words": "texts"},
    "tags": {"item": "int", "tag": "text", "weight": "float", "since": "date"},
}
KEYS = {"items": ["id"], "orders": ["id"], "tags": ["item", "tag"]}
# What refers to what, so that joins find something.
REFERENCES = [("orders", "item", "items", "id"), ("tags", "item", "items", "id"), ("tags", "item", "orders", "item")]
CREATE = [
    "DROP TABLE IF EXISTS tags", "DROP TABLE IF EXISTS orders", "DROP TABLE IF EXISTS items",
    "CREATE TABLE items (id int PRIMARY KEY, i int, n numeric(12,3), f double precision, t varchar(12), d date, p boolean, a int[],"
    " CONSTRAINT items_i CHECK (i > -1000))",
    "CREATE TABLE orders (id int PRIMARY KEY, item int REFERENCES items (id), quantity int NOT NULL, price numeric(10,2),"
    " at timestamp, note text, made timestamptz, words text[])",
    "CREATE TABLE tags (item int, tag text, weight double precision, since date, PRIMARY KEY (item, tag))",
    "CREATE INDEX items_t ON items (t)", "CREATE INDEX items_a ON items (a)", "CREATE INDEX orders_item ON orders (item)", "CREATE INDEX orders_at ON orders (at, quantity)",
]
WORDS = ["a", "b", "ab", "abc", "B", "", " x ", "ä", "z%", "Zoo", "10"]


def rows(seed: int) -> list[str]:
    """Statements that fill the empty tables."""
    source = random.Random(seed)

    def maybe(text: str) -> str:
        return "NULL" if source.random() < 0.15 else text

    def word() -> str:
        return maybe(f"'{source.choice(WORDS)}'")

    def date() -> str:
        return f"DATE '2024-{source.randint(1, 12):02}-{source.randint(1, 28):02}'"

    def hour() -> str:
        return f"{date().replace('DATE', 'TIMESTAMP')[:-1]} {source.randint(0, 23):02}:30:00'"

    def instant() -> str:
        return f"{hour().replace('TIMESTAMP', 'TIMESTAMPTZ')[:-1]}{source.choice(['+00', '-05', '+05:30'])}'"

    def truth() -> str:
        return source.choice(["true", "false"])

    def array(values: list[str]) -> str:
        return maybe("'{%s}'" % ",".join(source.choice(values) for _ in range(source.choice([0, 1, 1, 2, 3]))))

    def fraction(least: int, most: int, of: int) -> str:
        return maybe(str(source.randint(least, most) / of))

    items = [
        f"({id}, {maybe(str(source.randint(-9, 20)))}, {fraction(-9999, 99999, 1000)}, {fraction(-40, 40, 4)}, {word()},"
        f" {maybe(date())}, {maybe(truth())}, {array(['1', '2', '3', 'NULL'])})" for id in range(1, 41)]
    orders = [
        f"({id}, {maybe(str(source.randint(1, 40)))}, {source.randint(0, 9)}, {fraction(0, 9999, 100)}, {maybe(hour())}, {word()}, {maybe(instant())},"
        f" {array(['a', 'b', 'ab', 'NULL'])})"
        for id in range(1, 61)]
    pairs = sorted({(source.randint(1, 45), source.choice(WORDS)) for _ in range(30)})
    tags = [f"({item}, '{tag}', {fraction(-8, 8, 2)}, {maybe(date())})" for item, tag in pairs]
    filled = {"items": items, "orders": orders, "tags": tags}
    return [f"INSERT INTO {table} VALUES {', '.join(values)}" for table, values in filled.items()]


EMPTY = ["DELETE FROM tags", "DELETE FROM orders", "DELETE FROM items"]
