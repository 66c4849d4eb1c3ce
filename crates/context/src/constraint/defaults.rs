//! What fills the columns that an INSERT leaves out or says DEFAULT for: its query, completed.

use std::cmp::Ordering;

use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SetExpr, Value, ValueWithSpan, Values};
use saki_base::DataType;

use saki_catalog::{Catalog, Identity, Result, SqlError, Table};
use saki_postgres::dialect::check_default;
use saki_postgres::statement::{Overriding, has_subquery, name_of, parse_expression, parse_query};

/// A table's defaults and identities, for its INSERTs.
pub struct Defaults<'t> {
    catalog: &'t Catalog,
    table: &'t Table,
    overriding: Option<Overriding>,
}

impl<'t> Defaults<'t> {
    pub fn new(catalog: &'t Catalog, table: &'t Table) -> Self {
        Self { catalog, table, overriding: None }
    }

    /// What an INSERT says of the values that it gives for identity columns.
    pub fn overriding(self, overriding: Option<Overriding>) -> Self {
        Self { overriding, ..self }
    }

    /// The source of an INSERT, and the table columns of its columns. `given` are those that the statement gives values
    /// for, in the order of the query's columns; a VALUES list may say DEFAULT for any. Columns that are neither given
    /// nor have a default stay out: they are NULL.
    ///
    /// # Errors
    /// 428C9 for a value for a GENERATED ALWAYS column.
    pub fn complete(&self, mut query: Query, given: &[usize]) -> Result<(Query, Vec<usize>)> {
        let mut columns = given.to_vec();
        let mut added = Vec::new();
        for position in 0..self.table.columns.len() {
            if given.contains(&position) {
                continue;
            }
            if let Some(expression) = self.expression(position)? {
                columns.push(position);
                added.push(expression);
            }
        }
        if let Some(values) = values_of(&mut query) {
            for row in &mut values.rows {
                check_width(row.content.len(), given.len())?;
                self.complete_row(&mut row.content, given)?;
                row.content.extend(added.iter().cloned());
            }
            return Ok((query, columns));
        }
        if let Some(position) = given.iter().find(|position| self.refuses_values(**position)) {
            return Err(self.refused(*position));
        }
        if added.is_empty() && !given.iter().any(|position| self.passes_over(*position)) {
            return Ok((query, columns));
        }
        // Columns of the query get names of their own: it may have several of one name.
        let names: Vec<String> = (0..given.len()).map(|number| format!("given {number}")).collect();
        let quoted = |name: &String| format!("\"{name}\"");
        let mut list = Vec::with_capacity(columns.len());
        for (name, position) in names.iter().zip(given) {
            list.push(if self.passes_over(*position) { self.value(*position)?.to_string() } else { quoted(name) });
        }
        list.extend(added.iter().map(ToString::to_string));
        let names = names.iter().map(quoted).collect::<Vec<_>>().join(", ");
        let completed = format!("SELECT {} FROM ({query}) AS \"source\" ({names})", list.join(", "));
        Ok((*parse_query(&completed)?, columns))
    }

    /// Values of each row of a query that is a bare VALUES list: an INSERT that names no columns fills so many.
    pub fn width(query: &Query) -> Option<usize> {
        values_of(&mut query.clone()).and_then(|values| values.rows.first().map(|row| row.content.len()))
    }

    /// What fills the columns of a row that gives values for some, one at least; `None`: DEFAULT.
    ///
    /// # Errors
    /// 428C9 for a value for a GENERATED ALWAYS column.
    pub fn filled(&self, given: Vec<(usize, Option<Expr>)>) -> Result<Vec<(usize, Expr)>> {
        let mut filled = Vec::with_capacity(given.len());
        for (position, value) in given {
            match value {
                Some(_) if self.refuses_values(position) => return Err(self.refused(position)),
                Some(value) if !self.passes_over(position) => filled.push((position, value)),
                _ => filled.push((position, self.value(position)?)),
            }
        }
        for position in 0..self.table.columns.len() {
            if filled.iter().all(|(other, _)| *other != position)
                && let Some(expression) = self.expression(position)?
            {
                filled.push((position, expression));
            }
        }
        if filled.is_empty() {
            filled.push((0, self.value(0)?));
        }
        Ok(filled)
    }

    /// INSERT … DEFAULT VALUES: a row of defaults.
    pub fn row(&self) -> Result<(Query, Vec<usize>)> {
        let all: Vec<usize> = (0..self.table.width()).collect();
        let row = all.iter().map(|_| "DEFAULT").collect::<Vec<_>>().join(", ");
        self.complete(*parse_query(&format!("VALUES ({row})"))?, &all)
    }

