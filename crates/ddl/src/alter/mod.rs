//! ALTER TABLE, ALTER INDEX, ALTER VIEW, ALTER SEQUENCE and ALTER TYPE: tried on the generation, validated, and
//! published.
//!
//! A table whose rows get another shape or another key is loaded anew from a query over itself, with bounded memory.
//! Rows stay as they are where columns are dropped, or added with one value for all of them (`missing`), and so they do
//! for any other change, which builds and gives back only the trees that differ.

mod alteration;
mod enumeration;
mod missing;
mod removal;
mod sequence;
mod texts;
mod validate;

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::sql::sqlparser::ast;
use saki_base::Value;
use saki_columns::SegmentsRoot;

use self::alteration::Alteration;
pub use self::enumeration::alter_type;
use self::missing::missing_values;
use self::texts::texts;
use self::validate::{new_rows, validate};
use crate::create::check_expressions;
use crate::dependents::{sequences_drawn, tables_referred_to};
use crate::names::hold_definition;
use crate::rename;
use crate::trees::{clear_table, free_table, index_rows};
use saki_catalog::convert::conform;
use saki_catalog::undefined;
use saki_catalog::{Catalog, Difference, RelationKind, Result, Sequence, SequencePosition};
use saki_catalog::{SqlError, Table};
use saki_context::StatementContext;
use saki_context::constraint::RowChecks;
use saki_context::database::Stoppable;
use saki_context::feed;
use saki_context::statement::StatementResult;
use saki_context::transaction::Locked;
use saki_parameters::SessionTime;
use saki_postgres::statement::parse_query;
use saki_postgres::statement::table::alter_table::new_name;
use saki_postgres::{Action, AlterTable, ColumnName, RelationName};
use saki_store::load::load;
use saki_store::locks::{LockMode, Policy};
use saki_store::{Writer, segments};

pub async fn alter_table(cx: &StatementContext<'_>, alter: &ast::AlterTable) -> Result<StatementResult> {
    let alter = AlterTable::read(alter)?;
    let generation = cx.generation()?;
    let name = &alter.name;
    let tag = match generation.catalog.kind_of(&name.name) {
        None if alter.if_exists => "ALTER TABLE",
        None => return Err(undefined(&name.name).at(name.position)),
        Some(RelationKind::Table) => {
            drop(generation);
            let _referred = cx.transactions.lock_tables(&referred(&alter.actions), Policy::Wait).await?;
            let _alone = cx.transactions.alone(vec![name.name.clone()]).await?;
            // Only now: what its delta had is in its base.
            let before = Arc::clone(cx.generation()?.catalog.table(&name.name)?);
            if !alter.actions.iter().all(Action::is_renaming) {
                cx.transactions.refuse_waiting("ALTER TABLE", &before).await?;
            }
            return alter_stored_table(cx, alter, before).await;
        }
        Some(RelationKind::Sequence) => {
            drop(generation);
            sequence::alter_sequence(cx, alter).await?;
            "ALTER SEQUENCE"
        }
        Some(RelationKind::View) => {
            drop(generation);
            let wanted = [(name.name.clone(), LockMode::AccessExclusive)];
            let _locked = cx.transactions.lock_tables(&wanted, Policy::Wait).await?;
            cx.change_catalog(move |db| alter_view(db, &alter)).await?;
            "ALTER VIEW"
        }
        Some(RelationKind::Index) => {
            drop(generation);
            change_index(cx, alter).await?;
            "ALTER INDEX"
        }
    };
    Ok(StatementResult::done(tag, 0))
}

/// Tables that new foreign keys refer to: their rows stay as they are until the keys have been validated; and sequences
/// that new defaults draw from.
fn referred(actions: &[Action]) -> Vec<(String, LockMode)> {
    let constraints = actions.iter().flat_map(|action| match action {
        Action::AddColumn { column, .. } => &column.constraints[..],
        Action::AddConstraint(constraint) => std::slice::from_ref(constraint.as_ref()),
        _ => &[],
    });
    let defaults = actions.iter().filter_map(|action| match action {
        Action::AddColumn { column, .. } => column.default.as_ref(),
        Action::SetDefault(_, default) => Some(default),
        _ => None,
    });
    tables_referred_to(constraints).into_iter().chain(sequences_drawn(defaults)).collect()
}

