//! The database as PostgreSQL's system relations see it: relations, constraints and schemas, each with an oid that
//! stays the object's own for as long as it is there.

mod parts;
pub mod source;

use std::collections::HashMap;
use std::sync::Arc;

use saki_catalog::{Catalog, Deferral, EnumType, Sequence, Table, View};

use self::parts::{Parts, of};
use self::source::{ColumnExtras, IndexKeys, OwnedSequence};
use super::definition::{self, Definition};
use super::types;

/// Oids below are PostgreSQL's own.
const FIRST_OID: i64 = 16384;
/// Oids that an id of the catalog has for itself: the relation, its row type, that type's array, its primary key.
const OIDS_PER_ID: i64 = 8;
/// Where oids of indexes begin, which are numbered by their trees, apart from tables.
const FIRST_INDEX_OID: i64 = 1 << 30;
/// Where oids of foreign keys and checks begin: so many are a table's.
const FIRST_CONSTRAINT_OID: i64 = 1 << 29;
const CONSTRAINTS_PER_TABLE: i64 = 1 << 8;

pub const PG_CATALOG: i64 = 11;
pub const PUBLIC: i64 = 2200;
pub const INFORMATION_SCHEMA: i64 = 13183;
pub const SAKI: i64 = 13184;
/// The role that what every database has belongs to.
pub const OWNER: i64 = 10;

/// A name space.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub oid: i64,
    pub name: String,
    pub comment: Option<String>,
}

/// A table, index, view or sequence.
#[derive(Clone, Debug)]
pub struct Relation {
    pub oid: i64,
    pub namespace: i64,
    pub schema: String,
    pub name: String,
    /// As `pg_class.relkind`: `r`, `i`, `v`, `S`.
    pub kind: char,
    pub columns: Vec<Attribute>,
    /// Of its base, as `bytes` are.
    pub rows: u64,
    pub bytes: u64,
    pub comment: Option<String>,
    /// Its name alone means it.
    pub visible: bool,
    pub detail: Detail,
}

/// What only one kind of relation has.
#[derive(Clone, Debug)]
pub enum Detail {
    Table(Arc<Table>),
    Index(IndexDetail),
    View(Arc<View>),
    Sequence(OwnedSequence),
    System,
}

/// A column of a relation.
#[derive(Clone, Debug)]
pub struct Attribute {
    pub name: String,
    pub type_oid: i64,
    pub modifier: i64,
    pub not_null: bool,
    pub extras: ColumnExtras,
}

/// An index; columns are positions from 1.
#[derive(Clone, Debug)]
pub struct IndexDetail {
    pub table: i64,
    pub of: IndexKeys,
    pub include: Vec<i64>,
    pub unique: bool,
    pub primary: bool,
}

/// A constraint of a table.
#[derive(Clone, Debug)]
pub struct Constraint {
    pub oid: i64,
    pub name: String,
    /// As `pg_constraint.contype`: `p`, `u`, `f`, `c`.
    pub kind: char,
    pub table: i64,
    pub namespace: i64,
    /// 0: none.
    pub index: i64,
    /// Positions from 1.
    pub columns: Vec<i64>,
    pub foreign: Option<Foreign>,
    pub expression: Option<String>,
    pub comment: Option<String>,
}

/// What a foreign key refers to.
#[derive(Clone, Debug)]
pub struct Foreign {
    pub table: i64,
    pub columns: Vec<i64>,
    pub on_delete: char,
    pub on_update: char,
    pub deferral: Deferral,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Objects {
    pub namespaces: Vec<Namespace>,
    pub relations: Vec<Relation>,
    pub constraints: Vec<Constraint>,
    pub enum_types: Vec<Arc<EnumType>>,
    /// Schemas in which names are looked for that say none, behind `pg_catalog`, if that is not among them.
    path: Vec<String>,
    by_oid: HashMap<i64, usize>,
    parts: Parts,
    by_name: HashMap<(String, String), usize>,
}

impl Objects {
    pub fn new(catalog: &Catalog, page_bytes: usize) -> Self {
        let mut objects = Self::default();
        for (oid, name) in [
            (PG_CATALOG, "pg_catalog"),
            (PUBLIC, saki_catalog::PUBLIC),
            (SAKI, "saki"),
            (INFORMATION_SCHEMA, "information_schema"),
        ] {
            objects.namespaces.push(Namespace { oid, name: name.to_owned(), comment: None });
        }
        for schema in catalog.schemas() {
            let (oid, name) = (relation_oid(schema.id.0), schema.name.clone());
            objects.namespaces.push(Namespace { oid, name, comment: schema.comment.clone() });
        }
        objects.enum_types = catalog.enum_types().map(Arc::clone).collect();
        for definition in definition::all() {
            objects.add(system(definition));
        }
        for table in catalog.tables() {
            objects.add_table(catalog, table, page_bytes);
        }
        for view in catalog.views() {
            objects.add_view(view);
        }
        for sequence in catalog.sequences() {
            objects.add_sequence(source::owned(catalog, sequence));
        }
        objects.seen_by(vec![saki_catalog::PUBLIC.to_owned()])
    }

