//! DROP TABLE, INDEX, VIEW, SEQUENCE and SCHEMA, with what depends on them.
//!
//! First it is found, over the catalog alone, what goes and what depends on it: views over a table and over such
//! views, foreign keys that refer to it, defaults that draw from a sequence. Without CASCADE any of them refuses the
//! statement.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};
use saki_base::TableId;

use super::dependents::{columns_drawing, views_of};
use super::schema;
use super::trees::free_table;
use saki_catalog::{Catalog, PUBLIC, Position, RelationKind, Result, SequenceOwner, SqlError, Table};
use saki_context::StatementContext;
use saki_context::database::{Database, Stoppable};
use saki_context::statement::StatementResult;
use saki_parameters::is_temporary;
use saki_postgres::statement::object_name;
use saki_store::Writer;
use saki_store::locks::{LockMode, Policy};

/// A DROP statement.
#[derive(Debug)]
pub struct Drop {
    pub kind: ObjectType,
    pub if_exists: bool,
    pub cascade: bool,
    names: Vec<(String, Option<Position>)>,
}

pub async fn drop_objects(
    cx: &StatementContext<'_>,
    kind: ObjectType,
    if_exists: bool,
    cascade: bool,
    names: &[ObjectName],
) -> Result<StatementResult> {
    let tag = match kind {
        ObjectType::Table => "DROP TABLE",
        ObjectType::Index => "DROP INDEX",
        ObjectType::View => "DROP VIEW",
        ObjectType::Sequence => "DROP SEQUENCE",
        ObjectType::Schema => "DROP SCHEMA",
        other => return Err(SqlError::unsupported(format!("DROP {other} is not supported"))),
    };
    let mut stored = Vec::new();
    for name in names {
        let (name, position) = match kind {
            ObjectType::Schema => schema::schema_name(name)?,
            _ => object_name(name)?,
        };
        if kind == ObjectType::Table && cx.planner.names.is_external(&name) {
            cx.planner.names.deregister_table(&name)?;
        } else {
            stored.push((name, position));
        }
    }
    if !stored.is_empty() {
        drop_stored(cx, Arc::new(Drop { kind, if_exists, cascade, names: stored })).await?;
    }
    Ok(StatementResult::done(tag, 0))
}

/// Drops temporary tables that are left of sessions of a process that was killed. For the first session of a database:
/// those of other ones are not theirs.
pub fn sweep_temporary(db: &Database) {
    if !db.is_first_session() || db.writable().is_err() {
        return;
    }
    let names: Vec<_> =
        db.generation().catalog.schema_names().filter(|name| is_temporary(name)).map(str::to_owned).collect();
    if names.is_empty() {
        return;
    }
    let names = names.into_iter().map(|name| (name, None)).collect();
    let statement = Drop { kind: ObjectType::Schema, if_exists: true, cascade: true, names };
    let swept = db.write(|writer| {
        let dropping = statement.find(&writer.catalog)?;
        dropping.carry_out(writer)
    });
    if let Err(error) = swept {
        tracing::warn!("temporary tables of sessions that have ended stay until the database is opened again: {error}");
    }
}

/// DROP INDEX CONCURRENTLY: whoever changes rows of the table waits for a moment only.
pub async fn drop_index_concurrently(
    cx: &StatementContext<'_>,
    if_exists: bool,
    cascade: bool,
    names: &[ObjectName],
) -> Result<StatementResult> {
    const STATEMENT: &str = "DROP INDEX CONCURRENTLY";
    cx.transactions.outside_of_block(STATEMENT)?;
    let refused = match names {
        [_] if !cascade => None,
        [_] => Some("CASCADE"),
        _ => Some("dropping multiple objects"),
    };
    if let Some(what) = refused {
        return Err(SqlError::unsupported(format!("{STATEMENT} does not support {what}")));
    }
    let names: Vec<_> = names.iter().map(object_name).collect::<Result<_>>()?;
    let catalog = cx.generation()?.catalog.clone();
    let statement = Drop { kind: ObjectType::Index, if_exists, cascade, names };
    statement.find(&catalog)?;
    let name = statement.names[0].0.clone();
    if let Some((table, _)) = catalog.index(&name) {
        let table = table.name.clone();
        cx.concurrently(STATEMENT, move |work| work.drop_index(&table, &name)).await?;
    }
    Ok(StatementResult::done("DROP INDEX", 0))
}

