//! The views of `information_schema`.

use super::super::describe;
use super::super::objects::source::OwnedSequence;
use super::super::objects::{Attribute, Constraint, Detail, Relation, relation_oid};
use super::super::rows::{Cell, Rows};
use super::super::types;
use super::listings::definition;
use super::roles::yes_or_no;
use super::source::Source;
use saki_catalog::{Deferral, Sequence};
use saki_parameters::is_temporary;

pub fn fill(source: &Source<'_>, name: &str, rows: &mut Rows) {
    let objects = source.objects;
    let session = source.system.session();
    let view = View { source, catalog: session.database.as_str() };
    match name {
        "information_schema_catalog_name" => rows.push([("catalog_name", view.catalog.into())]),
        "enabled_roles" => source.system.with_catalog(|catalog| {
            let own = source.system.roles().current;
            for role in catalog.roles().filter(|role| catalog.inherits(own, role.id)) {
                rows.push([("role_name", role.name.as_str().into())]);
            }
        }),
        "schemata" => objects.namespaces.iter().for_each(|namespace| {
            let of = ("catalog_name", view.catalog.into());
            let owner = ("schema_owner", super::roles::schema_owner(source, &namespace.name).into());
            rows.push([of, ("schema_name", namespace.name.as_str().into()), owner]);
        }),
        "tables" => view.tables().for_each(|relation| view.table(relation, rows)),
        "columns" => view.tables().for_each(|relation| view.columns(relation, rows)),
        "views" => {
            for relation in view.tables().filter(|relation| relation.kind == 'v') {
                rows.push([
                    ("table_catalog", view.catalog.into()),
                    ("table_schema", relation.schema.as_str().into()),
                    ("table_name", relation.name.as_str().into()),
                    ("view_definition", definition(relation).into()),
                    ("check_option", "NONE".into()),
                    ("is_updatable", "NO".into()),
                    ("is_insertable_into", "NO".into()),
                    ("is_trigger_updatable", "NO".into()),
                    ("is_trigger_deletable", "NO".into()),
                    ("is_trigger_insertable_into", "NO".into()),
                ]);
            }
        }
        "sequences" => view.sequences(rows),
        "table_privileges" => super::roles::table_privileges(source, view.catalog, view.tables(), rows),
        _ => {
            for constraint in &objects.constraints {
                let Some(table) = objects.relation(constraint.table) else { continue };
                view.constraint(name, constraint, table, rows);
            }
        }
    }
}

/// What every row names.
struct View<'s> {
    source: &'s Source<'s>,
    catalog: &'s str,
}

impl<'s> View<'s> {
    /// Tables and views.
    fn tables(&self) -> impl Iterator<Item = &'s Relation> + use<'s> {
        self.source.objects.relations.iter().filter(|relation| matches!(relation.kind, 'r' | 'v'))
    }

    fn table(&self, relation: &Relation, rows: &mut Rows) {
        let user_table = matches!(relation.detail, Detail::Table(_));
        let table_type = match relation.kind {
            'v' => "VIEW",
            _ if is_temporary(&relation.schema) => "LOCAL TEMPORARY",
            _ => "BASE TABLE",
        };
        rows.push([
            ("table_catalog", self.catalog.into()),
            ("table_schema", relation.schema.as_str().into()),
            ("table_name", relation.name.as_str().into()),
            ("table_type", table_type.into()),
            ("is_insertable_into", yes_or_no(user_table)),
            ("is_typed", "NO".into()),
        ]);
    }

    fn columns(&self, relation: &Relation, rows: &mut Rows) {
        for (position, column) in relation.columns.iter().enumerate() {
            let measures = Measures::of(column);
            let mut all = self.source.objects.enum_types.iter();
            let enumeration = all.find(|of| i64::from(of.oid()) == column.type_oid);
            let own = enumeration.map(|of| of.bare_name());
            let udt_name = types::by_oid(column.type_oid).map(|row| row.name).or(own);
            let generation = column.extras.identity.map(|kind| if kind == 'a' { "ALWAYS" } else { "BY DEFAULT" });
            let sequence = generation.and_then(|_| self.source.objects.sequence_of(relation.oid, position));
            let of_identity =
                |number: fn(&Sequence) -> i64| Cell::from(sequence.map(|(_, sequence)| number(sequence).to_string()));
            rows.push([
                ("table_catalog", self.catalog.into()),
                ("table_schema", relation.schema.as_str().into()),
                ("table_name", relation.name.as_str().into()),
                ("column_name", column.name.as_str().into()),
                ("ordinal_position", (position as i64 + 1).into()),
                ("column_default", column.extras.default.clone().into()),
                ("is_nullable", yes_or_no(!column.not_null)),
                ("data_type", data_type(column.type_oid).into()),
                ("character_maximum_length", measures.characters.into()),
                ("character_octet_length", measures.octets.into()),
                ("numeric_precision", measures.precision.into()),
                ("numeric_precision_radix", measures.radix.into()),
                ("numeric_scale", measures.scale.into()),
                ("datetime_precision", measures.fraction_digits.into()),
                ("udt_catalog", self.catalog.into()),
                ("udt_schema", enumeration.map_or("pg_catalog", |of| of.schema.as_str()).into()),
                ("udt_name", udt_name.into()),
                ("dtd_identifier", (position + 1).to_string().into()),
                ("is_self_referencing", "NO".into()),
                ("is_identity", yes_or_no(generation.is_some())),
                ("identity_generation", generation.into()),
                ("identity_start", of_identity(|sequence| sequence.start)),
                ("identity_increment", of_identity(|sequence| sequence.increment)),
                ("identity_maximum", of_identity(|sequence| sequence.max)),
                ("identity_minimum", of_identity(|sequence| sequence.min)),
                ("identity_cycle", yes_or_no(sequence.is_some_and(|(_, sequence)| sequence.cycle))),
                ("is_generated", "NEVER".into()),
                ("is_updatable", yes_or_no(matches!(relation.detail, Detail::Table(_)))),
            ]);
        }
    }