    /// The same by another search path.
    pub fn seen_by(mut self, path: Vec<String>) -> Self {
        self.path = path;
        for at in 0..self.relations.len() {
            let relation = &self.relations[at];
            let visible = self.find(None, &relation.name).is_some_and(|found| found.oid == relation.oid);
            self.relations[at].visible = visible;
        }
        self
    }

    /// The schemas of names that say none, in their order; with `pg_catalog` where that is not among them.
    pub fn path(&self, with_implicit: bool) -> impl Iterator<Item = &str> {
        let implicit = with_implicit && !self.path.iter().any(|schema| schema == "pg_catalog");
        implicit.then_some("pg_catalog").into_iter().chain(self.path.iter().map(String::as_str))
    }

    pub fn relation(&self, oid: i64) -> Option<&Relation> {
        self.relations.get(*self.by_oid.get(&oid)?)
    }

    /// Looks a name up in a schema, or in those that names without one mean.
    pub fn find(&self, schema: Option<&str>, name: &str) -> Option<&Relation> {
        let within = |schema: &str| self.relations.get(*self.by_name.get(&(schema.to_owned(), name.to_owned()))?);
        match schema {
            Some(schema) => within(schema),
            None => self.path(true).find_map(within),
        }
    }

    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.iter().find(|namespace| namespace.name == name)
    }

    /// How SQL spells an enumeration's type, or that of its arrays.
    pub fn enumeration(&self, oid: i64) -> Option<String> {
        let is_array = |of: &EnumType| i64::from(of.array_oid()) == oid;
        let of = self.enum_types.iter().find(|of| i64::from(of.oid()) == oid || is_array(of))?;
        let name = of.state().name();
        Some(if is_array(of) { format!("{name}[]") } else { name.to_owned() })
    }

    pub fn constraint(&self, oid: i64) -> Option<&Constraint> {
        self.constraints.get(*self.parts.constraint.get(&oid)?)
    }

    pub fn constraints_of(&self, table: i64) -> impl Iterator<Item = &Constraint> {
        of(&self.parts.constraints, table).map(|at| &self.constraints[at])
    }

    pub fn indexes_of(&self, table: i64) -> impl Iterator<Item = &Relation> {
        of(&self.parts.indexes, table).map(|at| &self.relations[at])
    }

    /// Whether PostgreSQL would have triggers on a table: those that keep foreign keys, at both of their ends.
    pub fn has_triggers(&self, table: i64) -> bool {
        self.parts.with_triggers.contains(&table)
    }

    /// The sequence of an identity or serial column, by the column's position from 0.
    pub fn sequence_of(&self, table: i64, column: usize) -> Option<(&Relation, &Sequence)> {
        let relation = self.relations.get(*self.parts.sequences.get(&(table, column))?)?;
        let Detail::Sequence(owned) = &relation.detail else { return None };
        Some((relation, owned.sequence.as_ref()))
    }

    /// Relations that are the user's.
    pub fn user_relations(&self) -> impl Iterator<Item = &Relation> {
        self.relations.iter().filter(|relation| !matches!(relation.detail, Detail::System))
    }

    fn namespace_oid(&self, schema: &str) -> i64 {
        self.namespace(schema).map_or(PUBLIC, |namespace| namespace.oid)
    }

    fn add(&mut self, relation: Relation) {
        let at = self.relations.len();
        self.by_oid.insert(relation.oid, at);
        self.by_name.insert((relation.schema.clone(), relation.name.clone()), at);
        match &relation.detail {
            Detail::Index(index) => self.parts.indexes.entry(index.table).or_default().push(at),
            Detail::Sequence(OwnedSequence { owner: Some((table, column)), .. }) => {
                self.parts.sequences.entry((relation_oid(*table), *column)).or_insert(at);
            }
            _ => {}
        }
        self.relations.push(relation);
    }

