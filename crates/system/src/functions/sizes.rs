//! How much room objects take.

use datafusion::common::{Result, ScalarValue};

use super::super::objects::Objects;
use super::super::system::SystemCatalog;
use super::function::{Arguments, Definition, Returns, strict, text};

pub const FUNCTIONS: &[Definition] = &[
    strict("pg_relation_size", Returns::Int8, relation_size),
    strict("pg_table_size", Returns::Int8, relation_size),
    strict("pg_indexes_size", Returns::Int8, |system, args| {
        let objects = system.objects();
        let relation = system.relation(&objects, args.get(0))?;
        Ok(bytes(relation.map(|relation| indexes(&objects, relation.oid))))
    }),
    strict("pg_total_relation_size", Returns::Int8, |system, args| {
        let objects = system.objects();
        let relation = system.relation(&objects, args.get(0))?;
        Ok(bytes(relation.map(|relation| system.size_of(relation).1 + indexes(&objects, relation.oid))))
    }),
    strict("pg_database_size", Returns::Int8, everything),
    strict("pg_tablespace_size", Returns::Int8, everything),
    strict("pg_size_pretty", Returns::Text, |_, args| Ok(text(args.integer(0).map(pretty)))),
    // Index scans are not counted.
    strict("pg_stat_get_numscans", Returns::Int8, |_, _| Ok(ScalarValue::Int64(Some(0)))),
    strict("pg_tablespace_location", Returns::Text, |_, _| Ok(text(Some(String::new())))),
    strict("pg_relation_filenode", Returns::Int8, |_, args| Ok(ScalarValue::Int64(args.integer(0)))),
    strict("pg_relation_is_publishable", Returns::Bool, |_, _| Ok(ScalarValue::Boolean(Some(false)))),
];

fn bytes(count: Option<u64>) -> ScalarValue {
    ScalarValue::Int64(count.map(|count| i64::try_from(count).unwrap_or(i64::MAX)))
}

fn relation_size(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let objects = system.objects();
    Ok(bytes(system.relation(&objects, args.get(0))?.map(|relation| system.size_of(relation).1)))
}

fn everything(system: &SystemCatalog, _: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(bytes(Some(system.objects().relations.iter().map(|relation| system.size_of(relation).1).sum())))
}

/// Bytes of the indexes of a table.
fn indexes(objects: &Objects, table: i64) -> u64 {
    objects.indexes_of(table).map(|index| index.bytes).sum()
}

/// A size as PostgreSQL shows it: in the largest unit of which there are at least ten, rounded half up.
fn pretty(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut halves = i128::from(bytes) * 2;
    for (at, unit) in UNITS.iter().enumerate() {
        let limit = 10 * 1024 * 2 - i128::from(at > 0);
        if halves.abs() < limit || at + 1 == UNITS.len() {
            return format!("{} {unit}", (halves + halves.signum() * i128::from(at > 0)) / 2);
        }
        halves /= 1024;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn sizes_have_postgresqls_units() {
        assert_eq!(pretty(0), "0 bytes");
        assert_eq!(pretty(10_239), "10239 bytes");
        assert_eq!(pretty(10_240), "10 kB");
        assert_eq!(pretty(16_384), "16 kB");
        assert_eq!(pretty(20 << 20), "20 MB");
        assert_eq!(pretty(-20_480), "-20 kB");
    }
}
