//! Queries that stand in for statements while they are analyzed: they have the same parameters beside the same
//! expressions.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Expr};

use super::parameters::placeholder;
use saki_catalog::{Catalog, Result, SqlError};
use saki_context::statement::Parsed;
use saki_postgres::dialect::row_values;
use saki_postgres::statement::{ChangingWith, MergedAs, name_of, object_name, parse, quoted, when_clauses};

/// A query that has the statement's parameters beside the expressions that give them their types.
pub fn probe(parsed: &Parsed, catalog: &Catalog) -> Option<Parsed> {
    let Parsed(Statement::Statement(statement), _) = parsed else { return None };
    let sql = match statement.as_ref() {
        ast::Statement::Query(query) => match ChangingWith::probing(query).ok()? {
            Some(with) => changing_probe(with, catalog),
            None => return Some(parsed.clone()),
        },
        ast::Statement::Explain { statement, .. } => statement.to_string(),
        ast::Statement::Insert(insert) => insert_probe(insert, catalog)?,
        ast::Statement::Update(update) => {
            let items = update.assignments.iter().flat_map(assigned).collect();
            select(items, &updated_from(update), update.selection.as_ref())
        }
        ast::Statement::Merge(merge) => merge_probe(merge, catalog)?,
        ast::Statement::Delete(delete) => select(Vec::new(), &deleted_from(delete), delete.selection.as_ref()),
        _ => return None,
    };
    Some(Parsed::made(parse(&sql).ok()?.pop()?))
}

/// A query over the probes of all statements.
fn changing_probe(with: ChangingWith, catalog: &Catalog) -> String {
    let statements = with.changes.into_iter().map(|change| change.statement).chain([with.main]);
    let probes = statements.filter_map(|statement| {
        let Parsed(probe, _) = probe(&Parsed::made(Statement::Statement(Box::new(statement))), catalog)?;
        Some(format!("EXISTS ({probe})"))
    });
    format!("SELECT {}", probes.collect::<Vec<_>>().join(", "))
}

/// Values of clauses about rows that have met, and in a query over the source alone those of the others.
fn merge_probe(merge: &ast::Merge, catalog: &Catalog) -> Option<String> {
    let ast::TableFactor::Table { name, .. } = &merge.table else { return None };
    let definition = catalog.get(&object_name(name).ok()?.0)?;
    let (mut of_both, mut of_source) = (Vec::new(), Vec::new());
    for clause in when_clauses(merge).ok()? {
        let items = if clause.is_matched { &mut of_both } else { &mut of_source };
        items.extend(clause.condition.map(|condition| format!("({condition})")));
        match clause.action {
            MergedAs::Update(assignments) => items.extend(assignments.iter().flat_map(assigned)),
            MergedAs::Insert(row) => {
                let columns: Vec<String> = match row.columns.is_empty() {
                    false => row.columns.iter().map(ToString::to_string).collect(),
                    true => definition.visible().iter().map(|column| quoted(&column.name)).collect(),
                };
                let pairs = columns.iter().zip(row.values.unwrap_or_default());
                let given = pairs.filter(|(_, value)| is_placeholder(value));
                // The table's columns are those of the query around.
                items.extend(given.map(|(column, value)| format!("{column} = ({value})")));
                items.extend(
                    row.values.into_iter().flatten().filter(|value| !is_default(value)).map(ToString::to_string),
                );
            }
            MergedAs::Delete | MergedAs::Nothing => {}
        }
    }
    if !of_source.is_empty() {
        of_both.push(format!("EXISTS ({})", select(of_source, &merge.source.to_string(), None)));
    }
    Some(select(of_both, &format!("{}, {}", merge.source, merge.table), Some(&merge.on)))
}

