//! What is the same for every table: types, procedures, roles, databases, settings, access methods.

use super::super::objects::{OWNER, PG_CATALOG};
use super::super::rows::Rows;
use super::super::session::DATABASE_OID;
use super::super::types::{self, procedure_oid};
use super::relations::{BTREE, DEFAULT_OPCLASS, HEAP};
use super::source::Source;
use saki_catalog::{ObjectId, ObjectKind};

/// Encoding number of UTF8.
pub const UTF8: i64 = 6;
const BTREE_FAMILY: i64 = 1976;

pub fn fill(source: &Source<'_>, name: &str, rows: &mut Rows) {
    match name {
        "pg_type" => {
            type_rows(rows);
            enumeration_rows(source, rows);
        }
        "pg_enum" => label_rows(source, rows),
        "pg_proc" => procedure_rows(rows),
        "pg_database" => database(source, rows),
        "pg_settings" => settings(source, rows),
        "pg_am" => {
            for (oid, name, handler, kind) in
                [(HEAP, "heap", "heap_tableam_handler", "t"), (BTREE, "btree", "bthandler", "i")]
            {
                rows.push([
                    ("oid", oid.into()),
                    ("amname", name.into()),
                    ("amhandler", procedure_oid(handler).into()),
                    ("amtype", kind.into()),
                ]);
            }
        }
        "pg_opclass" => rows.push([
            ("oid", DEFAULT_OPCLASS.into()),
            ("opcmethod", BTREE.into()),
            ("opcname", "int8_ops".into()),
            ("opcnamespace", PG_CATALOG.into()),
            ("opcowner", OWNER.into()),
            ("opcfamily", BTREE_FAMILY.into()),
            ("opcintype", 20_i64.into()),
            ("opcdefault", true.into()),
        ]),
        "pg_opfamily" => rows.push([
            ("oid", BTREE_FAMILY.into()),
            ("opfmethod", BTREE.into()),
            ("opfname", "integer_ops".into()),
            ("opfnamespace", PG_CATALOG.into()),
            ("opfowner", OWNER.into()),
        ]),
        "pg_collation" => {
            for (oid, name, provider, locale) in [(100_i64, "default", "d", None), (950, "C", "c", Some("C"))] {
                rows.push([
                    ("oid", oid.into()),
                    ("collname", name.into()),
                    ("collnamespace", PG_CATALOG.into()),
                    ("collowner", OWNER.into()),
                    ("collprovider", provider.into()),
                    ("collisdeterministic", true.into()),
                    ("collencoding", (-1_i64).into()),
                    ("collcollate", locale.into()),
                    ("collctype", locale.into()),
                ]);
            }
        }
        "pg_tablespace" => {
            rows.push([("oid", 1663_i64.into()), ("spcname", "pg_default".into()), ("spcowner", OWNER.into())])
        }
        "pg_language" => {
            rows.push([("oid", 12_i64.into()), ("lanname", "internal".into()), ("lanowner", OWNER.into())])
        }
        _ => {}
    }
}

fn type_rows(rows: &mut Rows) {
    for row in types::types() {
        let [input, output, receive, send, modifier_in, modifier_out, subscript] = row.procedures.map(procedure_oid);
        rows.push([
            ("oid", row.oid.into()),
            ("typname", row.name.into()),
            ("typnamespace", PG_CATALOG.into()),
            ("typowner", OWNER.into()),
            ("typlen", row.length.into()),
            ("typbyval", row.by_value.into()),
            ("typtype", row.kind.into()),
            ("typcategory", row.category.into()),
            ("typispreferred", row.preferred.into()),
            ("typisdefined", true.into()),
            ("typdelim", row.delimiter.into()),
            ("typsubscript", subscript.into()),
            ("typelem", row.element.into()),
            ("typarray", row.array.into()),
            ("typinput", input.into()),
            ("typoutput", output.into()),
            ("typreceive", receive.into()),
            ("typsend", send.into()),
            ("typmodin", modifier_in.into()),
            ("typmodout", modifier_out.into()),
            ("typalign", row.align.into()),
            ("typstorage", row.storage.into()),
            ("typtypmod", (-1_i64).into()),
            ("typcollation", row.collation.into()),
        ]);
    }
}

