"""Random expressions of a wanted type, over the columns in reach.

Their values are defined whatever the order of evaluation: divisors are never zero, and numbers stay small.
"""

import random
import re

from .schema import TABLES, WORDS
from .sql import Sql

TYPES = ("int", "numeric", "float", "text", "date", "timestamp", "bool", "timestamptz", "interval", "ints", "texts")
# Kinds that SQL calls otherwise.
NAMES = {"float": "float8", "ints": "int[]", "texts": "text[]"}
# Zones with and without summer time, and one whose offset has minutes.
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "-3")
FIELDS = ("year", "month", "day", "hour", "minute", "dow", "doy", "week", "isodow", "isoyear", "quarter", "decade", "century")
COMPARED = ("=", "<>", "<", "<=", ">", ">=")
# `{type}` stands for an expression of that type, `{{` for a brace.
SHAPES = {
    "int": [
        "({int} + {int})", "({int} - {int})", "({int} * 3)", "({int} / nullif({int}, 0))", "({int} % nullif({int}, 0))",
        "abs({int})", "(- {int})", "length({text})", "coalesce({int}, {int})", "nullif({int}, {int})", "greatest({int}, {int})",
        "least({int}, {int})", "CASE WHEN {bool} THEN {int} ELSE {int} END", "CASE WHEN {bool} THEN {int} END",
        "CASE {text} WHEN 'a' THEN {int} WHEN {text} THEN 0 END", "CAST({numeric} AS int)", "CAST({bool} AS int)",
        "CAST(extract(year FROM {date}) AS int)", "CAST(extract(month FROM {timestamp}) AS int)", "CAST(CAST({int} AS text) AS int)",
        "CAST(floor({float}) AS int)", "strpos({text}, 'b')", "sign({int})::int",
        *(f"CAST(extract({field} FROM {{timestamptz}}) AS int)" for field in FIELDS),
        "CAST(extract(hour FROM {interval}) AS int)", "({date} - {date})", "cardinality({ints})", "array_length({texts}, 1)", "({ints})[1]",
        "array_position({texts}, {text})",
    ],
    "numeric": [
        "({numeric} + {numeric})", "({numeric} - {int})", "({numeric} * 1.5)", "round({numeric}, 1)", "abs({numeric})",
        "CAST({int} AS numeric(12,2))", "coalesce({numeric}, 0)", "CASE WHEN {bool} THEN {numeric} ELSE {int} END",
        "CAST({float} AS numeric(12,2))", "greatest({numeric}, {numeric})", "round({numeric} / 3, 4)", "floor({numeric})",
        "ceil({numeric})", "trunc({numeric}, 1)", "extract(epoch FROM {interval})", "extract(epoch FROM {timestamptz})",
        "extract(second FROM {timestamp})",
    ],
    "float": [
        "({float} + {float})", "({float} * 0.5::float8)", "sqrt(abs({float}))", "floor({float})", "ceil({float})", "abs({float})",
        "CAST({int} AS float8)", "CAST({numeric} AS float8)", "coalesce({float}, {float})", "power({float}, 2)",
        "({float} / nullif({float}, 0))", "CASE WHEN {bool} THEN {float} END",
        "date_part('epoch', {timestamp})", "date_part('milliseconds', {interval})",
    ],
    "text": [
        "({text} || {text})", "upper({text})", "lower({text})", "substr({text}, 1, 2)", "substring({text} FROM 2)", "trim({text})",
        "replace({text}, 'a', 'yy')", "coalesce({text}, 'none')", "CASE WHEN {bool} THEN {text} ELSE {text} END",
        "CAST({int} AS text)", "left({text}, 2)", "right({text}, 1)", "concat({text}, {int}, {text})", "reverse({text})",
        "lpad({text}, 4, '*')", "repeat({text}, 2)", "CAST({bool} AS text)", "CAST({date} AS text)", "CAST({text} AS varchar(2))",
        "to_char({timestamp}, 'YYYY-MM')", "split_part({text}, 'b', 1)", "nullif({text}, '')",
        "CAST({timestamptz} AS text)", "CAST({timestamp} AS text)", "CAST({interval} AS text)",
        "to_char({timestamptz}, 'YYYY-MM-DD HH24:MI TZ')", "({timestamptz} || {text})",
    ],
    "date": [
        "({date} + 7)", "({date} - 31)", "CAST({timestamp} AS date)", "coalesce({date}, {date})", "greatest({date}, {date})",
        "CASE WHEN {bool} THEN {date} END", "CAST({timestamptz} AS date)", "make_date({int} + 2000, 2, 28)",
    ],
    "timestamp": [
        "date_trunc('month', {timestamp})", "({timestamp} + interval '1 day')", "({timestamp} - interval '2 hours')",
        "CAST({date} AS timestamp)", "coalesce({timestamp}, {timestamp})", "({date} + interval '1 month')",
        "({timestamp} + {interval})", "({timestamptz} AT TIME ZONE 'Asia/Kolkata')", "CAST({timestamptz} AS timestamp)",
        "date_trunc('week', {timestamp})", "date_bin('15 minutes', {timestamp}, TIMESTAMP '2001-01-01')",
    ],
    "timestamptz": [
        "({timestamptz} + {interval})", "({timestamptz} - {interval})", "({timestamp} AT TIME ZONE 'America/New_York')",
        "CAST({timestamp} AS timestamptz)", "CAST({date} AS timestamptz)", "date_trunc('day', {timestamptz})",
        "date_trunc('month', {date})", "date_trunc('day', {timestamptz}, 'Europe/Berlin')", "coalesce({timestamptz}, {date})",
        "greatest({timestamptz}, {timestamp})", "CASE WHEN {bool} THEN {timestamptz} ELSE {timestamp} END",
        "CAST(CAST({timestamptz} AS text) AS timestamptz)",
    ],
    "interval": [
        "({interval} + {interval})", "({interval} * 2)", "(- {interval})", "({timestamp} - {timestamp})", "({timestamptz} - {timestamp})",
        "age({timestamp}, {timestamp})", "age({timestamptz}, {timestamptz})", "justify_hours({interval})", "justify_interval({interval})",
        "make_interval(days => {int})", "CAST(CAST({interval} AS text) AS interval)", "date_trunc('hour', {interval})",
    ],
    "ints": [
        "({ints} || {int})", "({int} || {ints})", "({ints} || {ints})", "array_append({ints}, {int})", "array_remove({ints}, {int})",
        "coalesce({ints}, '{{}}')", "nullif({ints}, {ints})", "CASE WHEN {bool} THEN {ints} ELSE {ints} END", "ARRAY[{int}, {int}]",
        "greatest({ints}, {ints})", "least({ints}, {ints})", "CAST(CAST({ints} AS text) AS int[])", "array_replace({ints}, {int}, {int})",
    ],
    "texts": [
        "({texts} || {texts})", "array_append({texts}, {text})", "array_prepend({text}, {texts})", "coalesce({texts}, {texts})",
        "ARRAY[{text}, {text}]", "CASE WHEN {bool} THEN {texts} END", "array_remove({texts}, {text})", "CAST({ints} AS text[])",
        "string_to_array({text}, 'b')",
    ],
    "bool": [
        "({int} = ANY ({ints}))", "({int} <> ALL ({ints}))", "({text} = ANY ({texts}))", "({ints} @> {ints})", "({ints} && {ints})",
        "({texts} <@ {texts})", "({ints} IS NULL)", "({ints} IN ({ints}, '{{1,2}}'))", "({texts} = '{{a,b}}')", "({ints} IS DISTINCT FROM {ints})",
        "({bool} AND {bool})", "({bool} OR {bool})", "(NOT {bool})", "({bool} IS TRUE)", "({bool} IS NOT FALSE)", "({bool} IS UNKNOWN)",
        "({int} IS NULL)", "({text} IS NOT NULL)", "({int} IS DISTINCT FROM {int})", "({text} IS NOT DISTINCT FROM {text})",
        "({int} BETWEEN {int} AND {int})", "({date} NOT BETWEEN {date} AND {date})", "({text} LIKE 'a%')", "({text} NOT LIKE '_b%')",
        "({text} ILIKE '%B%')", "({int} IN ({int}, 3, NULL))", "({int} NOT IN (1, {int}))", "({text} IN ('a', 'ab', {text}))",
        "({text} ~ '^[a-z]+$')", "starts_with({text}, 'a')", "({int} > {numeric})", "({numeric} < {float})",
        "(({int}, {text}) = ({int}, {text}))", "(({int}, {int}) < ({int}, {int}))", "({timestamp} > {date})",
        "({timestamptz} > {timestamp})", "({timestamptz} = {date})", "({timestamptz} < '2024-06-30 12:00')", "({date} < now())",
        "({timestamptz} IN ('2024-02-01 10:30', {timestamptz}))", "({timestamptz} BETWEEN {date} AND {timestamp})",
    ],
}