async fn drop_stored(cx: &StatementContext<'_>, statement: Arc<Drop>) -> Result<()> {
    loop {
        let catalog = cx.generation()?.catalog.clone();
        let dropping = statement.find(&catalog)?;
        // Nobody looks at rows of tables that go; those of tables that lose an index have to be in their bases.
        let _locked = cx.transactions.lock_tables(&dropping.relations(), Policy::Wait).await?;
        for table in dropping.tables(&catalog) {
            cx.transactions.refuse_waiting("DROP TABLE", table).await?;
        }
        let _settled = cx.transactions.alone(dropping.tables_of_indexes(&catalog)).await?;
        let statement = Arc::clone(&statement);
        if cx.try_change_catalog(move |db| publish(db, &statement)).await?.is_some() {
            return Ok(());
        }
    }
}

fn publish(db: &Stoppable<'_>, statement: &Drop) -> Result<()> {
    db.write(|writer| {
        let dropping = statement.find(&writer.catalog)?;
        dropping.carry_out(writer)
    })
}

impl Drop {
    /// What goes.
    fn find(&self, catalog: &Catalog) -> Result<Dropping> {
        let mut dropping = Dropping::default();
        for (name, position) in &self.names {
            let found = match self.kind {
                ObjectType::Schema => {
                    if self.if_exists && !catalog.has_schema(name) {
                        continue;
                    }
                    drop_schema(catalog, name, &mut dropping)
                }
                _ => self.find_relation(catalog, name, &mut dropping),
            };
            found.map_err(|error| error.at(*position))?;
        }
        dropping.settle();
        if dropping.dependents.is_empty() || self.cascade {
            return Ok(dropping);
        }
        let kind = self.kind.to_string().to_lowercase();
        let names = self.names.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let message = match self.names.len() {
            1 => format!("cannot drop {kind} {names} because other objects depend on it"),
            _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
        };
        Err(depended_on(message, &dropping.dependents))
    }

    fn find_relation(&self, catalog: &Catalog, name: &str, dropping: &mut Dropping) -> Result<()> {
        let (wanted, what) = match self.kind {
            ObjectType::Table => (RelationKind::Table, "table"),
            ObjectType::View => (RelationKind::View, "view"),
            ObjectType::Sequence => (RelationKind::Sequence, "sequence"),
            _ => (RelationKind::Index, "index"),
        };
        match catalog.kind_of(name) {
            None if self.if_exists => return Ok(()),
            None => return Err(SqlError::invalid(format!("{what} {name:?} does not exist")).code("42P01")),
            Some(kind) if kind != wanted => {
                return Err(SqlError::invalid(format!(
                    "{name:?} is not a{} {what}",
                    if what == "index" { "n" } else { "" }
                ))
                .code("42809"));
            }
            Some(_) => {}
        }
        let subject = match wanted {
            RelationKind::Table => Subject::Table(name.to_owned()),
            RelationKind::View => Subject::View(name.to_owned()),
            RelationKind::Sequence => {
                refuse_owned(catalog, name)?;
                Subject::Sequence(name.to_owned())
            }
            RelationKind::Index => {
                refuse_constraint(catalog, name)?;
                Subject::Index(name.to_owned())
            }
        };
        dropping.named.insert(subject.clone());
        dropping.add(catalog, subject);
        Ok(())
    }
}