fn insert_probe(insert: &ast::Insert, catalog: &Catalog) -> Option<String> {
    let ast::TableObject::TableName(table) = &insert.table else { return None };
    let columns: Vec<String> = match insert.columns.is_empty() {
        false => insert.columns.iter().map(ToString::to_string).collect(),
        true => {
            let name = object_name(table).ok()?.0;
            let definition = catalog.get(&name)?;
            definition.visible().iter().map(|column| quoted(&column.name)).collect()
        }
    };
    let source = insert.source.as_ref()?;
    let mut items = Vec::new();
    if let Some(ast::OnInsert::OnConflict(ast::OnConflict {
        action: ast::OnConflictAction::DoUpdate(update), ..
    })) = &insert.on
    {
        items.extend(update.assignments.iter().filter(|a| is_placeholder(&a.value)).flat_map(assigned));
    }
    match source.body.as_ref() {
        ast::SetExpr::Values(values) => {
            for row in &values.rows {
                let pairs = columns.iter().zip(row.iter()).filter(|(_, value)| !is_default(value));
                items.extend(pairs.map(|(column, value)| format!("{column} = ({value})")));
            }
            Some(select(items, &table.to_string(), None))
        }
        // What only its place in the list gives a type to is found by the column; everything else in the query.
        ast::SetExpr::Select(query) if query.from.is_empty() => {
            for (column, item) in columns.iter().zip(&query.projection) {
                if let ast::SelectItem::UnnamedExpr(value) = item {
                    items.push(format!("{column} = ({value})"));
                }
            }
            Some(select(items, &table.to_string(), query.selection.as_ref()))
        }
        _ => Some(source.to_string()),
    }
}

/// `SELECT items FROM tables WHERE condition`.
fn select(items: Vec<String>, from: &str, condition: Option<&Expr>) -> String {
    let items = if items.is_empty() { "1".to_owned() } else { items.join(", ") };
    match condition {
        Some(condition) => format!("SELECT {items} FROM {from} WHERE {condition}"),
        None => format!("SELECT {items} FROM {from}"),
    }
}

/// What is assigned, each value beside its column.
fn assigned(assignment: &ast::Assignment) -> Vec<String> {
    let pairs = match (&assignment.target, row_values(&assignment.value)) {
        (ast::AssignmentTarget::ColumnName(column), _) => vec![(column, &assignment.value)],
        (ast::AssignmentTarget::Tuple(columns), Some(values)) => columns.iter().zip(values).collect(),
        (ast::AssignmentTarget::Tuple(_), None) => match &assignment.value {
            Expr::Subquery(query) => return vec![format!("EXISTS ({query})")],
            _ => Vec::new(),
        },
    };
    let given = pairs.into_iter().filter(|(_, value)| !is_default(value));
    given.map(|(column, value)| format!("{column} = ({value})")).collect()
}

pub fn returned(items: &[ast::SelectItem], table: &impl std::fmt::Display) -> Result<Parsed> {
    let items = items.iter().map(ToString::to_string).collect();
    let query = parse(&select(items, &table.to_string(), None))?.pop();
    query.map(Parsed::made).ok_or_else(|| SqlError::internal("RETURNING of nothing"))
}

/// The relations of an UPDATE, as a FROM clause.
pub fn updated_from(update: &ast::Update) -> String {
    match &update.from {
        Some(ast::UpdateTableFromKind::BeforeSet(tables) | ast::UpdateTableFromKind::AfterSet(tables)) => {
            format!("{}, {}", update.table, list(tables))
        }
        None => update.table.to_string(),
    }
}

/// The relations of a DELETE, as a FROM clause.
pub fn deleted_from(delete: &ast::Delete) -> String {
    let from = list(delete_tables(&delete.from));
    match &delete.using {
        Some(using) => format!("{from}, {}", list(using)),
        None => from,
    }
}

fn delete_tables(from: &ast::FromTable) -> &[ast::TableWithJoins] {
    match from {
        ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables) => tables,
    }
}

fn list(tables: &[ast::TableWithJoins]) -> String {
    tables.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(ident) if name_of(ident) == "default")
}

fn is_placeholder(value: &Expr) -> bool {
    placeholder(value).is_some()
}