    fn sequences(&self, rows: &mut Rows) {
        for relation in &self.source.objects.relations {
            let Detail::Sequence(OwnedSequence { sequence, owner }) = &relation.detail else { continue };
            // That of an identity column is the column's.
            if owner.is_some_and(|(table, column)| self.is_identity(table, column)) {
                continue;
            }
            let (type_oid, _) = types::oid_of(sequence.data_type);
            let bits = types::by_oid(type_oid).map_or(64, |row| row.length * 8);
            rows.push([
                ("sequence_catalog", self.catalog.into()),
                ("sequence_schema", relation.schema.as_str().into()),
                ("sequence_name", relation.name.as_str().into()),
                ("data_type", types::format_type(type_oid, None).into()),
                ("numeric_precision", bits.into()),
                ("numeric_precision_radix", 2_i64.into()),
                ("numeric_scale", 0_i64.into()),
                ("start_value", sequence.start.to_string().into()),
                ("minimum_value", sequence.min.to_string().into()),
                ("maximum_value", sequence.max.to_string().into()),
                ("increment", sequence.increment.to_string().into()),
                ("cycle_option", yes_or_no(sequence.cycle)),
            ]);
        }
    }

    fn is_identity(&self, table: u32, column: usize) -> bool {
        let table = self.source.objects.relation(relation_oid(table));
        table.and_then(|table| table.columns.get(column)).is_some_and(|column| column.extras.identity.is_some())
    }

