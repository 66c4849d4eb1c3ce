//! INSERT … ON CONFLICT: which rows are there already, and what becomes of them.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::compute::take_record_batch;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{Field, Schema};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ConflictTarget, Expr, Ident, OnConflictAction, OnInsert, SelectItem, SetExpr,
};
use saki_base::Value;
use saki_postgres::statement::walk::walk_expressions_mut;

use super::query::{
    Assigned, ordinal_item, ordinals_of, relation, same_ordinal, select, stand_in, table_batch, with_ordinals,
};
use super::rows::{Finder, RowWriter};
use super::update::updated;
use saki_catalog::columns::check_lengths;
use saki_catalog::convert::array_of;
use saki_catalog::{EntryDecoder, Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::constraint::RowChecks;
use saki_context::transaction::ChangeEnv;
use saki_plan::StandIns;
use saki_postgres::statement::{as_kept, conflict_keys, name_of, object_name, parse_expression, parse_query, quoted};
use saki_store::{Entry, Eyes};

/// What is to become of a row that is there already.
pub enum OnConflict {
    /// The statement fails.
    Refuse,
    /// The row in the table stays.
    Keep(Arbiter),
    /// It is changed.
    Update { arbiter: Arbiter, assigned: Assigned, selection: Option<Box<Expr>> },
}

/// What decides whether a row is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arbiter {
    /// Any key and any unique index.
    Any,
    PrimaryKey,
    /// A unique index, by its position among the table's indexes.
    Index(usize),
}

impl OnConflict {
    pub fn read(clause: Option<&OnInsert>, table: &Table) -> Result<Self> {
        let clause = match clause {
            None => return Ok(Self::Refuse),
            Some(OnInsert::OnConflict(clause)) => clause,
            Some(other) => return Err(SqlError::unsupported(format!("{other} is not supported"))),
        };
        let arbiter = Arbiter::read(clause.conflict_target.as_ref(), table)?;
        Ok(match &clause.action {
            OnConflictAction::DoNothing => Self::Keep(arbiter),
            OnConflictAction::DoUpdate(_) if arbiter == Arbiter::Any => {
                return Err(SqlError::invalid("ON CONFLICT DO UPDATE needs to know which key is meant")
                    .code("42601")
                    .hint("ON CONFLICT (columns) DO UPDATE"));
            }
            OnConflictAction::DoUpdate(update) => Self::Update {
                arbiter,
                assigned: Assigned::read(table, &update.assignments)?,
                selection: update.selection.clone().map(Box::new),
            },
        })
    }
}

impl Arbiter {
    /// # Errors
    /// 42P10 where no key is as `target` says, 42703.
    pub fn read(target: Option<&ConflictTarget>, table: &Table) -> Result<Self> {
        let no_such = |what: String| {
            Err(SqlError::invalid(format!("ON CONFLICT: table {} has no unique or primary key {what}", table.name))
                .code("42P10"))
        };
        match target {
            None => Ok(Self::Any),
            Some(ConflictTarget::OnConstraint(name)) => {
                let (name, _) = object_name(name)?;
                if name == table.primary_key_name() && !table.primary_key.is_empty() {
                    return Ok(Self::PrimaryKey);
                }
                match table.indexes.iter().position(|index| index.unique && index.name == name) {
                    Some(index) => Ok(Self::Index(index)),
                    None => no_such(format!("of the name {name:?}")),
                }
            }
            Some(ConflictTarget::Columns(columns)) => {
                if let Some((keys, condition)) = conflict_keys(columns) {
                    return match inferred(keys, condition, table)? {
                        Some(arbiter) => Ok(arbiter),
                        None => no_such("over these expressions, and with this condition".to_owned()),
                    };
                }
                let mut named = Vec::with_capacity(columns.len());
                for ident in columns {
                    let name = name_of(ident);
                    named.push(table.column(&name).ok_or_else(|| {
                        SqlError::invalid(format!("table {} has no column {name:?}", table.name)).code("42703")
                    })?);
                }
                let sorted = |mut columns: Vec<usize>| {
                    columns.sort_unstable();
                    columns
                };
                let named = sorted(named);
                if sorted(table.primary_key.clone()) == named {
                    return Ok(Self::PrimaryKey);
                }
                let is_meant = |index: &saki_catalog::Index| {
                    index.unique && sorted(index.columns.iter().map(|column| column.column).collect()) == named
                };
                match table.indexes.iter().position(is_meant) {
                    Some(index) => Ok(Self::Index(index)),
                    None => no_such(format!("over ({})", table.names(&named))),
                }
            }
        }
    }
}

