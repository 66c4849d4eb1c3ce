//! The views of `pg_catalog` that list relations in readable form.

use super::super::describe;
use super::super::objects::source::OwnedSequence;
use super::super::objects::{Detail, Relation};
use super::super::rows::Rows;
use super::super::types;
use super::source::Source;

pub fn fill(source: &Source<'_>, name: &str, rows: &mut Rows) {
    for relation in &source.objects.relations {
        match (name, &relation.detail) {
            ("pg_tables", _) if relation.kind == 'r' => table(source, relation, rows),
            ("pg_indexes", Detail::Index(index)) => {
                let table = source.objects.relation(index.table).map(|table| table.name.clone());
                rows.push([
                    ("schemaname", relation.schema.as_str().into()),
                    ("tablename", table.into()),
                    ("indexname", relation.name.as_str().into()),
                    ("indexdef", describe::index(source.objects, relation, 0, false).into()),
                ]);
            }
            ("pg_views", _) if relation.kind == 'v' => rows.push([
                ("schemaname", relation.schema.as_str().into()),
                ("viewname", relation.name.as_str().into()),
                ("viewowner", owner(source, relation).into()),
                ("definition", definition(relation).into()),
            ]),
            ("pg_sequences", Detail::Sequence(OwnedSequence { sequence, .. })) => rows.push([
                ("schemaname", relation.schema.as_str().into()),
                ("sequencename", relation.name.as_str().into()),
                ("sequenceowner", owner(source, relation).into()),
                ("data_type", types::oid_of(sequence.data_type).0.into()),
                ("start_value", sequence.start.into()),
                ("min_value", sequence.min.into()),
                ("max_value", sequence.max.into()),
                ("increment_by", sequence.increment.into()),
                ("cycle", sequence.cycle.into()),
                ("cache_size", sequence.cache.into()),
                ("last_value", source.system.last_value(sequence).into()),
            ]),
            ("pg_stat_user_tables" | "pg_stat_all_tables", Detail::Table(_)) => rows.push([
                ("relid", relation.oid.into()),
                ("schemaname", relation.schema.as_str().into()),
                ("relname", relation.name.as_str().into()),
                ("n_live_tup", i64::try_from(source.system.size_of(relation).0).unwrap_or(i64::MAX).into()),
                ("n_dead_tup", 0_i64.into()),
            ]),
            ("pg_stat_user_indexes" | "pg_stat_all_indexes", Detail::Index(index)) => rows.push([
                ("relid", index.table.into()),
                ("indexrelid", relation.oid.into()),
                ("schemaname", relation.schema.as_str().into()),
                ("relname", source.objects.relation(index.table).map(|table| table.name.clone()).into()),
                ("indexrelname", relation.name.as_str().into()),
            ]),
            _ => {}
        }
    }
}

fn owner(source: &Source<'_>, relation: &Relation) -> String {
    let owner = super::roles::owner_of(source, relation);
    source.system.with_catalog(|catalog| catalog.role_name(owner))
}

/// The query of a view.
pub fn definition(relation: &Relation) -> String {
    match &relation.detail {
        Detail::View(view) => format!(" {};", view.sql),
        _ => String::new(),
    }
}

fn table(source: &Source<'_>, relation: &Relation, rows: &mut Rows) {
    let indexed = source.objects.indexes_of(relation.oid).next().is_some();
    rows.push([
        ("schemaname", relation.schema.as_str().into()),
        ("tablename", relation.name.as_str().into()),
        ("tableowner", owner(source, relation).into()),
        ("hasindexes", indexed.into()),
        ("hasrules", false.into()),
        ("hastriggers", source.objects.has_triggers(relation.oid).into()),
        ("rowsecurity", false.into()),
    ]);
}
