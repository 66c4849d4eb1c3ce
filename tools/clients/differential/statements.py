"""Random statements over the schema: queries, changes, and statements that have to fail in the same way."""

import random

from .expressions import TYPES, ZONES, Expressions
from .schema import KEYS, REFERENCES, TABLES
from .sql import Sql, clause, fixed, listed

# `{int}` and so on stand for expressions of that type.
AGGREGATES = {
    "int": [
        "count(*)", "count({text})", "count(DISTINCT {int})", "sum({int})", "min({int})", "max({int})",
        "sum({int}) FILTER (WHERE {bool})",
    ],
    "numeric": ["sum({numeric})", "avg({numeric})", "avg({int})", "min({numeric})", "max({numeric})"],
    "float": ["sum({float})", "avg({float})", "min({float})", "stddev({float})"],
    "text": ["min({text})", "max({text})"],
    "date": ["min({date})", "max({date})"],
    "timestamp": ["min({timestamp})", "max({timestamp})"],
    "timestamptz": ["min({timestamptz})", "max({timestamptz})"],
    "interval": ["min({interval})", "max({interval})", "sum({interval})"],
    "ints": ["min({ints})", "max({ints})", "count(DISTINCT {ints})"],
    "texts": ["min({texts})", "max({texts})"],
    "bool": ["bool_and({bool})", "bool_or({bool})"],
}
WINDOWS = [
    "row_number() OVER (ORDER BY {key})", "rank() OVER (PARTITION BY {text} ORDER BY {int})", "dense_rank() OVER (ORDER BY {text})",
    "sum({int}) OVER (PARTITION BY {text})", "lag({int}) OVER (ORDER BY {key})", "count(*) OVER (ORDER BY {int})",
    "first_value({text}) OVER (PARTITION BY {bool} ORDER BY {key})",
]
WRONG = [
    "SELECT 1 / 0", "SELECT 1 % 0", "SELECT 1.0 / 0", "SELECT 'x'::int", "SELECT '2024-13-01'::date", "SELECT 'maybe'::boolean",
    "SELECT 99999::smallint", "SELECT 2147483647 + 1", "SELECT 9223372036854775807 + 1", "SELECT 1e400::float8",
    "SELECT sqrt(-1::float8)", "SELECT ln(0::float8)", "SELECT 123456.7::numeric(4,1)", "SELECT nothing FROM items",
    "SELECT * FROM nowhere", "SELECT no_such_function(1)", "SELECT id FROM items, orders", "SELECT i, count(*) FROM items",
    "SELECT count(*) FROM items WHERE sum(i) > 1", "SELECT (SELECT id FROM items)", "SELECT (1, 2) = (1, 2, 3)", "SELECT 1 UNION SELECT 'a'",
    "SELECT 1 UNION SELECT 1, 2", "SELECT id FROM items ORDER BY 7", "SELECT FROM WHERE", "INSERT INTO items (id) VALUES (1)",
    "INSERT INTO items (id) VALUES (NULL)", "INSERT INTO items (id, i) VALUES (900, -5000)",
    "INSERT INTO items (id, t) VALUES (900, 'thirteen char')",
    "INSERT INTO items (id, nothing) VALUES (900, 1)", "INSERT INTO items (id, id) VALUES (1, 1)", "INSERT INTO items (id, i) VALUES (900)",
    "INSERT INTO orders VALUES (900, 1, NULL)", "INSERT INTO orders VALUES (900, 999, 1)", "DELETE FROM items", "UPDATE items SET id = 1",
    "UPDATE orders SET quantity = NULL", "UPDATE orders SET item = 999", "INSERT INTO items VALUES (900, 'x')", "SELECT i + t FROM items",
    "SELECT NOT i FROM items", "SELECT items.nothing FROM items", "SELECT x.id FROM items", "SELECT sum(t) FROM items",
    "SELECT * FROM items LIMIT -1",
    "INSERT INTO items (id) VALUES (901), (901) ON CONFLICT (id) DO UPDATE SET i = 1", "INSERT INTO items (id) VALUES (1) ON CONFLICT (t) DO NOTHING",
]