    /// Adds what one of the views about constraints says of one.
    fn constraint(&self, view: &str, constraint: &Constraint, table: &Relation, rows: &mut Rows) {
        let named = |prefix_schema: &str| -> [(&'static str, Cell); 3] {
            [
                ("constraint_catalog", self.catalog.into()),
                ("constraint_schema", prefix_schema.into()),
                ("constraint_name", constraint.name.as_str().into()),
            ]
        };
        let of_table = |table: &Relation| -> [(&'static str, Cell); 3] {
            [
                ("table_catalog", self.catalog.into()),
                ("table_schema", table.schema.as_str().into()),
                ("table_name", table.name.as_str().into()),
            ]
        };
        let [c1, c2, c3] = named(&table.schema);
        let [t1, t2, t3] = of_table(table);
        match view {
            "table_constraints" => {
                let kind = match constraint.kind {
                    'p' => "PRIMARY KEY",
                    'u' => "UNIQUE",
                    'f' => "FOREIGN KEY",
                    _ => "CHECK",
                };
                let nulls_distinct = if constraint.kind == 'u' { Cell::from("YES") } else { Cell::Null };
                let deferral = constraint.foreign.as_ref().map_or(Deferral::Never, |foreign| foreign.deferral);
                rows.push([
                    c1,
                    c2,
                    c3,
                    t1,
                    t2,
                    t3,
                    ("constraint_type", kind.into()),
                    ("is_deferrable", yes_or_no(deferral.is_deferrable())),
                    ("initially_deferred", yes_or_no(deferral.is_initially_deferred())),
                    ("enforced", "YES".into()),
                    ("nulls_distinct", nulls_distinct),
                ]);
            }
            "key_column_usage" if constraint.kind != 'c' => self.key_columns(constraint, table, rows),
            "referential_constraints" => self.referential(constraint, table, rows),
            "check_constraints" => {
                if let Some(expression) = &constraint.expression {
                    rows.push([c1, c2, c3, ("check_clause", format!("({expression})").into())]);
                }
            }
            "constraint_column_usage" | "constraint_table_usage" => {
                let (target, columns) = match &constraint.foreign {
                    Some(foreign) => (self.source.objects.relation(foreign.table), &foreign.columns),
                    None => (Some(table), &constraint.columns),
                };
                let Some(target) = target else { return };
                if view == "constraint_table_usage" {
                    let [t1, t2, t3] = of_table(target);
                    rows.push([c1, c2, c3, t1, t2, t3]);
                    return;
                }
                for column in columns {
                    let ([c1, c2, c3], [t1, t2, t3]) = (named(&table.schema), of_table(target));
                    rows.push([c1, c2, c3, t1, t2, t3, ("column_name", target.column_name(*column).into())]);
                }
            }
            _ => {}
        }
    }

    fn key_columns(&self, constraint: &Constraint, table: &Relation, rows: &mut Rows) {
        for (position, column) in constraint.columns.iter().enumerate() {
            let ordinal = position as i64 + 1;
            rows.push([
                ("constraint_catalog", self.catalog.into()),
                ("constraint_schema", table.schema.as_str().into()),
                ("constraint_name", constraint.name.as_str().into()),
                ("table_catalog", self.catalog.into()),
                ("table_schema", table.schema.as_str().into()),
                ("table_name", table.name.as_str().into()),
                ("column_name", table.column_name(*column).into()),
                ("ordinal_position", ordinal.into()),
                ("position_in_unique_constraint", self.unique_position(constraint, position).into()),
            ]);
        }
    }

    /// The unique constraint that a foreign key refers to.
    fn unique_of(&self, constraint: &Constraint) -> Option<&'s Constraint> {
        let foreign = constraint.foreign.as_ref()?;
        let mut wanted = foreign.columns.clone();
        wanted.sort_unstable();
        self.source.objects.constraints_of(foreign.table).find(|other| {
            let mut columns = other.columns.clone();
            columns.sort_unstable();
            matches!(other.kind, 'p' | 'u') && columns == wanted
        })
    }

    fn unique_position(&self, constraint: &Constraint, position: usize) -> Option<i64> {
        let column = constraint.foreign.as_ref()?.columns.get(position)?;
        let at = self.unique_of(constraint)?.columns.iter().position(|other| other == column)?;
        Some(at as i64 + 1)
    }

    fn referential(&self, constraint: &Constraint, table: &Relation, rows: &mut Rows) {
        let Some(foreign) = &constraint.foreign else { return };
        let unique = self.unique_of(constraint);
        let schema = self.source.objects.relation(foreign.table).map(|target| target.schema.clone());
        rows.push([
            ("constraint_catalog", self.catalog.into()),
            ("constraint_schema", table.schema.as_str().into()),
            ("constraint_name", constraint.name.as_str().into()),
            ("unique_constraint_catalog", unique.map(|_| self.catalog).into()),
            ("unique_constraint_schema", unique.and(schema).into()),
            ("unique_constraint_name", unique.map(|unique| unique.name.clone()).into()),
            ("match_option", "NONE".into()),
            ("update_rule", describe::rule(foreign.on_update).into()),
            ("delete_rule", describe::rule(foreign.on_delete).into()),
        ]);
    }
}

/// The standard's word for a type; arrays have one for all.
fn data_type(oid: i64) -> String {
    match types::by_oid(oid) {
        Some(row) if row.category == "A" => "ARRAY".to_owned(),
        None if types::type_category(oid) == "E" => "USER-DEFINED".to_owned(),
        _ => types::format_type(oid, None),
    }
}

/// Lengths, precisions and scales of a column.
#[derive(Default)]
struct Measures {
    characters: Option<i64>,
    octets: Option<i64>,
    precision: Option<i64>,
    radix: Option<i64>,
    scale: Option<i64>,
    fraction_digits: Option<i64>,
}

impl Measures {
    fn of(column: &Attribute) -> Self {
        let number =
            |precision, radix, scale| Self { precision: Some(precision), radix: Some(radix), scale, ..Self::default() };
        let stated = (column.modifier >= 4).then_some(column.modifier - 4);
        match types::by_oid(column.type_oid).map(|row| row.name) {
            Some("int2") => number(16, 2, Some(0)),
            Some("int4") => number(32, 2, Some(0)),
            Some("int8") => number(64, 2, Some(0)),
            Some("float4") => number(24, 2, None),
            Some("float8") => number(53, 2, None),
            Some("numeric") => Self {
                precision: stated.map(|modifier| (modifier >> 16) & 0xffff),
                radix: Some(10),
                scale: stated.map(|modifier| modifier & 0x7ff),
                ..Self::default()
            },
            // The longest text has a gigabyte.
            Some("text") => Self { octets: Some(1 << 30), ..Self::default() },
            Some("varchar" | "bpchar") => Self {
                characters: stated,
                octets: Some(stated.map_or(1 << 30, |characters| characters * 4)),
                ..Self::default()
            },
            Some("date") => Self { fraction_digits: Some(0), ..Self::default() },
            Some("timestamp" | "timestamptz" | "time" | "interval") => {
                Self { fraction_digits: Some(6), ..Self::default() }
            }
            _ => Self::default(),
        }
    }
}
