//! What statements are compiled with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{self, TableFactor, TableWithJoins};
use parking_lot::Mutex;
use saki_base::DataType;

use super::super::plan::{FastPlan, Operation};
use saki_catalog::{Catalog, Table};
use saki_context::planner::Described;
use saki_postgres::statement::{name_of, object_name};

/// A statement being compiled: its table, and the types of the parameters met so far.
pub struct Compiler<'t> {
    pub table: &'t Table,
    /// What columns may be qualified by.
    pub alias: String,
    pub stated: &'t [Option<Arrow>],
    pub parameters: Vec<Option<Arrow>>,
    /// Whether there is a row `excluded` beside that of the table.
    pub has_excluded: bool,
}

impl<'t> Compiler<'t> {
    pub fn new(catalog: &'t Catalog, relation: &TableWithJoins, stated: &'t [Option<Arrow>]) -> Option<Self> {
        let TableFactor::Table { name, alias, args: None, with_hints, version: None, partitions, sample: None, .. } =
            &relation.relation
        else {
            return None;
        };
        if !relation.joins.is_empty() || !with_hints.is_empty() || !partitions.is_empty() {
            return None;
        }
        if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
            return None;
        }
        Self::of_table(catalog, name, alias.as_ref(), stated)
    }

    /// Of a table by its name.
    pub fn of_table(
        catalog: &'t Catalog,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        stated: &'t [Option<Arrow>],
    ) -> Option<Self> {
        let table = catalog.get(&object_name(name).ok()?.0)?;
        let alias = alias.map_or_else(|| table.bare_name().to_owned(), |alias| name_of(&alias.name));
        Some(Self { table, alias, stated, parameters: Vec::new(), has_excluded: false })
    }

    /// The plan of a change, of whose rows `returning` says something.
    pub fn finish_change(self, operation: Operation, returning: Option<&Vec<ast::SelectItem>>) -> Option<FastPlan> {
        let Some(items) = returning else { return self.finish(operation, None, Vec::new()) };
        let shown = self.columns(items)?;
        let output = self.output(&shown);
        self.finish(operation, Some(shown.into_iter().map(|(_, column)| column).collect()), output)
    }

    /// The plan. Columns of the answer are called and of the types that `output` says; those of a change are columns of
    /// its table.
    pub fn finish(
        self,
        operation: Operation,
        returning: Option<Vec<usize>>,
        output: Vec<(String, DataType)>,
    ) -> Option<FastPlan> {
        // A parameter that is nowhere has no type, or one that nobody looks at.
        let parameters = self.parameters.into_iter().collect::<Option<Vec<_>>>()?;
        if self.stated.len() > parameters.len() {
            return None;
        }
        let schema = match (&operation, &returning) {
            (Operation::Query(query), _) => Some(answer(self.table, query.shape.columns(), &output)),
            (_, Some(columns)) => Some(answer(self.table, Some(columns), &output)),
            (_, None) => None,
        };
        Some(FastPlan {
            table: self.table.name.clone(),
            delta: self.table.delta,
            names: self.table.columns.iter().map(|column| column.name.clone()).collect(),
            free_in: AtomicU64::new(0),
            rules: Mutex::default(),
            no_rules: Arc::default(),
            allowed_in: Mutex::default(),
            left_out: AtomicU32::new(0),
            layout: Arc::new(self.table.primary_layout()),
            operation,
            parameters,
            returning,
            output,
            schema,
        })
    }

    pub fn column(&self, expr: &ast::Expr) -> Option<usize> {
        match expr {
            ast::Expr::Identifier(ident) => self.table.column(&name_of(ident)),
            ast::Expr::CompoundIdentifier(parts) => match &parts[..] {
                [relation, column] if name_of(relation) == self.alias => self.table.column(&name_of(column)),
                _ => None,
            },
            _ => None,
        }
    }

    /// A column of the row `excluded`.
    pub fn excluded(&self, expr: &ast::Expr) -> Option<usize> {
        match expr {
            ast::Expr::CompoundIdentifier(parts) => match &parts[..] {
                [relation, column] if self.has_excluded && name_of(relation) == "excluded" => {
                    self.table.column(&name_of(column))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether columns may be qualified by this.
    pub fn is_called(&self, name: &ast::ObjectName) -> bool {
        matches!(&name.0[..], [part] if part.as_ident().is_some_and(|ident| name_of(ident) == self.alias))
    }

    pub fn type_of(&self, column: usize) -> DataType {
        self.table.columns[column].data_type
    }
}

/// The answer's columns as clients are told of them.
fn answer(table: &Table, columns: Option<&[usize]>, output: &[(String, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(String, DataType)| Field::new(name, saki_exec::arrow_type(*data_type), true);
    let schema = SchemaRef::new(Schema::new(output.iter().map(field).collect::<Vec<_>>()));
    match columns {
        Some(columns) => Described::of_table(table, columns).apply(&schema),
        None => schema,
    }
}
