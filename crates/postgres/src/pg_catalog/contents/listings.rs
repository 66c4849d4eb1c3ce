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

#[cfg(test)]
mod tests {
    use crate::fixture::library;

    #[test]
    fn listings_have_postgresqls_rows() {
        library().check(&[
            (
                "select schemaname, tablename, tableowner, hasindexes, hasrules, hastriggers from \
                 pg_tables where schemaname in ('public', 'shop') order by 2",
                "shop|Order|saki|true|false|false\n\
                 public|author|saki|true|false|true\n\
                 public|book|saki|true|false|true",
            ),
            (
                "select schemaname, tablename, indexname, indexdef from pg_indexes where schemaname in \
                 ('public', 'shop') order by 3",
                "shop|Order|Order_pkey|CREATE UNIQUE INDEX \"Order_pkey\" ON shop.\"Order\" USING btree (b, a)\n\
                 public|author|author_pkey|CREATE UNIQUE INDEX author_pkey ON public.author USING btree (id)\n\
                 public|book|book_code_key|CREATE UNIQUE INDEX book_code_key ON public.book USING btree (code)\n\
                 public|book|book_pkey|CREATE UNIQUE INDEX book_pkey ON public.book USING btree (id)\n\
                 public|book|book_title_idx|CREATE INDEX book_title_idx ON public.book USING btree \
             (title DESC, price) INCLUDE (pages)",
            ),
            ("select viewname, viewowner from pg_views where schemaname = 'public'", "cheap|saki"),
            ("select n_live_tup, n_dead_tup from pg_stat_user_tables where relname = 'book'", "0|0"),
            ("select spcname from pg_tablespace where spcname = 'pg_default'", "pg_default"),
        ]);
    }
}
