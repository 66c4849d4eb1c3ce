//! What describes tables: `pg_class`, `pg_attribute`, `pg_index`, `pg_constraint` and what belongs to them.

use super::super::objects::source::OwnedSequence;
use super::super::objects::{Constraint, Detail, Objects, Relation, default_oid, relation_oid};
use super::super::rows::{Cell, Rows};
use super::super::types;
use super::roles;
use super::source::Source;
use saki_catalog::{ObjectKind, RoleId};
use saki_parameters::is_temporary;

/// Access methods: of indexes, and of tables.
pub const BTREE: i64 = 403;
pub const HEAP: i64 = 2;
/// The operator class that stands for any type's own.
pub const DEFAULT_OPCLASS: i64 = 3124;
const PG_CLASS: i64 = 1259;
const PG_TYPE: i64 = 1247;
const PG_CONSTRAINT: i64 = 2606;
const PG_ATTRDEF: i64 = 2604;
const PG_NAMESPACE: i64 = 2615;

pub fn fill(source: &Source<'_>, name: &str, rows: &mut Rows) {
    let objects = source.objects;
    match name {
        "pg_class" => objects.relations.iter().for_each(|relation| class(source, relation, rows)),
        "pg_attribute" => objects.relations.iter().for_each(|relation| attributes(source, relation, rows)),
        "pg_index" => objects.relations.iter().for_each(|relation| index(relation, rows)),
        "pg_constraint" => objects.constraints.iter().for_each(|con| constraint(objects, con, rows)),
        "pg_attrdef" => defaults(objects).for_each(|default| {
            rows.push([
                ("oid", default.oid.into()),
                ("adrelid", default.relation.into()),
                ("adnum", default.column.into()),
                ("adbin", default.expression.into()),
            ]);
        }),
        "pg_namespace" => {
            for namespace in &objects.namespaces {
                let object = source.system.with_catalog(|catalog| catalog.schema_object(&namespace.name));
                let of = |object| roles::of_object(source, object, ObjectKind::Schema);
                let (owner, acl) = object.map_or((RoleId::OWNER, Cell::Null), of);
                rows.push([
                    ("oid", namespace.oid.into()),
                    ("nspname", namespace.name.as_str().into()),
                    ("nspowner", i64::from(owner.0).into()),
                    ("nspacl", acl),
                ]);
            }
        }
        "pg_sequence" => sequences(objects).for_each(|(relation, sequence)| self::sequence(relation, sequence, rows)),
        "pg_description" => descriptions(objects, rows),
        "pg_depend" => dependencies(objects, rows),
        _ => {}
    }
}

fn class(source: &Source<'_>, relation: &Relation, rows: &mut Rows) {
    let objects = source.objects;
    let (row_count, bytes) = source.system.size_of(relation);
    let indexed = objects.indexes_of(relation.oid).next().is_some();
    let checks = objects.constraints_of(relation.oid).filter(|con| con.kind == 'c').count();
    let method = match relation.kind {
        'i' => BTREE,
        'r' => HEAP,
        _ => 0,
    };
    rows.push([
        ("oid", relation.oid.into()),
        ("relname", relation.name.as_str().into()),
        ("relnamespace", relation.namespace.into()),
        ("relowner", i64::from(roles::owner_of(source, relation).0).into()),
        ("relacl", roles::acl_of(source, relation)),
        ("relam", method.into()),
        ("relfilenode", relation.oid.into()),
        ("relpages", ((bytes / 8192).min(i32::MAX as u64) as i64).into()),
        ("reltuples", (row_count as f64).into()),
        ("relhasindex", indexed.into()),
        ("relpersistence", if is_temporary(&relation.schema) { "t" } else { "p" }.into()),
        ("relkind", relation.kind.to_string().into()),
        ("relnatts", (relation.columns.len() as i64).into()),
        ("relchecks", (checks as i64).into()),
        ("relhasrules", (relation.kind == 'v').into()),
        ("relhastriggers", objects.has_triggers(relation.oid).into()),
        ("relispopulated", true.into()),
        ("relreplident", if relation.kind == 'r' { "d" } else { "n" }.into()),
    ]);
}

