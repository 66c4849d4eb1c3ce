//! INSERT INTO table [(columns)] {VALUES … | SELECT …} [ON CONFLICT …].

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Expr, Insert, OnConflictAction, OnInsert, Query, TableObject,
};

use super::{name_of, object_name};
use crate::catalog::Table;
use crate::error::{Position, Result, SqlError};

/// What becomes of a row whose primary key is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnConflict {
    /// The statement fails.
    Refuse,
    /// The row in the table stays.
    Keep,
    /// The new row replaces it.
    Replace,
}

/// An INSERT's parts.
pub struct NewRows {
    pub query: Query,
    /// Table column of each column of the query.
    pub columns: Vec<usize>,
    pub on_conflict: OnConflict,
}

/// The table an INSERT is about.
pub fn table_name(insert: &Insert) -> Result<(String, Option<Position>)> {
    match &insert.table {
        TableObject::TableName(name) => object_name(name),
        other => Err(SqlError::unsupported(format!("INSERT INTO {other} is not supported"))),
    }
}

impl NewRows {
    pub fn read(insert: &Insert, table: &Table) -> Result<Self> {
        refuse_other_clauses(insert)?;
        let Some(query) = &insert.source else {
            return Err(
                SqlError::unsupported("INSERT … DEFAULT VALUES is not supported").hint("give values or a query")
            );
        };
        let mut columns = Vec::with_capacity(insert.columns.len());
        for name in &insert.columns {
            let (name, position) = object_name(name)?;
            let column = table.column(&name).ok_or_else(|| {
                SqlError::invalid(format!("table {} has no column {name:?}", table.name)).at(position)
            })?;
            if columns.contains(&column) {
                return Err(SqlError::invalid(format!("column {name:?} is named twice")).at(position));
            }
            columns.push(column);
        }
        if columns.is_empty() {
            columns = (0..table.columns.len()).collect();
        }
        let on_conflict = match &insert.on {
            None => OnConflict::Refuse,
            Some(OnInsert::OnConflict(clause)) => {
                check_target(clause.conflict_target.as_ref(), table)?;
                match &clause.action {
                    OnConflictAction::DoNothing => OnConflict::Keep,
                    OnConflictAction::DoUpdate(update) if update.selection.is_none() => {
                        check_assignments(&update.assignments, table)?;
                        OnConflict::Replace
                    }
                    OnConflictAction::DoUpdate(_) => {
                        return Err(SqlError::unsupported("ON CONFLICT DO UPDATE … WHERE is not supported"));
                    }
                }
            }
            Some(other) => return Err(SqlError::unsupported(format!("{other} is not supported"))),
        };
        Ok(Self { query: query.as_ref().clone(), columns, on_conflict })
    }
}

fn check_target(target: Option<&ConflictTarget>, table: &Table) -> Result<()> {
    let ours = match target {
        None => true,
        Some(ConflictTarget::OnConstraint(name)) => object_name(name)?.0 == table.primary_key_name(),
        Some(ConflictTarget::Columns(columns)) => {
            let mut named: Vec<Option<usize>> = columns.iter().map(|ident| table.column(&name_of(ident))).collect();
            let mut key: Vec<Option<usize>> = table.primary_key.iter().copied().map(Some).collect();
            named.sort_unstable();
            key.sort_unstable();
            named == key
        }
    };
    if ours && !table.primary_key.is_empty() {
        return Ok(());
    }
    Err(SqlError::unsupported(format!("ON CONFLICT works on the primary key of {}", table.name))
        .hint(format!("ON CONFLICT ({})", table.names(&table.primary_key))))
}

/// Every column outside of the key must take the new row's value: then the update replaces the row.
fn check_assignments(assignments: &[Assignment], table: &Table) -> Result<()> {
    let mut assigned = vec![false; table.columns.len()];
    for Assignment { target, value } in assignments {
        let AssignmentTarget::ColumnName(name) = target else {
            return Err(SqlError::unsupported(format!("SET {target} is not supported")));
        };
        let (name, position) = object_name(name)?;
        let column = table
            .column(&name)
            .ok_or_else(|| SqlError::invalid(format!("table {} has no column {name:?}", table.name)).at(position))?;
        let excluded = match value {
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [relation, field] => name_of(relation) == "excluded" && name_of(field) == name,
                _ => false,
            },
            _ => false,
        };
        if !excluded {
            return Err(SqlError::unsupported(format!("ON CONFLICT DO UPDATE SET {name} = {value} is not supported"))
                .hint(format!("{name} = excluded.{name} is"))
                .at(position));
        }
        assigned[column] = true;
    }
    let kept: Vec<usize> =
        (0..assigned.len()).filter(|column| !assigned[*column] && !table.primary_key.contains(column)).collect();
    if kept.is_empty() {
        return Ok(());
    }
    Err(SqlError::unsupported("ON CONFLICT DO UPDATE must set every column outside of the primary key")
        .hint(format!("these are missing: {}", table.names(&kept))))
}

fn refuse_other_clauses(insert: &Insert) -> Result<()> {
    let refused = if insert.returning.is_some() {
        "RETURNING"
    } else if insert.overwrite {
        "OVERWRITE"
    } else if insert.replace_into || insert.or.is_some() || insert.ignore {
        "a conflict clause of another dialect"
    } else if insert.table_alias.is_some() || insert.insert_alias.is_some() {
        "an alias"
    } else if !insert.assignments.is_empty() {
        "SET"
    } else if insert.partitioned.is_some() {
        "PARTITION"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(format!("INSERT: {refused} is not supported")))
}