class Statements:
    """A source of statements."""

    def __init__(self, seed: int):
        self.source = random.Random(seed)
        self.expressions = Expressions(self.source)

    def case(self) -> list[Sql]:
        """One to five statements, in some time zone; after a change, all rows of its table."""
        statements = []
        if self.source.random() < 0.5:
            statements.append(fixed(f"SET TIME ZONE '{self.source.choice(ZONES)}'"))
        for _ in range(self.source.randint(1, 5)):
            kind = self.source.random()
            if kind < 0.55:
                statements.append(self.query())
            elif kind < 0.62:
                statements.append(fixed(self.source.choice(WRONG)))
            else:
                table = self.source.choice(list(TABLES))
                change = self.source.choice([self.insert, self.insert, self.update, self.delete])
                keys = ", ".join(KEYS[table])
                statements += [change(table), fixed(f"SELECT * FROM {table} ORDER BY {keys}")]
        return statements

    def query(self) -> Sql:
        choice = self.source.random()
        if choice < 0.12:
            return self._set_operation()
        if choice < 0.4:
            return self._grouped()
        return self._plain()

    def _plain(self) -> Sql:
        source, columns, key = self._from()
        types = [self.source.choice(TYPES) for _ in range(self.source.randint(1, 4))]
        items = [self._make(type, columns) for type in types]
        if self.source.random() < 0.15:
            items.append(self._fill(self.source.choice(WINDOWS).replace("{key}", key), "window", columns, 1))
        distinct = clause("DISTINCT ") if self.source.random() < 0.15 else clause()
        return fixed("SELECT ", distinct, listed(items), " FROM ", source, self._where(columns), self._ordered(len(items)))

    def _grouped(self) -> Sql:
        source, columns, _ = self._from()
        keys = [self._make(self.source.choice(TYPES), columns, 1) for _ in range(self.source.randint(0, 2))]
        totals = [self._aggregate(columns) for _ in range(self.source.randint(1, 3))]
        having = clause(" HAVING count(*) > ", self._make("int", {}, 0)) if self.source.random() < 0.2 else clause()
        # By position: the same expression twice need not be the same parameter.
        by = clause(" GROUP BY ", ", ".join(str(at + 1) for at in range(len(keys)))) if keys else clause()
        items = listed([*keys, *totals])
        return fixed("SELECT ", items, " FROM ", source, self._where(columns), by, having, self._ordered(len(items.parts)))

    def _set_operation(self) -> Sql:
        types = [self.source.choice(TYPES) for _ in range(self.source.randint(1, 3))]
        sides = []
        for _ in range(2):
            source, columns, _ = self._from()
            items = self._joined([self._make(type, columns, 2) for type in types])
            sides.append(fixed("SELECT ", *items, " FROM ", source, self._where(columns)))
        operation = self.source.choice([" UNION ", " UNION ALL ", " INTERSECT ", " EXCEPT ", " EXCEPT ALL ", " INTERSECT ALL "])
        return fixed(sides[0], operation, sides[1], self._ordered(len(types)))

    def insert(self, table: str) -> Sql:
        columns = TABLES[table]
        if self.source.random() < 0.3:
            # New keys, all different: which row wins is no question of order.
            values = [self._moved(name, name) if name in KEYS[table] else self._make(type, columns, 1) for name, type in columns.items()]
            rows = fixed("SELECT ", *self._joined(values), f" FROM {table}", self._where(columns))
        else:
            rows = fixed("VALUES ", listed([self._row(table) for _ in range(self.source.randint(1, 3))]))
        return fixed(f"INSERT INTO {table} ({', '.join(columns)}) ", rows, self._conflict(table), self._returning(table, columns))

    def update(self, table: str) -> Sql:
        columns = {f"{table}.{name}": type for name, type in TABLES[table].items()}
        others = [(own, other, key) for owner, own, other, key in REFERENCES if owner == table and key in KEYS[other]]
        extra = clause()
        where = self._where(columns)
        if others and self.source.random() < 0.3:
            # By the other's key: at most one row of it for each of ours.
            own, other, key = self.source.choice(others)
            columns = columns | {f"o.{name}": type for name, type in TABLES[other].items()}
            extra = fixed(f" FROM {other} AS o")
            where = fixed(f" WHERE {table}.{own} = o.{key} AND ", self._make("bool", columns, 2))
        changed = self.source.sample(list(TABLES[table]), self.source.randint(1, 2))
        sets = [fixed(f"{name} = ", self._changed(table, name, columns)) for name in changed]
        return fixed(f"UPDATE {table} SET ", listed(sets), extra, where, self._returning(table, columns))

    def delete(self, table: str) -> Sql:
        columns = {f"{table}.{name}": type for name, type in TABLES[table].items()}
        return fixed(f"DELETE FROM {table}", self._where(columns), self._returning(table, columns))

    def _changed(self, table: str, name: str, columns: dict[str, str]) -> Sql:
        if name in KEYS[table]:
            return self._moved(name, f"{table}.{name}")
        return self._make(TABLES[table][name], columns, 2)

    def _moved(self, name: str, column: str) -> Sql:
        return fixed(f"({column} || '+')" if name == "tag" else f"({column} + 1000)")

    def _row(self, table: str) -> Sql:
        key = {"id": self.source.randint(30, 80), "item": self.source.randint(1, 45)}
        values = [str(key[name]) if name in KEYS[table] and name in key else self._make(type, {}, 1) for name, type in TABLES[table].items()]
        return fixed("(", *self._joined(values), ")")

    def _conflict(self, table: str) -> Sql:
        keys = ", ".join(KEYS[table])
        choice = self.source.random()
        if choice < 0.4:
            return clause()
        if choice < 0.6:
            return clause(self.source.choice([" ON CONFLICT DO NOTHING", f" ON CONFLICT ({keys}) DO NOTHING"]))
        name = self.source.choice([name for name in TABLES[table] if name not in KEYS[table]])
        columns = {f"{side}.{column}": type for side in (table, "excluded") for column, type in TABLES[table].items()}
        where = clause(" WHERE ", self._make("bool", columns, 1)) if self.source.random() < 0.3 else clause()
        return clause(f" ON CONFLICT ({keys}) DO UPDATE SET {name} = ", self._make(TABLES[table][name], columns, 1), where)

    def _returning(self, table: str, columns: dict[str, str]) -> Sql:
        if self.source.random() < 0.6:
            return clause()
        keys = ", ".join(f"{table}.{key}" for key in KEYS[table])
        return clause(f" RETURNING {keys}, ", self._make(self.source.choice(TYPES), columns, 1))

    def _from(self) -> tuple[Sql, dict[str, str], str]:
        """Tables joined, the columns in reach, and an order of all rows."""
        tables = [self.source.choice(list(TABLES)) for _ in range(self.source.choice([1, 1, 1, 2, 2, 3]))]
        columns, keys, parts = {}, [], []
        for at, table in enumerate(tables):
            alias = f"{table[0]}{at}"
            new = {f"{alias}.{name}": type for name, type in TABLES[table].items()}
            spelled = f"{table} AS {alias}"
            if self.source.random() < 0.1:
                inner = self._make("bool", TABLES[table], 1)
                spelled = fixed(f"(SELECT * FROM {table} WHERE ", inner, f") AS {alias}")
            if at == 0:
                parts.append(spelled)
            else:
                kind = self.source.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
                parts += [f" {kind} ", spelled, " ON ", self._matched(tables[:at], table, alias), *self._more(kind, columns | new)]
            columns |= new
            keys += [f"{alias}.{key}" for key in KEYS[table]]
        return fixed(*parts), columns, ", ".join(keys)

    def _matched(self, before: list[str], table: str, alias: str) -> str:
        """An equality that a full join can use, too."""
        for at, other in enumerate(before):
            for one, own, two, key in REFERENCES:
                if (one, two) == (table, other):
                    return f"{alias}.{own} = {other[0]}{at}.{key}"
                if (two, one) == (table, other):
                    return f"{alias}.{key} = {other[0]}{at}.{own}"
        first = list(TABLES[before[0]])[0]
        return f"{alias}.{list(TABLES[table])[0]} = {before[0][0]}0.{first}"

    def _more(self, kind: str, columns: dict[str, str]) -> list:
        """PostgreSQL knows full joins by equalities only."""
        if kind == "FULL JOIN" or self.source.random() < 0.6:
            return []
        return [clause(" AND ", self._make("bool", columns, 1))]

    def _where(self, columns: dict[str, str]) -> Sql:
        return clause(" WHERE ", self._make("bool", columns)) if self.source.random() < 0.6 else clause()

    def _ordered(self, items: int) -> Sql:
        """By all items, with a limit at times; equal rows cannot be told apart."""
        if self.source.random() < 0.4:
            return clause()
        ends = ["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"]
        order = ", ".join(f"{at + 1}{self.source.choice(ends)}" for at in range(items))
        limit = self.source.choice([clause(), clause(), clause(" LIMIT 5"), clause(" LIMIT 3 OFFSET 2"), clause(" OFFSET 4")])
        return clause(f" ORDER BY {order}", limit)

    def _aggregate(self, columns: dict[str, str]) -> Sql:
        type = self.source.choice(list(AGGREGATES))
        return self._fill(self.source.choice(AGGREGATES[type]), "aggregate", columns, 1)

    def _make(self, type: str, columns: dict[str, str], depth: int = 3) -> Sql:
        return self.expressions.make(type, columns, depth)

    def _fill(self, shape: str, kind: str, columns: dict[str, str], depth: int) -> Sql:
        return self.expressions.fill(shape, kind, columns, depth + 1)

    def _joined(self, values: list) -> list:
        return [part for at, value in enumerate(values) for part in ((", ", value) if at else (value,))]