    fn add_constraint(&mut self, constraint: Constraint) {
        let (at, parts) = (self.constraints.len(), &mut self.parts);
        parts.constraint.entry(constraint.oid).or_insert(at);
        parts.constraints.entry(constraint.table).or_default().push(at);
        let foreign = constraint.foreign.iter().flat_map(|foreign| [constraint.table, foreign.table]);
        parts.with_triggers.extend(foreign);
        self.constraints.push(constraint);
    }

    fn add_table(&mut self, catalog: &Catalog, table: &Arc<Table>, page_bytes: usize) {
        let schema = &table.schema;
        let namespace = self.namespace_oid(schema);
        let oid = relation_oid(table.id.0);
        let columns = (0..table.width()).map(|column| attribute(table, column)).collect();
        let (rows, bytes) = source::size(table, page_bytes);
        self.add(Relation {
            oid,
            namespace,
            schema: schema.clone(),
            name: table.bare_name().to_owned(),
            kind: 'r',
            columns,
            rows,
            bytes,
            comment: table.comment.clone(),
            visible: false,
            detail: Detail::Table(Arc::clone(table)),
        });
        if !table.primary_key.is_empty() {
            let keys = table.primary_key.iter().map(|column| (*column as i64 + 1, false)).collect();
            let index = IndexDetail {
                table: oid,
                of: IndexKeys { keys, ..IndexKeys::default() },
                include: Vec::new(),
                unique: true,
                primary: true,
            };
            // The primary tree is the table: the index takes no room of its own.
            let comment = Some(table.primary_key_comment.clone());
            self.add_index(table, (oid + 3, &table.primary_key_name(), None), index, (rows, 0), comment);
        }
        for index in &table.indexes {
            let detail = IndexDetail {
                table: oid,
                of: source::index_keys(table, index),
                include: index.include.iter().map(|column| *column as i64 + 1).collect(),
                unique: index.unique,
                primary: false,
            };
            let named = (index_oid(index.root.id.0), index.bare_name(), index.comment.clone());
            let size = (index.root.entries, source::bytes(&index.root, page_bytes));
            let constraint = index.constraint.then(|| index.constraint_comment.clone());
            self.add_index(table, named, detail, size, constraint);
        }
        self.add_constraints(catalog, table, oid, namespace);
    }

    fn add_index(
        &mut self,
        table: &Table,
        (oid, name, comment): (i64, &str, Option<String>),
        index: IndexDetail,
        (rows, bytes): (u64, u64),
        constraint: Option<Option<String>>,
    ) {
        let namespace = self.namespace_oid(&table.schema);
        if let Some(comment) = constraint {
            self.add_constraint(Constraint {
                oid,
                name: name.to_owned(),
                kind: if index.primary { 'p' } else { 'u' },
                table: index.table,
                namespace,
                index: oid,
                columns: index.of.keys.iter().map(|(column, _)| *column).collect(),
                foreign: None,
                expression: None,
                comment,
            });
        }
        let mut expressions = index.of.expressions.iter();
        let columns = index.of.keys.iter().map(|(column, _)| *column).chain(index.include.iter().copied());
        let columns = columns.filter_map(|column| {
            let of = match usize::try_from(column - 1) {
                Ok(position) => Some(position).filter(|at| *at < table.width()).map(|at| attribute(table, at))?,
                Err(_) => {
                    let key = expressions.next()?;
                    Attribute { name: key.name().to_owned(), ..attribute(table, key.column) }
                }
            };
            Some(Attribute { not_null: false, extras: ColumnExtras::default(), ..of })
        });
        let columns = columns.collect();
        self.add(Relation {
            oid,
            namespace,
            schema: table.schema.clone(),
            name: name.to_owned(),
            kind: 'i',
            columns,
            rows,
            bytes,
            comment,
            visible: false,
            detail: Detail::Index(index),
        });
    }