/// The key that is over what ON CONFLICT names, and that has no condition but such as it says. One without a condition
/// goes first: rows that meet in another meet in it.
///
/// # Errors
/// 42601 for what is no expression.
fn inferred(keys: &str, condition: &str, table: &Table) -> Result<Option<Arbiter>> {
    let sorted = |mut keys: Vec<String>| {
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    let wanted = match *parse_query(&format!("SELECT {keys}"))?.body {
        SetExpr::Select(select) => select.projection,
        _ => Vec::new(),
    };
    let wanted = wanted.iter().map(|item| match item {
        SelectItem::UnnamedExpr(key) => Ok(comparable(key, table)),
        _ => Err(SqlError::invalid(format!("ON CONFLICT ({keys}) names no keys")).code("42601")),
    });
    let wanted = sorted(wanted.collect::<Result<_>>()?);
    let condition = (!condition.is_empty()).then(|| parse_expression(condition)).transpose()?;
    let said: Vec<String> = condition.iter().flat_map(conjuncts).map(|part| comparable(part, table)).collect();
    let key = |column: usize| match table.hidden(column) {
        Some(hidden) => Ok(comparable(&parse_expression(&hidden.key)?, table)),
        None => Ok(quoted(table.column_type(column).0)),
    };
    let all = |columns: &[usize]| columns.iter().copied().map(key).collect::<Result<Vec<_>>>().map(sorted);
    if !table.primary_key.is_empty() && all(&table.primary_key)? == wanted {
        return Ok(Some(Arbiter::PrimaryKey));
    }
    let mut partial = None;
    for (place, index) in table.indexes.iter().enumerate().filter(|(_, index)| index.unique) {
        if all(&index.columns.iter().map(|column| column.column).collect::<Vec<_>>())? != wanted {
            continue;
        }
        let Some(predicate) = index.predicate(table) else { return Ok(Some(Arbiter::Index(place))) };
        let predicate = parse_expression(predicate)?;
        if partial.is_none() && conjuncts(&predicate).iter().all(|part| said.contains(&comparable(part, table))) {
            partial = Some(Arbiter::Index(place));
        }
    }
    Ok(partial)
}

/// An expression as a text that is the same for all spellings of its names.
fn comparable(expr: &Expr, table: &Table) -> String {
    let mut expr = as_kept(expr, table);
    let _ = walk_expressions_mut(&mut expr, |expr| {
        if let Expr::Identifier(ident) = expr {
            *ident = Ident::with_quote('"', name_of(ident));
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

/// What is between ANDs.
fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Nested(inner) => conjuncts(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut parts = conjuncts(left);
            parts.extend(conjuncts(right));
            parts
        }
        other => vec![other],
    }
}

/// A row that is changed in its place.
pub struct Pair {
    pub before: Entry,
    pub after: Entry,
}

/// What an INSERT comes to once it is known which rows are there.
pub struct Resolved {
    pub new: RecordBatch,
    pub updated: Vec<Pair>,
    /// The rows of `updated` as they will be.
    pub changed: RecordBatch,
}

impl Resolved {
    pub fn all_new(rows: RecordBatch) -> Self {
        let changed = rows.slice(0, 0);
        Self { new: rows, updated: Vec::new(), changed }
    }
}

/// Which rows are there.
pub struct Sorted {
    /// Positions of rows that are not.
    pub new: Vec<u32>,
    /// Positions of rows that are, and what is there.
    pub present: Vec<(u32, Entry)>,
}

/// Looks rows up, and works out what becomes of those that are there.
pub async fn resolve(
    cx: &StatementContext<'_>,
    env: &ChangeEnv<'_>,
    table: &Arc<Table>,
    alias: &str,
    rows: RecordBatch,
    on_conflict: OnConflict,
    checks: &RowChecks,
) -> Result<Resolved> {
    let (arbiter, update) = match on_conflict {
        OnConflict::Refuse => return Ok(Resolved::all_new(rows)),
        OnConflict::Keep(arbiter) => (arbiter, None),
        OnConflict::Update { arbiter, assigned, selection } => (arbiter, Some((assigned, selection.map(|s| *s)))),
    };
    let (snapshot, of, looked_up) = (Arc::clone(&env.snapshot), Arc::clone(table), checks.complete(&rows)?);
    let is_update = update.is_some();
    let sorted = cx
        .db
        .blocking(move |db| {
            let mut writer = RowWriter::new(db.base_reader(), &snapshot.generation, &of)?;
            writer.finder.stop = Some(db.stop());
            let reader = snapshot.reader()?;
            let entries = writer.encode(&looked_up, 1)?;
            sort(&mut writer.finder, &reader, arbiter, &entries, is_update)
        })
        .await?;
    let new = take_record_batch(&rows, &positions(sorted.new))?;
    let Some((mut assigned, selection)) = update else { return Ok(Resolved::all_new(new)) };
    if sorted.present.is_empty() {
        return Ok(Resolved::all_new(new));
    }
    let excluded = take_record_batch(&rows, &positions(sorted.present.iter().map(|(row, _)| *row)))?;
    let entries: Vec<Entry> = sorted.present.into_iter().map(|(_, entry)| entry).collect();
    let existing = decoded(table, &entries)?;
    let found = evaluate(cx, env, table, alias, &existing, &excluded, &mut assigned, selection).await?;
    let ordinals: Vec<usize> = ordinals_of(&found)?.into_iter().map(|ordinal| ordinal as usize).collect();
    let changed: HashSet<usize> = ordinals.iter().copied().collect();
    refuse_twice(entries.iter().enumerate().map(|(ordinal, entry)| (entry, changed.contains(&ordinal))))?;
    let before = take_record_batch(&existing, &positions(ordinals.iter().map(|o| *o as u32)))?;
    let before = table_batch(&before, table, 0)?;
    let columns = assigned.columns();
    if columns.iter().any(|column| table.primary_key.contains(column)) {
        return Err(SqlError::unsupported("ON CONFLICT DO UPDATE of the primary key is not supported"));
    }
    let changed = updated(&before, &found, 1, table, &columns, &cx.parameters.time())?;
    check_lengths(&changed, table, 1)?;
    checks.check(&changed)?;
    let pairs = pairs(table, &entries, &ordinals, &checks.complete(&changed)?)?;
    Ok(Resolved { new, updated: pairs, changed })
}

/// The new values of rows that are there: their ordinals first.
#[expect(clippy::too_many_arguments, reason = "two rows, what is made of them, and where")]
async fn evaluate(
    cx: &StatementContext<'_>,
    env: &ChangeEnv<'_>,
    table: &Table,
    alias: &str,
    existing: &RecordBatch,
    excluded: &RecordBatch,
    assigned: &mut Assigned,
    selection: Option<Expr>,
) -> Result<RecordBatch> {
    let alias = Ident::with_quote('"', alias);
    let excluded_alias = Ident::new("excluded");
    let mut items = vec![ordinal_item(&alias)];
    // A bare name means the row that is there: the columns of the new one have names that nobody writes.
    assigned.change(|expr| rename_excluded(expr, table));
    items.extend(assigned.items(&env.generation.catalog, table)?);
    let same = same_ordinal(&alias, &excluded_alias);
    let condition = match selection {
        None => same,
        Some(mut selection) => {
            let _ = walk_expressions_mut(&mut selection, |expr| {
                rename_excluded(expr, table);
                std::ops::ControlFlow::<()>::Continue(())
            });
            let right = Box::new(Expr::Nested(Box::new(selection)));
            Expr::BinaryOp { left: Box::new(same), op: BinaryOperator::And, right }
        }
    };
    // Names that no table has: subqueries see the table itself.
    const EXISTING: &str = "rows that are there";
    const NEW: &str = "rows that are new";
    let relations = vec![relation(EXISTING, Some(&alias))?, relation(NEW, Some(&excluded_alias))?];
    let stand_ins = StandIns::from([
        (EXISTING.to_owned(), stand_in(with_ordinals(existing)?)?),
        (NEW.to_owned(), stand_in(with_ordinals(&with_excluded_names(excluded)?)?)?),
    ]);
    let env = env.with_stand_ins(stand_ins);
    assigned.measure(cx, &env, &relations).await?;
    assigned.spread(cx.rows_of(&env, select(items, relations, Some(condition))?).await?, 1)
}

/// The name of a column of the new row, for a query that has the row that is there beside it.
fn excluded_name(column: &str) -> String {
    format!("excluded {column}")
}

fn with_excluded_names(batch: &RecordBatch) -> Result<RecordBatch> {
    let renamed = |field: &Arc<Field>| field.as_ref().clone().with_name(excluded_name(field.name()));
    let fields: Vec<Field> = batch.schema().fields().iter().map(renamed).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), batch.columns().to_vec())?)
}