    /// What fills a column.
    pub fn expression(&self, position: usize) -> Result<Option<Expr>> {
        self.table.default_of(self.catalog, position).map(|text| parse_expression(&text)).transpose()
    }

    /// What a column is without a value.
    pub fn value(&self, position: usize) -> Result<Expr> {
        Ok(self.expression(position)?.unwrap_or_else(|| Expr::Value(Value::Null.into())))
    }

    /// Replaces DEFAULT.
    fn complete_row(&self, row: &mut [Expr], given: &[usize]) -> Result<()> {
        for (expression, position) in row.iter_mut().zip(given) {
            let is_default = matches!(expression, Expr::Identifier(ident) if is_default(ident));
            if is_default || self.passes_over(*position) {
                *expression = self.value(*position)?;
            } else if self.refuses_values(*position) {
                return Err(self.refused(*position));
            }
        }
        Ok(())
    }

    /// Whether a value for a column is an error.
    fn refuses_values(&self, position: usize) -> bool {
        self.overriding.is_none() && self.table.refuses_values(position)
    }

    /// Whether a value for a column is given in vain.
    fn passes_over(&self, position: usize) -> bool {
        self.overriding == Some(Overriding::User) && self.table.details[position].identity.is_some()
    }

    fn refused(&self, position: usize) -> SqlError {
        let name = &self.table.columns[position].name;
        SqlError::invalid(format!("cannot insert a non-DEFAULT value into column {name:?}"))
            .code("428C9")
            .detail(format!("Column {name:?} is an identity column defined as GENERATED ALWAYS."))
            .hint("say DEFAULT, leave the column out, or override it by OVERRIDING SYSTEM VALUE")
    }

    /// Refuses a value for a GENERATED ALWAYS column in UPDATE … SET.
    pub fn check_update(table: &Table, position: usize, value: &Expr) -> Result<()> {
        let is_default = matches!(value, Expr::Identifier(ident) if is_default(ident));
        if is_default || table.details[position].identity != Some(Identity::Always) {
            return Ok(());
        }
        let name = &table.columns[position].name;
        Err(SqlError::invalid(format!("column {name:?} can only be updated to DEFAULT"))
            .code("428C9")
            .detail(format!("Column {name:?} is an identity column defined as GENERATED ALWAYS.")))
    }

    /// Plans every default of a table: none may name a column or hold a subquery.
    pub fn check_all(state: &SessionState, catalog: &Catalog, table: &Table) -> Result<()> {
        for position in 0..table.columns.len() {
            let Some(text) = table.default_of(catalog, position) else { continue };
            let named = parse_expression(&text)?;
            if matches!(&named, Expr::Identifier(ident) if ident.quote_style.is_none() && is_column(table, ident)) {
                return Err(SqlError::unsupported("cannot use column reference in DEFAULT expression"));
            }
            if has_subquery(&named) {
                return Err(SqlError::unsupported("cannot use subquery in DEFAULT expression"));
            }
            check_default(state, &text)?;
            check_label(table.columns[position].data_type, &named)?;
        }
        Ok(())
    }
}

/// Refuses a text that is no label of a column's enumeration.
///
/// # Errors
/// 22P02.
fn check_label(data_type: DataType, default: &Expr) -> Result<()> {
    match (data_type, default) {
        (DataType::Enum(_), Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })) => {
            Ok(saki_base::Value::parse(data_type, text).map(drop)?)
        }
        _ => Ok(()),
    }
}

fn is_column(table: &Table, ident: &Ident) -> bool {
    table.column(&name_of(ident)).is_some()
}

/// Whether a name is the word DEFAULT.
pub fn is_default(ident: &Ident) -> bool {
    ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default")
}

/// Refuses rows that have not a value for each column that one is given for.
///
/// # Errors
/// 42601.
pub fn check_width(values: usize, columns: usize) -> Result<()> {
    let message = match values.cmp(&columns) {
        Ordering::Equal => return Ok(()),
        Ordering::Greater => "INSERT has more expressions than target columns",
        Ordering::Less => "INSERT has more target columns than expressions",
    };
    Err(SqlError::invalid(message).code("42601"))
}

/// The rows of a query that is a bare VALUES list.
fn values_of(query: &mut Query) -> Option<&mut Values> {
    let bare =
        query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    match query.body.as_mut() {
        SetExpr::Values(values) if bare => Some(values),
        _ => None,
    }
}
