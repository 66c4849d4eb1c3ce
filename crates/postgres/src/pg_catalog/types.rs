//! PostgreSQL's types: their oids, how they are spelled, and the procedures that `pg_type` names.

use std::collections::HashMap;
use std::sync::LazyLock;

use arrow_schema::DataType as Arrow;
use saki_base::DataType;
use saki_statement::types::stored_as;

/// A row of `pg_type`, but for what is the same for all.
#[derive(Debug)]
pub struct TypeRow {
    pub oid: i64,
    pub name: &'static str,
    pub length: i64,
    pub by_value: bool,
    pub kind: &'static str,
    pub category: &'static str,
    pub preferred: bool,
    pub delimiter: &'static str,
    pub element: i64,
    pub array: i64,
    /// Input, output, receive, send, typmod in, typmod out, subscript.
    pub procedures: [&'static str; 7],
    pub align: &'static str,
    pub storage: &'static str,
    pub collation: i64,
}

/// A row of `pg_proc`, but for what is the same for all.
#[derive(Debug)]
pub struct ProcedureRow {
    pub oid: i64,
    pub name: &'static str,
    pub kind: &'static str,
    pub returns_set: bool,
    pub volatility: &'static str,
    pub strict: bool,
    pub result: i64,
    pub arguments: Vec<i64>,
}

static TYPES: LazyLock<Vec<TypeRow>> =
    LazyLock::new(|| include_str!("data/types.txt").lines().filter_map(parse_type).collect());

static PROCEDURES: LazyLock<Vec<ProcedureRow>> =
    LazyLock::new(|| include_str!("data/procs.txt").lines().filter_map(parse_procedure).collect());

static PROCEDURE_OIDS: LazyLock<HashMap<&'static str, i64>> =
    LazyLock::new(|| PROCEDURES.iter().rev().map(|procedure| (procedure.name, procedure.oid)).collect());

fn parse_type(line: &'static str) -> Option<TypeRow> {
    let words: Vec<&'static str> = line.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse::<i64>().ok();
    Some(TypeRow {
        oid: number(0)?,
        name: words.get(1)?,
        length: number(2)?,
        by_value: *words.get(3)? == "t",
        kind: words.get(4)?,
        category: words.get(5)?,
        preferred: *words.get(6)? == "t",
        delimiter: words.get(7)?,
        element: number(8)?,
        array: number(9)?,
        procedures: words.get(10..17)?.try_into().ok()?,
        align: words.get(17)?,
        storage: words.get(18)?,
        collation: number(19)?,
    })
}

fn parse_procedure(line: &'static str) -> Option<ProcedureRow> {
    let words: Vec<&'static str> = line.split(' ').collect();
    Some(ProcedureRow {
        oid: words.first()?.parse().ok()?,
        name: words.get(1)?,
        kind: words.get(2)?,
        returns_set: *words.get(3)? == "t",
        volatility: words.get(4)?,
        strict: *words.get(5)? == "t",
        result: words.get(6)?.parse().ok()?,
        arguments: words.get(7)?.split(',').filter_map(|oid| oid.parse().ok()).collect(),
    })
}

pub fn types() -> &'static [TypeRow] {
    &TYPES
}

pub fn procedures() -> &'static [ProcedureRow] {
    &PROCEDURES
}

/// The first procedure of a name; 0 for none, which is what `pg_type` says where it has no procedure.
pub fn procedure_oid(name: &str) -> i64 {
    PROCEDURE_OIDS.get(name).copied().unwrap_or(0)
}

pub fn by_oid(oid: i64) -> Option<&'static TypeRow> {
    TYPES.iter().find(|row| row.oid == oid)
}

pub fn by_name(name: &str) -> Option<&'static TypeRow> {
    TYPES.iter().find(|row| row.name == name)
}

/// Type and modifier of a column.
pub fn oid_of(data_type: DataType) -> (i64, i64) {
    match data_type {
        DataType::Bool => (16, -1),
        DataType::Bytea => (17, -1),
        DataType::Int8 => (20, -1),
        DataType::Int2 => (21, -1),
        DataType::Int4 => (23, -1),
        DataType::Text => (25, -1),
        DataType::Float4 => (700, -1),
        DataType::Float8 => (701, -1),
        DataType::Char(length) => (1042, i64::from(length) + 4),
        DataType::Varchar(length) => (1043, i64::from(length) + 4),
        DataType::Date => (1082, -1),
        DataType::Timestamp => (1114, -1),
        DataType::Timestamptz => (1184, -1),
        DataType::Decimal { precision, scale } => (1700, ((i64::from(precision) << 16) | i64::from(scale)) + 4),
        DataType::Uuid => (2950, -1),
    }
}

/// Name and modifier of a column's type; the modifier is -1 where there is none.
pub fn type_of(data_type: DataType) -> (&'static str, i64) {
    let (oid, modifier) = oid_of(data_type);
    (by_oid(oid).map_or("text", |row| row.name), modifier)
}

