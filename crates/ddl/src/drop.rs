//! DROP TABLE, INDEX, VIEW, SEQUENCE, TYPE and SCHEMA, with what depends on them.
//!
//! First it is found, over the catalog alone, what goes and what depends on it. Without CASCADE any of the latter
//! refuses the statement.

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};

use super::alter::drop_columns;
use super::create::lock_type;
use super::dependents::{Dropping, Subject, depended_on};
use super::schema;
use saki_catalog::{Catalog, PUBLIC, Position, RelationKind, Result, SequenceOwner, SqlError};
use saki_context::StatementContext;
use saki_context::database::{Database, Stoppable};
use saki_context::statement::StatementResult;
use saki_parameters::is_temporary;
use saki_postgres::statement::object_name;
use saki_store::Writer;
use saki_store::locks::Policy;

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
        ObjectType::Type => "DROP TYPE",
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
        carry_out(&dropping, writer)
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
        let mut named = Vec::new();
        for name in dropping.types() {
            named.push(lock_type(cx, name).await?);
        }
        // Nobody looks at rows of tables that go; those of tables that lose an index or a column have to be in their
        // bases.
        let _locked = cx.transactions.lock_tables(&dropping.relations(), Policy::Wait).await?;
        for table in dropping.tables(&catalog) {
            cx.transactions.refuse_waiting("DROP TABLE", table).await?;
        }
        for table in dropping.columns().keys().filter_map(|name| catalog.get(name)) {
            cx.transactions.refuse_waiting("ALTER TABLE", table).await?;
        }
        let _settled = cx.transactions.alone(dropping.tables_losing(&catalog)).await?;
        let statement = Arc::clone(&statement);
        if cx.try_change_catalog(move |db| publish(db, &statement)).await?.is_some() {
            return Ok(());
        }
    }
}

fn publish(db: &Stoppable<'_>, statement: &Drop) -> Result<()> {
    db.write(|writer| {
        let dropping = statement.find(&writer.catalog)?;
        carry_out(&dropping, writer)
    })
}

fn carry_out(dropping: &Dropping, writer: &mut Writer<'_>) -> Result<()> {
    dropping.carry_out(writer)?;
    dropping.columns().iter().try_for_each(|(table, columns)| drop_columns(writer, table, columns))
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
                ObjectType::Type => self.find_type(catalog, name, &mut dropping),
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
        dropping.add_named(catalog, subject);
        Ok(())
    }

    fn find_type(&self, catalog: &Catalog, name: &str, dropping: &mut Dropping) -> Result<()> {
        match catalog.enum_type(name) {
            Some(_) => dropping.add_named(catalog, Subject::Type(name.to_owned())),
            None if self.if_exists => {}
            None => return Err(SqlError::invalid(format!("type \"{name}\" does not exist")).code("42704")),
        }
        Ok(())
    }
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
    let types = catalog.enum_types().filter(|of| of.schema == name).map(|of| Subject::Type(of.name.clone()));
    let dependents: Vec<Subject> = tables.chain(views).chain(sequences).chain(types).collect();
    for subject in dependents {
        dropping.depends(format!("{} depends on schema {name}", subject.shown()));
        dropping.add(catalog, subject);
    }
    Ok(())
}