/// The error for a drop that other objects stand against.
pub fn depended_on(message: String, dependents: &[String]) -> SqlError {
    SqlError::invalid(message)
        .code("2BP01")
        .detail(dependents.iter().map(|text| format!("{text}.")).collect::<Vec<_>>().join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// An identity's sequence goes with the column only.
fn refuse_owned(catalog: &Catalog, name: &str) -> Result<()> {
    let owner = catalog.sequence(name).and_then(|sequence| sequence.owner);
    let Some(SequenceOwner { table, column }) = owner else { return Ok(()) };
    let Some((table, position)) = catalog.table_of(table).and_then(|t| Some((t, t.position_of(column)?))) else {
        return Ok(());
    };
    if table.details[position].identity.is_none() {
        return Ok(());
    }
    let column = format!("column {} of table {}", table.columns[position].name, table.name);
    Err(SqlError::invalid(format!("cannot drop sequence {name} because {column} requires it"))
        .code("2BP01")
        .hint(format!("You can drop {column} instead.")))
}

/// A constraint's index goes with the constraint only.
fn refuse_constraint(catalog: &Catalog, name: &str) -> Result<()> {
    let Some((table, position)) = catalog.index(name) else { return Ok(()) };
    if !table.indexes[position].constraint {
        return Ok(());
    }
    let constraint = format!("constraint {} on table {}", table.indexes[position].bare_name(), table.name);
    Err(SqlError::invalid(format!("cannot drop index {name} because {constraint} requires it"))
        .code("2BP01")
        .hint(format!("You can drop {constraint} instead.")))
}

/// Something that goes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    Table(String),
    View(String),
    Sequence(String),
    Index(String),
    /// A foreign key of a table that stays.
    ForeignKey {
        table: String,
        name: String,
    },
    /// The default of a column that stays.
    Default {
        table: String,
        column: usize,
    },
}

impl Subject {
    pub fn shown(&self) -> String {
        match self {
            Self::Table(name) => format!("table {name}"),
            Self::View(name) => format!("view {name}"),
            Self::Sequence(name) => format!("sequence {name}"),
            Self::Index(name) => format!("index {name}"),
            Self::ForeignKey { table, name } => format!("constraint {name} on table {table}"),
            Self::Default { table, .. } => format!("default value of a column of table {table}"),
        }
    }
}

/// What goes, found before anything has gone.
#[derive(Debug, Default)]
pub struct Dropping {
    /// Those that the statement names: they are nobody's dependents.
    named: BTreeSet<Subject>,
    subjects: BTreeSet<Subject>,
    pub schemas: Vec<String>,
    /// What depends on those, in words, and which subject each is about.
    found: Vec<(Option<Subject>, String)>,
    pub dependents: Vec<String>,
}

impl Dropping {
    /// Notes that something depends on what goes.
    pub fn depends(&mut self, text: String) {
        self.found.push((None, text));
    }

    /// Adds a subject and all that depends on it.
    pub fn add(&mut self, catalog: &Catalog, subject: Subject) {
        let mut pending = vec![(subject, None)];
        while let Some((subject, reason)) = pending.pop() {
            self.found.extend(reason.map(|reason| (Some(subject.clone()), reason)));
            if self.subjects.insert(subject.clone()) {
                pending.extend(needing(catalog, &subject).into_iter().rev());
            }
        }
    }

    /// What has to be locked: relations that go, and tables that stay and lose something by that.
    fn relations(&self) -> Vec<(String, LockMode)> {
        let name = |subject: &Subject| match subject {
            Subject::Table(name) | Subject::View(name) | Subject::Sequence(name) => Some(name.clone()),
            Subject::ForeignKey { table, .. } | Subject::Default { table, .. } => Some(table.clone()),
            Subject::Index(_) => None,
        };
        self.subjects.iter().filter_map(name).map(|name| (name, LockMode::AccessExclusive)).collect()
    }

    /// Tables that go.
    fn tables<'c>(&self, catalog: &'c Catalog) -> impl Iterator<Item = &'c Arc<Table>> {
        let of = move |subject: &Subject| match subject {
            Subject::Table(name) => catalog.get(name),
            _ => None,
        };
        self.subjects.iter().filter_map(of)
    }

    /// Tables that stay and lose an index.
    fn tables_of_indexes(&self, catalog: &Catalog) -> Vec<String> {
        let of = |subject: &Subject| match subject {
            Subject::Index(name) => catalog.index(name).map(|(table, _)| table.name.clone()),
            _ => None,
        };
        self.subjects.iter().filter_map(of).collect()
    }

    /// Leaves out what the statement itself names, and what belongs to a table that goes.
    fn settle(&mut self) {
        let found = std::mem::take(&mut self.found);
        let of_table = |table: &String| self.subjects.contains(&Subject::Table(table.clone()));
        self.dependents = found
            .into_iter()
            .filter(|(subject, _)| match subject {
                None => true,
                Some(Subject::ForeignKey { table, .. } | Subject::Default { table, .. }) => !of_table(table),
                Some(subject) => !self.named.contains(subject),
            })
            .map(|(_, text)| text)
            .collect();
    }

    pub fn carry_out(&self, writer: &mut Writer<'_>) -> Result<()> {
        for subject in &self.subjects {
            match subject {
                Subject::Table(name) => {
                    if let Some(table) = writer.catalog.remove(name) {
                        free_table(writer, &table)?;
                    }
                }
                Subject::View(name) => drop(writer.catalog.remove_view(name)),
                Subject::Sequence(name) => drop(writer.catalog.remove_sequence(name)),
                Subject::Index(name) => drop_index(writer, name)?,
                Subject::ForeignKey { table, name } => {
                    change(&mut writer.catalog, table, |table| table.foreign_keys.retain(|key| key.name != *name));
                }
                Subject::Default { table, column } => {
                    change(&mut writer.catalog, table, |table| table.details[*column].default = None);
                }
            }
        }
        for schema in &self.schemas {
            writer.catalog.remove_schema(schema);
        }
        Ok(())
    }
}

