//! PostgreSQL's types: their oids, how they are spelled, and the procedures that `pg_type` names.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use arrow_schema::DataType as Arrow;
use saki_base::DataType;
use saki_catalog::{EnumType, enumeration};
use saki_statement::types::stored_as;

/// The type of a text that has none yet.
pub const UNKNOWN: i64 = 705;

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
    /// The type of each argument from the last one on, if there may be several; 0 if there is one.
    pub variadic: i64,
    /// How many of the last arguments need not be given.
    pub defaults: usize,
}

static TYPES: LazyLock<Vec<TypeRow>> =
    LazyLock::new(|| include_str!("data/types.txt").lines().filter_map(parse_type).collect());

static PROCEDURES: LazyLock<Vec<ProcedureRow>> =
    LazyLock::new(|| include_str!("data/procs.txt").lines().filter_map(parse_procedure).collect());

static PROCEDURES_BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static ProcedureRow>>> = LazyLock::new(|| {
    let mut named: HashMap<_, Vec<_>> = HashMap::new();
    for row in procedures() {
        named.entry(row.name).or_default().push(row);
    }
    named
});

/// Pairs of types of which values of the first become the second without being told to.
static CASTS: LazyLock<HashSet<(i64, i64)>> =
    LazyLock::new(|| include_str!("data/casts.txt").lines().filter_map(parse_cast).collect());

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
        variadic: words.get(8)?.parse().ok()?,
        defaults: words.get(9)?.parse().ok()?,
    })
}

fn parse_cast(line: &str) -> Option<(i64, i64)> {
    let (from, to) = line.split_once(' ')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

pub fn types() -> &'static [TypeRow] {
    &TYPES
}

pub fn procedures() -> &'static [ProcedureRow] {
    &PROCEDURES
}

/// All procedures of a name.
pub fn procedures_named(name: &str) -> &'static [&'static ProcedureRow] {
    PROCEDURES_BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// Whether values of one type become another's where it is asked for, without a cast being written; those of arrays,
/// if their elements do.
pub fn is_implicit(from: i64, to: i64) -> bool {
    if from == to || CASTS.contains(&(from, to)) {
        return true;
    }
    let element = |oid| by_oid(oid).filter(|row| row.category == "A").map_or(0, |row| row.element);
    let (from, to) = (element(from), element(to));
    from != 0 && to != 0 && is_implicit(from, to)
}

/// What a procedure is called.
pub fn procedure_name(oid: i64) -> Option<&'static str> {
    static NAMES: LazyLock<HashMap<i64, &'static str>> =
        LazyLock::new(|| procedures().iter().map(|procedure| (procedure.oid, procedure.name)).collect());
    NAMES.get(&oid).copied()
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
        DataType::Time => (1083, -1),
        DataType::Interval => (1186, -1),
        DataType::Uuid => (2950, -1),
        DataType::Json => (114, -1),
        DataType::Jsonb => (3802, -1),
        DataType::Enum(of) => (of.oid().into(), -1),
        DataType::Array(element) => {
            let (element, modifier) = oid_of(element.data_type());
            (by_oid(element).map_or(0, |row| row.array), modifier)
        }
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

/// The type of a value.
pub fn oid_of_value(arrow: &Arrow) -> Option<i64> {
    Some(match arrow {
        Arrow::Null => UNKNOWN,
        Arrow::List(field) | Arrow::LargeList(field) if let Some(of) = enumeration(field.data_type()) => {
            of.array().into()
        }
        Arrow::List(field) | Arrow::LargeList(field) => by_oid(oid_of_value(field.data_type())?)?.array,
        Arrow::Dictionary(_, value) => oid_of_value(value)?,
        Arrow::Struct(_) => 2249,
        other => oid_of(stored_as(other)?).0,
    })
}

/// The type that values of one of PostgreSQL's types have here; `None` for those of which there are no values, and for
/// arrays.
pub fn value_type(oid: i64) -> Option<Arrow> {
    Some(match oid {
        16 => Arrow::Boolean,
        17 => Arrow::Binary,
        20 => Arrow::Int64,
        21 => Arrow::Int16,
        23 => Arrow::Int32,
        25 | 1042 | 1043 => Arrow::Utf8,
        700 => Arrow::Float32,
        701 => Arrow::Float64,
        1082 => Arrow::Date32,
        1083 => saki_times::TIME,
        1114 => saki_times::TIMESTAMP,
        1184 => saki_times::timestamptz(),
        1186 => saki_times::INTERVAL,
        1700 => Arrow::Decimal128(38, 10),
        2950 => Arrow::FixedSizeBinary(16),
        114 => Arrow::LargeBinary,
        3802 => Arrow::LargeUtf8,
        _ => return None,
    })
}

/// A type's category; that of types without values is P.
pub fn type_category(oid: i64) -> &'static str {
    match by_oid(oid) {
        Some(row) => row.category,
        None if EnumType::is_oid(oid) => "E",
        None if EnumType::is_oid(oid - 1) => "A",
        None => "P",
    }
}

/// What PostgreSQL calls the type of a value.
pub fn name_of(arrow: &Arrow) -> String {
    if let Some(of) = enumeration(arrow) {
        return of.name().to_owned();
    }
    match (oid_of_value(arrow), arrow) {
        (_, Arrow::List(field) | Arrow::LargeList(field)) if enumeration(field.data_type()).is_some() => {
            format!("{}[]", name_of(field.data_type()))
        }
        (Some(oid), _) if oid != 0 => format_type(oid, None),
        (_, Arrow::List(field) | Arrow::LargeList(field)) => format!("{}[]", name_of(field.data_type())),
        (_, other) => other.to_string().to_lowercase(),
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
        assert_eq!(CASTS.len(), include_str!("data/casts.txt").lines().count());
        assert_ne!(procedure_oid("array_recv"), 0);
    }

    #[test]
    fn implicit_casts_are_those_that_lose_nothing() {
        let oid = |name: &str| named(name).unwrap().oid;
        for (from, to, is) in [
            ("int2", "int8", true),
            ("int8", "int4", false),
            ("numeric", "float8", true),
            ("varchar", "text", true),
            ("int4", "text", false),
            ("int4[]", "int8[]", true),
            ("int4[]", "text[]", false),
        ] {
            assert_eq!(is_implicit(oid(from), oid(to)), is, "{from} to {to}");
        }
    }
}