/// What an alteration of one table changes, and locks of all else that it takes something away from: views, sequences,
/// foreign keys and defaults of other tables.
async fn tried(
    cx: &StatementContext<'_>,
    alter: &AlterTable,
    before: &Arc<Table>,
) -> Result<(Catalog, Alteration, Vec<Locked>)> {
    let (mut held, mut known) = (Vec::new(), Vec::new());
    loop {
        let newest = cx.generation()?;
        let mut catalog = newest.catalog.clone();
        let alteration = Alteration::new(&mut catalog, Arc::clone(before), &alter.actions)?;
        let wanted = losing(&catalog.difference(&newest.catalog));
        if wanted == known {
            return Ok((catalog, alteration, held));
        }
        held.push(cx.transactions.lock_tables(&wanted, Policy::Wait).await?);
        known = wanted;
    }
}

fn losing(difference: &Difference) -> Vec<(String, LockMode)> {
    let tables = difference.tables.iter().filter_map(|table| Some(&table.before.as_ref()?.name));
    let views = difference.views.iter().filter_map(|view| Some(&view.before.as_ref()?.name));
    let sequences = difference.sequences.iter().filter_map(|sequence| Some(&sequence.before.as_ref()?.name));
    tables.chain(views).chain(sequences).map(|name| (name.clone(), LockMode::AccessExclusive)).collect()
}

/// Alters a table that nobody else uses, and that is all in its base.
///
/// # Errors
/// What stands against an action, and rows that do.
pub async fn alter_stored_table(
    cx: &StatementContext<'_>,
    alter: AlterTable,
    before: Arc<Table>,
) -> Result<StatementResult> {
    let time = cx.parameters.time();
    let (catalog, alteration, _held) = tried(cx, &alter, &before).await?;
    check_expressions(cx, &catalog, &alteration.after)?;
    let is_empty = before.root.is_empty();
    let missing = if is_empty { None } else { missing_values(cx, &catalog, &alteration).await? };
    validate(cx, &catalog, &alteration, missing.as_deref()).await?;
    if !alteration.rewrites() || is_empty || missing.is_some() {
        let change = move |db: &Stoppable<'_>| {
            let rows = missing.map_or(Rows::None, Rows::Stay);
            publish(db, &before, &alter.actions, rows)
        };
        cx.change_catalog(change).await?;
        return Ok(StatementResult::done("ALTER TABLE", 0));
    }
    let query = ast::Statement::Query(parse_query(&new_rows(&catalog, &alteration))?);
    let planned = cx.plan_newest(&query).await?;
    // As in CREATE TABLE AS: parts of the plan run from here on.
    let _publishing = cx.sequences.publishing();
    let stream = cx.start(planned)?;
    let filling = RowChecks::new(&cx.planner.state(), &Arc::new(alteration.after))?;
    let publish = move |db: &Stoppable<'_>, batches: Batches<'_>| {
        publish(db, &before, &alter.actions, Rows::New(NewRows { batches, filling: &filling, time: &time }))
    };
    feed(cx, stream, publish).await?;
    Ok(StatementResult::done("ALTER TABLE", 0))
}

pub async fn alter_index(
    cx: &StatementContext<'_>,
    from: &ast::ObjectName,
    operation: &ast::AlterIndexOperation,
) -> Result<StatementResult> {
    let ast::AlterIndexOperation::RenameIndex { index_name } = operation;
    let name = RelationName::read(from)?;
    let to = new_name(index_name, &name)?;
    let alter = AlterTable { name, if_exists: false, actions: vec![Action::Rename(to)] };
    change_index(cx, alter).await?;
    Ok(StatementResult::done("ALTER INDEX", 0))
}