/// `excluded.column` by that name.
fn rename_excluded(expr: &mut Expr, table: &Table) {
    if let Expr::CompoundIdentifier(parts) = expr
        && let [relation, column] = &mut parts[..]
        && name_of(relation) == "excluded"
        && table.column(&name_of(column)).is_some()
    {
        *column = Ident::with_quote('"', excluded_name(&name_of(column)));
    }
}

fn positions(rows: impl IntoIterator<Item = u32>) -> UInt32Array {
    UInt32Array::from_iter_values(rows)
}

/// Looks up which rows are there. `is_update`: those are to be changed, and a new one cannot be.
///
/// # Errors
/// 21000 where a row of the statement meets another; those of storage.
pub fn sort(
    finder: &mut Finder<'_>,
    reader: &impl Eyes,
    arbiter: Arbiter,
    entries: &[Entry],
    is_update: bool,
) -> Result<Sorted> {
    let mut sorted = Sorted { new: Vec::new(), present: Vec::new() };
    let mut seen = HashSet::new();
    for (position, (key, row)) in (0..).zip(entries) {
        finder.check()?;
        let mut marks = Vec::new();
        let mut found = None;
        if matches!(arbiter, Arbiter::Any | Arbiter::PrimaryKey) && !finder.table.primary_key.is_empty() {
            marks.push((usize::MAX, key.clone()));
            found = finder.get(reader, key)?.map(|row| (key.clone(), row));
        }
        for unique in 0..finder.uniques() {
            let index = finder.unique(unique);
            if !matches!(arbiter, Arbiter::Any) && arbiter != Arbiter::Index(index) {
                continue;
            }
            if let Some(values) = finder.values(unique, key, row)? {
                marks.push((index, values));
            }
            if found.is_none()
                && let Some(other) = finder.same(reader, unique, key, row)?
            {
                let row = finder.get(reader, &other)?;
                found = row.map(|row| (other, row));
            }
        }
        let is_repeated = marks.iter().any(|mark| seen.contains(mark));
        // A row that is left out takes no key from those behind it.
        if is_update || (found.is_none() && !is_repeated) {
            seen.extend(marks);
        }
        match found {
            // Whether the row that is there is changed at all depends on the condition.
            Some(entry) if is_update => sorted.present.push((position, entry)),
            _ if is_repeated && is_update => return Err(twice()),
            _ if is_repeated => {}
            None => sorted.new.push(position),
            Some(entry) => sorted.present.push((position, entry)),
        }
    }
    Ok(sorted)
}