fn attributes(source: &Source<'_>, relation: &Relation, rows: &mut Rows) {
    for (position, column) in relation.columns.iter().enumerate() {
        let row = types::by_oid(column.type_oid);
        let is_label = types::type_category(column.type_oid) == "E";
        rows.push([
            ("attrelid", relation.oid.into()),
            ("attname", column.name.as_str().into()),
            ("atttypid", column.type_oid.into()),
            ("attstattarget", (-1_i64).into()),
            ("attlen", row.map_or(if is_label { 4 } else { -1 }, |row| row.length).into()),
            ("attnum", (position as i64 + 1).into()),
            ("attcacheoff", (-1_i64).into()),
            ("atttypmod", column.modifier.into()),
            ("attndims", i64::from(row.is_some_and(|row| row.category == "A" && row.element != 0)).into()),
            ("attbyval", row.map_or(is_label, |row| row.by_value).into()),
            ("attalign", row.map_or("i", |row| row.align).into()),
            ("attstorage", row.map_or(if is_label { "p" } else { "x" }, |row| row.storage).into()),
            ("attnotnull", column.not_null.into()),
            ("atthasdef", column.extras.default.is_some().into()),
            ("attidentity", column.extras.identity.map(String::from).unwrap_or_default().into()),
            ("attislocal", true.into()),
            ("attacl", roles::column_acl_of(source, relation, position)),
            ("attcollation", row.map_or(0, |row| row.collation).into()),
        ]);
    }
}

fn index(relation: &Relation, rows: &mut Rows) {
    let Detail::Index(index) = &relation.detail else { return };
    let columns = index.of.keys.iter().map(|(column, _)| *column);
    let keys: Vec<i64> = columns.chain(index.include.iter().copied()).collect();
    // Descending indexes have NULLs first.
    let options: Vec<i64> = index.of.keys.iter().map(|(_, descending)| if *descending { 3 } else { 0 }).collect();
    let collation =
        |at: usize| relation.columns.get(at).and_then(|c| types::by_oid(c.type_oid)).map_or(0, |t| t.collation);
    let width = index.of.keys.len();
    let collations: Vec<i64> = (0..width).map(collation).collect();
    let expressions: Vec<&str> = index.of.expressions.iter().map(|key| key.text.as_str()).collect();
    let expressions = (!expressions.is_empty()).then(|| expressions.join(", "));
    rows.push([
        ("indexrelid", relation.oid.into()),
        ("indrelid", index.table.into()),
        ("indnatts", (keys.len() as i64).into()),
        ("indnkeyatts", (width as i64).into()),
        ("indisunique", index.unique.into()),
        ("indisprimary", index.primary.into()),
        ("indimmediate", true.into()),
        ("indisvalid", true.into()),
        ("indisready", true.into()),
        ("indislive", true.into()),
        ("indkey", keys.into()),
        ("indcollation", collations.into()),
        ("indclass", vec![DEFAULT_OPCLASS; width].into()),
        ("indoption", options.into()),
        ("indexprs", expressions.into()),
        ("indpred", index.of.predicate.clone().into()),
    ]);
}

fn constraint(objects: &Objects, constraint: &Constraint, rows: &mut Rows) {
    let foreign = constraint.foreign.as_ref();
    let referenced_index = foreign.and_then(|foreign| {
        let same = |con: &&Constraint| con.index != 0 && con.columns == foreign.columns;
        Some(objects.constraints_of(foreign.table).find(same)?.index)
    });
    let columns = if constraint.columns.is_empty() { Cell::Null } else { constraint.columns.clone().into() };
    rows.push([
        ("oid", constraint.oid.into()),
        ("conname", constraint.name.as_str().into()),
        ("connamespace", constraint.namespace.into()),
        ("contype", constraint.kind.to_string().into()),
        ("condeferrable", foreign.is_some_and(|foreign| foreign.deferral.is_deferrable()).into()),
        ("condeferred", foreign.is_some_and(|foreign| foreign.deferral.is_initially_deferred()).into()),
        ("convalidated", true.into()),
        ("conrelid", constraint.table.into()),
        ("conindid", referenced_index.unwrap_or(constraint.index).into()),
        ("confrelid", foreign.map_or(0, |foreign| foreign.table).into()),
        ("confupdtype", foreign.map_or(" ".to_owned(), |foreign| foreign.on_update.to_string()).into()),
        ("confdeltype", foreign.map_or(" ".to_owned(), |foreign| foreign.on_delete.to_string()).into()),
        ("confmatchtype", if foreign.is_some() { "s" } else { " " }.into()),
        ("conislocal", true.into()),
        ("connoinherit", (constraint.kind != 'c').into()),
        ("conkey", columns),
        ("confkey", foreign.map(|foreign| foreign.columns.clone()).into()),
        ("conbin", constraint.expression.clone().into()),
    ]);
}