/// What cannot be without something that goes, and why, in words; what belongs to that needs none.
fn needing(catalog: &Catalog, subject: &Subject) -> Vec<(Subject, Option<String>)> {
    let views = |name| views_of(catalog, name).map(|view| Subject::View(view.name.clone()));
    let (mut owned, mut dependents) = (Vec::new(), Vec::new());
    match subject {
        Subject::Table(name) => {
            let Some(table) = catalog.get(name) else { return Vec::new() };
            owned.extend(catalog.owned_sequences(table.id).map(|owned| Subject::Sequence(owned.name.clone())));
            dependents.extend(views(name));
            let keys = catalog.referencing(table.id).filter(|(other, _)| other.id != table.id);
            dependents.extend(
                keys.map(|(other, key)| Subject::ForeignKey { table: other.name.clone(), name: key.name.clone() }),
            );
        }
        Subject::View(name) => dependents.extend(views(name)),
        Subject::Sequence(name) => {
            let drawing = catalog.sequence(name).into_iter().flat_map(|sequence| columns_drawing(catalog, sequence));
            dependents.extend(drawing.map(|(table, column)| Subject::Default { table: table.name.clone(), column }));
        }
        Subject::Index(name) => {
            if let Some((table, position)) = catalog.index(name) {
                dependents.extend(keys_resting_on(catalog, table, position));
            }
        }
        Subject::ForeignKey { .. } | Subject::Default { .. } => {}
    }
    let because = |dependent: Subject| {
        let reason = format!("{} depends on {}", dependent.shown(), subject.shown());
        (dependent, Some(reason))
    };
    owned.into_iter().map(|owned| (owned, None)).chain(dependents.into_iter().map(because)).collect()
}

/// Everything in a schema is to go, and then the schema.
fn drop_schema(catalog: &Catalog, name: &str, dropping: &mut Dropping) -> Result<()> {
    if name == PUBLIC {
        return Err(SqlError::unsupported("schema \"public\" cannot be dropped"));
    }
    if !catalog.has_schema(name) {
        return Err(schema::undefined(name));
    }
    dropping.schemas.push(name.to_owned());
    let tables = catalog.tables().filter(|t| t.schema == name).map(|t| Subject::Table(t.name.clone()));
    let views = catalog.views().filter(|v| v.schema == name).map(|v| Subject::View(v.name.clone()));
    let sequences = catalog.sequences().filter(|s| s.schema == name).map(|s| Subject::Sequence(s.name.clone()));
    let dependents: Vec<Subject> = tables.chain(views).chain(sequences).collect();
    for subject in dependents {
        dropping.depends(format!("{} depends on schema {name}", subject.shown()));
        dropping.add(catalog, subject);
    }
    Ok(())
}

/// Changes a table, if it is there still.
pub fn change(catalog: &mut Catalog, name: &str, change: impl FnOnce(&mut Table)) {
    if let Some(table) = catalog.get(name) {
        let mut table = Table::clone(table);
        change(&mut table);
        catalog.put(table);
    }
}

/// Foreign keys that would refer to columns that are unique no more, were the index not there.
pub fn keys_resting_on(catalog: &Catalog, table: &Table, index: usize) -> Vec<Subject> {
    let mut without = table.clone();
    without.indexes.remove(index);
    keys_lost(catalog, table.id, &without)
}

/// Foreign keys that refer to columns of a table that are not unique in what is to become of it.
pub fn keys_lost(catalog: &Catalog, table: TableId, after: &Table) -> Vec<Subject> {
    let lost = |referenced: &[u32]| match referenced.iter().map(|id| after.position_of(*id)).collect::<Option<Vec<_>>>()
    {
        Some(columns) => !after.is_unique_by(&columns),
        None => true,
    };
    catalog
        .referencing(table)
        .filter(|(_, key)| lost(&key.referenced))
        .map(|(other, key)| Subject::ForeignKey { table: other.name.clone(), name: key.name.clone() })
        .collect()
}

fn drop_index(writer: &mut Writer<'_>, name: &str) -> Result<()> {
    let Some((table, position)) = writer.catalog.index(name) else { return Ok(()) };
    let mut table = Table::clone(table);
    let index = table.indexes.remove(position);
    writer.free_tree(&index.root)?;
    writer.catalog.put(table);
    Ok(())
}