async fn change_index(cx: &StatementContext<'_>, alter: AlterTable) -> Result<()> {
    let table = cx.generation()?.catalog.index(&alter.name.name).map(|(table, _)| table.name.clone());
    let _locked = hold_definition(cx, table).await?;
    cx.change_catalog(move |db| rename_index(db, &alter)).await
}

/// Batches of a query.
type Batches<'b> = &'b mut dyn Iterator<Item = Result<RecordBatch>>;

/// What statements see of rows that are written anew, and what completes them.
struct NewRows<'b> {
    batches: Batches<'b>,
    filling: &'b RowChecks,
    time: &'b SessionTime,
}

/// What becomes of the rows that a table has.
enum Rows<'b> {
    /// It has none, or they have nothing to do with the change.
    None,
    /// They stay, have the columns that are dropped, and lack those that are added: these are their values.
    Stay(Vec<Value>),
    /// They are written anew.
    New(NewRows<'b>),
}

fn publish(db: &Stoppable<'_>, seen: &Arc<Table>, actions: &[Action], rows: Rows<'_>) -> Result<()> {
    db.write(|writer| {
        let before = writer.catalog.table(&seen.name)?;
        // What was validated is this table only.
        if !is_as_seen(seen, before) {
            return Err(SqlError::invalid(format!("table {:?} was changed meanwhile", seen.name))
                .code("40001")
                .hint("repeat the statement"));
        }
        let before = Arc::clone(before);
        let mut alteration = Alteration::new(&mut writer.catalog, before, actions)?;
        match rows {
            Rows::Stay(missing) => {
                let Alteration { before, after, .. } = &mut alteration;
                after.change_layout(before, after.columns.len() - missing.len(), &missing)?;
                adapt(writer, alteration)
            }
            Rows::New(rows) => rewrite(writer, alteration, Some(rows)),
            Rows::None if alteration.rewrites() => rewrite(writer, alteration, None),
            Rows::None => adapt(writer, alteration),
        }
    })
}

/// Whether a table is what was validated. Where its rows lie in memory may have changed.
fn is_as_seen(seen: &Table, now: &Table) -> bool {
    seen.id == now.id
        && seen.is_stored_as(now)
        && seen.columns == now.columns
        && seen.checks == now.checks
        && seen.foreign_keys == now.foreign_keys
}

fn alter_view(db: &Stoppable<'_>, alter: &AlterTable) -> Result<()> {
    db.write(|writer| {
        for action in &alter.actions {
            let Some(view) = writer.catalog.view(&alter.name.name).cloned() else {
                return Err(undefined(&alter.name.name).at(alter.name.position));
            };
            match action {
                Action::Rename(to) => rename::rename_view(&mut writer.catalog, &view, to)?,
                Action::Nothing => {}
                _ => return Err(not_a_table(&alter.name)),
            }
        }
        Ok(())
    })
}

fn rename_index(db: &Stoppable<'_>, alter: &AlterTable) -> Result<()> {
    db.write(|writer| {
        for action in &alter.actions {
            match action {
                Action::Rename(to) => {
                    if !rename::rename_index(&mut writer.catalog, &alter.name.name, to)? {
                        return Err(undefined(&alter.name.name).at(alter.name.position));
                    }
                }
                Action::Nothing => {}
                _ => return Err(not_a_table(&alter.name)),
            }
        }
        Ok(())
    })
}

fn not_a_table(name: &RelationName) -> SqlError {
    SqlError::invalid(format!("{:?} is not a table", name.name)).code("42809").at(name.position)
}