/// A DEFAULT of a column.
struct Default<'o> {
    oid: i64,
    relation: i64,
    column: i64,
    expression: &'o str,
}

fn defaults(objects: &Objects) -> impl Iterator<Item = Default<'_>> {
    objects.user_relations().flat_map(|relation| {
        relation.columns.iter().enumerate().filter_map(|(position, column)| {
            let column_number = position as i64 + 1;
            Some(Default {
                oid: default_oid(relation.oid, column_number),
                relation: relation.oid,
                column: column_number,
                expression: column.extras.default.as_deref()?,
            })
        })
    })
}

fn sequences(objects: &Objects) -> impl Iterator<Item = (&Relation, &OwnedSequence)> {
    objects.relations.iter().filter_map(|relation| match &relation.detail {
        Detail::Sequence(sequence) => Some((relation, sequence)),
        _ => None,
    })
}

fn sequence(relation: &Relation, OwnedSequence { sequence, .. }: &OwnedSequence, rows: &mut Rows) {
    rows.push([
        ("seqrelid", relation.oid.into()),
        ("seqtypid", types::oid_of(sequence.data_type).0.into()),
        ("seqstart", sequence.start.into()),
        ("seqincrement", sequence.increment.into()),
        ("seqmax", sequence.max.into()),
        ("seqmin", sequence.min.into()),
        ("seqcache", sequence.cache.into()),
        ("seqcycle", sequence.cycle.into()),
    ]);
}

fn descriptions(objects: &Objects, rows: &mut Rows) {
    let mut describe = |(class, object): (i64, i64), column: usize, text: &str| {
        rows.push([
            ("objoid", object.into()),
            ("classoid", class.into()),
            ("objsubid", (column as i64).into()),
            ("description", text.into()),
        ]);
    };
    for relation in objects.user_relations() {
        if let Some(comment) = &relation.comment {
            describe((PG_CLASS, relation.oid), 0, comment);
        }
        for (position, column) in relation.columns.iter().enumerate() {
            if let Some(comment) = &column.extras.comment {
                describe((PG_CLASS, relation.oid), position + 1, comment);
            }
        }
    }
    for constraint in &objects.constraints {
        if let Some(comment) = &constraint.comment {
            describe((PG_CONSTRAINT, constraint.oid), 0, comment);
        }
    }
    for namespace in &objects.namespaces {
        if let Some(comment) = &namespace.comment {
            describe((PG_NAMESPACE, namespace.oid), 0, comment);
        }
    }
}

fn dependencies(objects: &Objects, rows: &mut Rows) {
    let mut depends = |(class, object): (i64, i64), (table, column): (i64, i64), kind: &str| {
        rows.push([
            ("classid", class.into()),
            ("objid", object.into()),
            ("refclassid", PG_CLASS.into()),
            ("refobjid", table.into()),
            ("refobjsubid", column.into()),
            ("deptype", kind.into()),
        ]);
    };
    for default in defaults(objects) {
        depends((PG_ATTRDEF, default.oid), (default.relation, default.column), "a");
    }
    for (relation, sequence) in sequences(objects) {
        if let Some((table, column)) = sequence.owner {
            let table = relation_oid(table);
            let identity = objects
                .relation(table)
                .and_then(|t| t.columns.get(column))
                .is_some_and(|c| c.extras.identity.is_some());
            depends((PG_CLASS, relation.oid), (table, column as i64 + 1), if identity { "i" } else { "a" });
        }
    }
    for constraint in &objects.constraints {
        for column in &constraint.columns {
            depends((PG_CONSTRAINT, constraint.oid), (constraint.table, *column), "a");
        }
        if let Some(foreign) = &constraint.foreign {
            for column in &foreign.columns {
                depends((PG_CONSTRAINT, constraint.oid), (foreign.table, *column), "n");
            }
        }
    }
    for relation in &objects.relations {
        for (column, attribute) in (1_i64..).zip(&relation.columns) {
            if types::type_category(attribute.type_oid) == "E" {
                rows.push([
                    ("classid", PG_CLASS.into()),
                    ("objid", relation.oid.into()),
                    ("objsubid", column.into()),
                    ("refclassid", PG_TYPE.into()),
                    ("refobjid", attribute.type_oid.into()),
                    ("refobjsubid", 0_i64.into()),
                    ("deptype", "n".into()),
                ]);
            }
        }
    }
}