/// Refuses rows that meet one which the statement has changed; of each the key of the row that is there, and whether it
/// is changed.
///
/// # Errors
/// 21000.
pub fn refuse_twice<'k>(rows: impl IntoIterator<Item = (&'k Entry, bool)>) -> Result<()> {
    let mut changed = HashSet::new();
    for ((key, _), is_changed) in rows {
        if changed.contains(key) {
            return Err(twice());
        }
        if is_changed {
            changed.insert(key);
        }
    }
    Ok(())
}

fn twice() -> SqlError {
    SqlError::constraint("ON CONFLICT DO UPDATE would change a row twice").code("21000").hint("give each key once")
}

/// Entries as a batch of what statements see of their table.
pub fn decoded(table: &Table, entries: &[Entry]) -> Result<RecordBatch> {
    let mut decoder = EntryDecoder::new(table.primary_layout());
    let mut columns: Vec<Vec<Value>> = vec![Vec::with_capacity(entries.len()); table.width()];
    for (key, row) in entries {
        decoder.decode(table, key, row, |values| {
            for (column, value) in columns.iter_mut().zip(values) {
                column.push(Value::from(*value));
            }
        })?;
    }
    let arrays: Vec<ArrayRef> =
        columns.iter().zip(&table.columns).map(|(values, column)| array_of(column.data_type, values)).collect();
    let fields: Vec<Field> = table.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn pairs(table: &Arc<Table>, entries: &[Entry], ordinals: &[usize], changed: &RecordBatch) -> Result<Vec<Pair>> {
    let mut encoder = saki_catalog::EntryEncoder::new(table.primary_layout());
    let readers = saki_catalog::ColumnReader::of_batch(changed, table, 0)?;
    let mut scratch = Vec::new();
    let pair = |(row, ordinal): (usize, &usize)| {
        encoder.encode_row(&mut scratch, &readers, row)?;
        let before = entries[*ordinal].clone();
        // The key is not assigned; a hidden row id is not in the batch.
        Ok(Pair { after: (before.0.clone(), encoder.row.clone()), before })
    };
    ordinals.iter().enumerate().map(pair).collect()
}