    fn add_constraints(&mut self, catalog: &Catalog, table: &Table, oid: i64, namespace: i64) {
        let mut next = FIRST_CONSTRAINT_OID + i64::from(table.id.0) * CONSTRAINTS_PER_TABLE;
        let positions = |columns: &[usize]| columns.iter().map(|column| *column as i64 + 1).collect::<Vec<_>>();
        for check in &table.checks {
            self.add_constraint(Constraint {
                oid: next,
                name: check.name.clone(),
                kind: 'c',
                table: oid,
                namespace,
                index: 0,
                columns: positions(&source::checked_columns(table, check)),
                foreign: None,
                expression: Some(check.expression.clone()),
                comment: check.comment.clone(),
            });
            next += 1;
        }
        for key in &table.foreign_keys {
            let Some(referenced) = source::referenced(catalog, key) else { continue };
            self.add_constraint(Constraint {
                oid: next,
                name: key.name.clone(),
                kind: 'f',
                table: oid,
                namespace,
                index: 0,
                columns: positions(&key.columns),
                foreign: Some(Foreign {
                    table: relation_oid(referenced.table),
                    columns: positions(&referenced.columns),
                    on_delete: referenced.on_delete,
                    on_update: referenced.on_update,
                    deferral: key.deferral,
                }),
                expression: None,
                comment: key.comment.clone(),
            });
            next += 1;
        }
    }

    fn add_view(&mut self, view: &Arc<View>) {
        let columns = view.columns.iter().map(|column| {
            let (type_oid, modifier) = column.data_type.map_or((25, -1), types::oid_of);
            let (name, extras) = (column.name.clone(), ColumnExtras::default());
            Attribute { name, type_oid, modifier, not_null: false, extras }
        });
        self.add(Relation {
            oid: relation_oid(view.id.0),
            namespace: self.namespace_oid(&view.schema),
            schema: view.schema.clone(),
            name: view.bare_name().to_owned(),
            kind: 'v',
            columns: columns.collect(),
            rows: 0,
            bytes: 0,
            comment: view.comment.clone(),
            visible: false,
            detail: Detail::View(Arc::clone(view)),
        });
    }

    fn add_sequence(&mut self, owned: OwnedSequence) {
        let sequence: &Sequence = &owned.sequence;
        let column = |name: &str, type_oid| Attribute {
            name: name.to_owned(),
            type_oid,
            modifier: -1,
            not_null: true,
            extras: ColumnExtras::default(),
        };
        self.add(Relation {
            oid: relation_oid(sequence.id.0),
            namespace: self.namespace_oid(&sequence.schema),
            schema: sequence.schema.clone(),
            name: sequence.bare_name().to_owned(),
            kind: 'S',
            columns: vec![column("last_value", 20), column("log_cnt", 20), column("is_called", 16)],
            rows: 1,
            bytes: 0,
            comment: sequence.comment.clone(),
            visible: false,
            detail: Detail::Sequence(owned),
        });
    }
}

/// The oid of a table, view or sequence, which share their ids.
pub fn relation_oid(id: u32) -> i64 {
    FIRST_OID + i64::from(id) * OIDS_PER_ID
}

/// The oid of a column's DEFAULT; no table has so many columns.
pub fn default_oid(relation: i64, column: i64) -> i64 {
    FIRST_OID + (relation - FIRST_OID) / OIDS_PER_ID * 2048 + column
}

fn index_oid(tree: u32) -> i64 {
    FIRST_INDEX_OID + i64::from(tree)
}

fn attribute(table: &Table, column: usize) -> Attribute {
    let (name, data_type, nullable) = table.column_type(column);
    let (type_oid, modifier) = types::oid_of(data_type);
    let not_null = !nullable || table.primary_key.contains(&column);
    Attribute { name: name.to_owned(), type_oid, modifier, not_null, extras: source::column_extras(table, column) }
}

fn system(definition: &'static Definition) -> Relation {
    let columns = definition.columns.iter().map(|column| Attribute {
        name: column.name.to_owned(),
        type_oid: types::by_name(column.type_name).map_or(25, |row| row.oid),
        modifier: -1,
        not_null: column.not_null,
        extras: ColumnExtras::default(),
    });
    Relation {
        oid: definition.oid,
        namespace: if definition.schema == "pg_catalog" { PG_CATALOG } else { INFORMATION_SCHEMA },
        schema: definition.schema.to_owned(),
        name: definition.name.to_owned(),
        kind: if definition.kind == "v" { 'v' } else { 'r' },
        columns: columns.collect(),
        rows: 0,
        bytes: 0,
        comment: None,
        visible: false,
        detail: Detail::System,
    }
}