def unescaped(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}")


class Expressions:
    """A source of expressions."""

    def __init__(self, source: random.Random):
        self.source = source

    def make(self, kind: str, columns: dict[str, str], depth: int = 3) -> Sql:
        """An expression of a type over columns (name to type), nested at most `depth` times."""
        chance = self.source.random()
        if depth > 0 and chance < 0.04:
            return self._subquery(kind, columns, depth)
        if depth > 0 and kind == "bool" and chance < 0.45:
            type = self.source.choice(TYPES)
            return self.fill(f"({{{type}}} {self.source.choice(COMPARED)} {{{type}}})", kind, columns, depth)
        if depth > 0 and chance < 0.6:
            return self.fill(self.source.choice(SHAPES[kind]), kind, columns, depth)
        fitting = [name for name, type in columns.items() if type == kind]
        if fitting and chance < 0.93:
            return Sql(kind, (self.source.choice(fitting),))
        return Sql(kind, (self._literal(kind),))

    def fill(self, shape: str, kind: str, columns: dict[str, str], depth: int) -> Sql:
        """A shape whose holes are expressions of at most one level less than `depth`."""
        parts = []
        for piece in re.split(r"(?<!{){(?!{)", shape):
            type, end, rest = piece.partition("}")
            hole = end and type.isalpha()
            parts += [self.make(type, columns, depth - 1), unescaped(rest)] if hole else [unescaped(piece)]
        return Sql(kind, tuple(parts))

    def _subquery(self, kind: str, columns: dict[str, str], depth: int) -> Sql:
        table = self.source.choice(list(TABLES))
        alias = f"s{self.source.randint(0, 999)}"
        own = {f"{alias}.{name}": type for name, type in TABLES[table].items()}
        # Half of them look at the outer row.
        outer = columns if self.source.random() < 0.5 else {}
        where = self.make("bool", outer | own, min(depth - 1, 1))
        if kind == "bool":
            shape = self.source.choice(["EXISTS", "NOT EXISTS", "IN"])
            if shape != "IN":
                return Sql(kind, (f"{shape} (SELECT 1 FROM {table} AS {alias} WHERE ", where, ")"))
            type = self.source.choice(["int", "text"])
            asked, found = self.make(type, columns, 1), self.make(type, own, 1)
            word = self.source.choice([" IN ", " NOT IN "])
            return Sql(kind, ("(", asked, word, "(SELECT ", found, f" FROM {table} AS {alias} WHERE ", where, "))"))
        value = self.make(kind, own, 1)
        return Sql(kind, (f"(SELECT {self.source.choice(['min', 'max'])}(", value, f") FROM {table} AS {alias} WHERE ", where, ")"))

    def _literal(self, kind: str) -> str:
        source = self.source
        if source.random() < 0.1:
            return f"CAST(NULL AS {NAMES.get(kind, kind)})"
        return {
            "int": lambda: str(source.randint(0, 20)),
            "numeric": lambda: f"{source.randint(0, 999) / 100:.2f}",
            "float": lambda: f"{source.randint(0, 40) / 4}::float8",
            "text": lambda: f"'{source.choice(WORDS)}'",
            "date": lambda: f"DATE '2024-{source.randint(1, 12):02}-{source.randint(1, 28):02}'",
            "timestamp": lambda: f"TIMESTAMP '2024-{source.randint(1, 12):02}-01 {source.randint(0, 23):02}:00:00'",
            "timestamptz": lambda: f"TIMESTAMPTZ '2024-{source.randint(1, 12):02}-{source.randint(1, 28):02} {source.randint(0, 23):02}:30'",
            "interval": lambda: f"INTERVAL '{source.choice(['1 day', '-3 days 4:05', '1 mon', '1 year -2 mons', '90 min', 'P1DT2H'])}'",
            "bool": lambda: source.choice(["true", "false"]),
            "ints": lambda: source.choice(["'{}'::int[]", "ARRAY[1, 2]", "'{3,NULL}'::int[]", f"ARRAY[{source.randint(0, 20)}]"]),
            "texts": lambda: source.choice(["'{}'::text[]", "ARRAY['a', 'ab']", "'{\"\",NULL}'::text[]", f"ARRAY['{source.choice(WORDS)}']"]),
        }[kind]()