/// How SQL spells a type; what `format_type` answers.
pub fn format_type(oid: i64, modifier: Option<i64>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let Some(row) = by_oid(oid) else { return "???".to_owned() };
    if row.category == "A" && row.element != 0 && row.name.starts_with('_') {
        return format!("{}[]", format_type(row.element, modifier));
    }
    let stated = modifier.filter(|modifier| *modifier >= 0);
    let length = stated.filter(|modifier| *modifier >= 4).map(|modifier| modifier - 4);
    let precision = stated.map(|digits| format!("({digits})")).unwrap_or_default();
    match row.name {
        "bool" => "boolean".to_owned(),
        "char" => "\"char\"".to_owned(),
        "int2" => "smallint".to_owned(),
        "int4" => "integer".to_owned(),
        "int8" => "bigint".to_owned(),
        "float4" => "real".to_owned(),
        "float8" => "double precision".to_owned(),
        "bpchar" => match (length, modifier) {
            (Some(length), _) => format!("character({length})"),
            // Without a modifier at all it is not `character`, which would be `character(1)`.
            (None, Some(_)) => "bpchar".to_owned(),
            (None, None) => "character".to_owned(),
        },
        "varchar" => length.map_or("character varying".to_owned(), |length| format!("character varying({length})")),
        "numeric" => length.map_or("numeric".to_owned(), |m| format!("numeric({},{})", (m >> 16) & 0xffff, m & 0x7ff)),
        "bit" => stated.map_or("bit".to_owned(), |bits| format!("bit({bits})")),
        "varbit" => stated.map_or("bit varying".to_owned(), |bits| format!("bit varying({bits})")),
        "time" => format!("time{precision} without time zone"),
        "timetz" => format!("time{precision} with time zone"),
        "timestamp" => format!("timestamp{precision} without time zone"),
        "timestamptz" => format!("timestamp{precision} with time zone"),
        name => name.to_owned(),
    }
}

/// What PostgreSQL calls the type of a value.
pub fn name_of(arrow: &Arrow) -> String {
    match arrow {
        Arrow::Null => "unknown".to_owned(),
        Arrow::List(field) | Arrow::LargeList(field) => format!("{}[]", name_of(field.data_type())),
        Arrow::Dictionary(_, value) => name_of(value),
        Arrow::Interval(_) | Arrow::Duration(_) => "interval".to_owned(),
        Arrow::Time32(_) | Arrow::Time64(_) => "time without time zone".to_owned(),
        Arrow::Struct(_) => "record".to_owned(),
        other => match stored_as(other) {
            Some(data_type) => format_type(oid_of(data_type).0, None),
            None => other.to_string().to_lowercase(),
        },
    }
}

/// The type that a text names, as in `'integer'::regtype`: PostgreSQL's own name, or SQL's.
pub fn named(text: &str) -> Option<&'static TypeRow> {
    let text = text.trim();
    let schemas = ["pg_catalog.", "\"pg_catalog\"."];
    let text = schemas.iter().find_map(|schema| text.strip_prefix(schema)).unwrap_or(text);
    if let Some(element) = text.strip_suffix("[]") {
        return by_oid(named(element)?.array);
    }
    let bare = text.split('(').next().unwrap_or(text).trim().trim_matches('"');
    by_name(bare).or_else(|| {
        Some(match bare.to_lowercase().as_str() {
            "boolean" => by_oid(16)?,
            "smallint" => by_oid(21)?,
            "integer" | "int" => by_oid(23)?,
            "bigint" => by_oid(20)?,
            "real" => by_oid(700)?,
            "double precision" | "float" => by_oid(701)?,
            "decimal" => by_oid(1700)?,
            "character" => by_oid(1042)?,
            "character varying" => by_oid(1043)?,
            "timestamp without time zone" => by_oid(1114)?,
            "timestamp with time zone" => by_oid(1184)?,
            "time without time zone" => by_oid(1083)?,
            "time with time zone" => by_oid(1266)?,
            lower => by_name(lower)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_spelled_as_sql_spells_them() {
        let spelled = |data_type| {
            let (oid, modifier) = oid_of(data_type);
            format_type(oid, Some(modifier))
        };
        assert_eq!(spelled(DataType::Decimal { precision: 10, scale: 2 }), "numeric(10,2)");
        assert_eq!(spelled(DataType::Varchar(40)), "character varying(40)");
        assert_eq!(spelled(DataType::Timestamptz), "timestamp with time zone");
        assert_eq!(format_type(1007, None), "integer[]");
        assert_eq!(format_type(987_654_321, None), "???");
        assert_eq!(named("character varying(3)[]").unwrap().name, "_varchar");
        assert_eq!(named("\"pg_catalog\".\"uuid\"").unwrap().name, "uuid");
        assert_eq!(named("pg_catalog.\"int4\"[]").unwrap().name, "_int4");
        assert_eq!(format_type(1042, Some(7)), "character(3)");
    }

    #[test]
    fn every_line_is_a_type_or_procedure() {
        assert_eq!(types().len(), include_str!("data/types.txt").lines().count());
        assert_eq!(procedures().len(), include_str!("data/procs.txt").lines().count());
        assert_ne!(procedure_oid("array_recv"), 0);
    }
}