/// The enumerations of the database, and the types of their arrays.
fn enumeration_rows(source: &Source<'_>, rows: &mut Rows) {
    for of in &source.objects.enum_types {
        let (oid, array) = (i64::from(of.oid()), i64::from(of.array_oid()));
        let namespace = source.objects.namespace(&of.schema).map_or(0, |namespace| namespace.oid);
        let owner = source.system.with_catalog(|catalog| catalog.owner(of.id.into()));
        for is_array in [false, true] {
            let kind = if is_array { "array" } else { "enum" };
            let names = ["in", "out", "recv", "send"].map(|end| format!("{kind}_{end}"));
            let [input, output, receive, send] = names.map(|name| procedure_oid(&name));
            let name = if is_array { format!("_{}", of.bare_name()) } else { of.bare_name().to_owned() };
            rows.push([
                ("oid", if is_array { array } else { oid }.into()),
                ("typname", name.into()),
                ("typnamespace", namespace.into()),
                ("typowner", i64::from(owner.0).into()),
                ("typlen", if is_array { -1_i64 } else { 4 }.into()),
                ("typbyval", (!is_array).into()),
                ("typtype", if is_array { "b" } else { "e" }.into()),
                ("typcategory", if is_array { "A" } else { "E" }.into()),
                ("typispreferred", false.into()),
                ("typisdefined", true.into()),
                ("typdelim", ",".into()),
                ("typelem", if is_array { oid } else { 0 }.into()),
                ("typarray", if is_array { 0 } else { array }.into()),
                ("typinput", input.into()),
                ("typoutput", output.into()),
                ("typreceive", receive.into()),
                ("typsend", send.into()),
                ("typalign", "i".into()),
                ("typstorage", if is_array { "x" } else { "p" }.into()),
                ("typtypmod", (-1_i64).into()),
                ("typcollation", 0_i64.into()),
            ]);
        }
    }
}

/// Their labels.
fn label_rows(source: &Source<'_>, rows: &mut Rows) {
    for of in &source.objects.enum_types {
        for ((label, _), order) in of.labels.iter().zip(1_i64..) {
            rows.push([
                ("oid", (i64::from(of.oid()) * 1024 + order).into()),
                ("enumtypid", i64::from(of.oid()).into()),
                ("enumsortorder", (order as f64).into()),
                ("enumlabel", label.clone().into()),
            ]);
        }
    }
}

fn procedure_rows(rows: &mut Rows) {
    for row in types::procedures() {
        rows.push([
            ("oid", row.oid.into()),
            ("proname", row.name.into()),
            ("pronamespace", PG_CATALOG.into()),
            ("proowner", OWNER.into()),
            ("prolang", 12_i64.into()),
            ("procost", 1.0.into()),
            ("prokind", row.kind.into()),
            ("proisstrict", row.strict.into()),
            ("proretset", row.returns_set.into()),
            ("provolatile", row.volatility.into()),
            ("proparallel", "s".into()),
            ("pronargs", (row.arguments.len() as i64).into()),
            ("pronargdefaults", (row.defaults as i64).into()),
            ("provariadic", row.variadic.into()),
            ("prorettype", row.result.into()),
            ("proargtypes", row.arguments.clone().into()),
            ("prosrc", row.name.into()),
        ]);
    }
}

fn database(source: &Source<'_>, rows: &mut Rows) {
    let (owner, acl) = super::roles::of_object(source, ObjectId::DATABASE, ObjectKind::Database);
    rows.push([
        ("oid", DATABASE_OID.into()),
        ("datname", source.system.database_name().into()),
        ("datdba", i64::from(owner.0).into()),
        ("datacl", acl),
        ("encoding", UTF8.into()),
        ("datlocprovider", "c".into()),
        ("datallowconn", true.into()),
        ("datconnlimit", (-1_i64).into()),
        ("dattablespace", 1663_i64.into()),
        ("datcollate", "C".into()),
        ("datctype", "C".into()),
    ]);
}

fn settings(source: &Source<'_>, rows: &mut Rows) {
    let parameters = source.system.parameters();
    let some = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    for definition in saki_parameters::all().iter().filter(|definition| !definition.hidden) {
        let (origin, reset) = parameters.origin(definition);
        rows.push([
            ("name", definition.name.into()),
            ("setting", parameters.setting(definition.name).into()),
            ("unit", some(definition.unit).into()),
            ("category", definition.category.into()),
            ("short_desc", definition.help.into()),
            ("context", definition.context.name().into()),
            ("vartype", definition.kind.name().into()),
            ("source", origin.name().into()),
            ("min_val", some(definition.least).into()),
            ("max_val", some(definition.greatest).into()),
            ("boot_val", definition.default.into()),
            ("reset_val", reset.into()),
            ("pending_restart", false.into()),
        ]);
    }
    for (name, default, help) in parameters.extended() {
        let setting = parameters.setting(&name).unwrap_or_default();
        let source = if setting == default { "default" } else { "session" };
        rows.push([
            ("name", name.into()),
            ("setting", setting.into()),
            ("category", "Customized Options".into()),
            ("short_desc", help.into()),
            ("context", "user".into()),
            ("vartype", "string".into()),
            ("source", source.into()),
            ("boot_val", default.clone().into()),
            ("reset_val", default.into()),
            ("pending_restart", false.into()),
        ]);
    }
}