/// Publishes a change that leaves rows and keys as they are: indexes and segments may come and go.
fn adapt(writer: &mut Writer<'_>, alteration: Alteration) -> Result<()> {
    let Alteration { before, mut after, .. } = alteration;
    for index in &before.indexes {
        if !after.indexes.iter().any(|other| other.root.id == index.root.id) {
            writer.free_tree(&index.root)?;
        }
    }
    for index in 0..after.indexes.len() {
        if !before.indexes.iter().any(|other| other.root.id == after.indexes[index].root.id) {
            after.indexes[index].root = index_rows(writer, &after, index)?;
        }
    }
    if before.segments.is_some() != after.segments.is_some() || filtered(&before, &after) != filtered(&after, &after) {
        if after.segments.is_some() {
            let root = before.segments.unwrap_or_else(|| SegmentsRoot::empty(writer.catalog.new_tree_id()));
            after.segments = Some(segments::build(writer.trees(), &after, &root)?);
        }
        if let Some(root) = &before.segments {
            writer.free_segments(&before, root)?;
        }
    }
    writer.catalog.remove(&before.name);
    writer.catalog.put(after);
    Ok(())
}

/// Columns of a table with Bloom filters, of those that it has `after`: their ids.
fn filtered(table: &Table, after: &Table) -> Vec<u32> {
    let ids = table.bloom.iter().map(|position| table.details[*position].id);
    ids.filter(|id| after.position_of(*id).is_some()).collect()
}

/// Drops columns of a table that nobody else uses, and that is all in its base, with what depends on them.
///
/// # Errors
/// 0A000 if rows would have to be written anew: then that is to be asked for.
pub fn drop_columns(writer: &mut Writer<'_>, table: &str, columns: &[String]) -> Result<()> {
    let Some(before) = writer.catalog.get(table).map(Arc::clone) else { return Ok(()) };
    let action = |name: &String| Action::DropColumn {
        column: ColumnName { name: name.clone(), position: None },
        if_exists: true,
        cascade: true,
    };
    let actions: Vec<_> = columns.iter().map(action).collect();
    let mut alteration = Alteration::new(&mut writer.catalog, before, &actions)?;
    if alteration.before.root.is_empty() {
        return rewrite(writer, alteration, None);
    }
    if alteration.first_added().is_none() {
        let message =
            format!("column {:?} of table {table:?} is in its key, and is not dropped by CASCADE", columns[0]);
        return Err(SqlError::unsupported(message).hint("ALTER TABLE … DROP COLUMN drops it"));
    }
    let Alteration { before, after, .. } = &mut alteration;
    after.change_layout(before, after.columns.len(), &[])?;
    adapt(writer, alteration)
}

/// Publishes a change of rows or keys: all trees are built anew.
fn rewrite(writer: &mut Writer<'_>, alteration: Alteration, rows: Option<NewRows<'_>>) -> Result<()> {
    let Alteration { before, mut after, .. } = alteration;
    clear_table(&writer.catalog, &mut after);
    free_table(writer, &before)?;
    writer.catalog.remove(&before.name);
    writer.catalog.put(after.clone());
    let Some(NewRows { batches, filling, time }) = rows else { return Ok(()) };
    let mut read = 0;
    let shaped = batches.map(|batch| {
        let batch = texts(&batch?, &after)?;
        read += batch.num_rows() as u64;
        let columns: Vec<usize> = (0..after.width()).collect();
        filling.complete(&conform(&batch, &after, &columns, read - batch.num_rows() as u64 + 1, time)?)
    });
    let rows = load(writer, &after.name, shaped, &mut |_| {})?;
    number_on(&mut writer.catalog, &before, &after, rows);
    Ok(())
}

/// Sequences of columns that are new go on behind the numbers that rows have got.
fn number_on(catalog: &mut Catalog, before: &Table, after: &Table, rows: u64) {
    let added = after.details.iter().filter(|detail| before.position_of(detail.id).is_none());
    let sequences: Vec<Sequence> = added
        .filter_map(|detail| catalog.owned_sequence(after.id, detail.id).map(|sequence| Sequence::clone(sequence)))
        .collect();
    for sequence in sequences {
        let last_value = sequence.start.saturating_add(sequence.increment.saturating_mul(rows as i64 - 1));
        if rows > 0 {
            catalog.put_sequence(Sequence { position: SequencePosition { last_value, is_called: true }, ..sequence });
        }
    }
}
