//! What statements are compiled with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{self, TableFactor, TableWithJoins};
use parking_lot::Mutex;
use saki_base::DataType;

use super::super::evaluated::{Evaluator, Named, Rows, is_quick};
use super::super::plan::{Computed, Definition, FastPlan, Operation};
use saki_catalog::{Catalog, Table};
use saki_context::planner::Described;
use saki_postgres::dialect::UNNAMED;
use saki_postgres::statement::{name_of, object_name};

/// A table of a statement.
pub struct Relation<'t> {
    pub table: &'t Table,
    /// What columns may be qualified by.
    pub alias: String,
    /// Its columns are those of the statement from here on.
    pub first: usize,
    /// Whether it is of a subquery: nothing else names its columns.
    pub is_inner: bool,
}

/// Types of parameters that a client has stated, and what plans expressions.
pub type With<'t> = (&'t [Option<Arrow>], Evaluator<'t>);

/// A statement being compiled: its tables, and the types of the parameters met so far.
pub struct Compiler<'t> {
    /// Which it changes, or reads first.
    pub table: &'t Table,
    /// In the order of FROM.
    pub relations: Vec<Relation<'t>>,
    pub stated: &'t [Option<Arrow>],
    pub parameters: Vec<Option<Arrow>>,
    /// What is worked out of each row, and its type: columns behind those of all tables, which are known by then.
    pub computed: Vec<(Computed, DataType)>,
    /// Plans what is not recognised of that.
    evaluator: Evaluator<'t>,
    /// What that is planned over, once it has been.
    rows: Option<Rows>,
    /// The columns that subqueries among what is selected give, in order.
    pub scalars: Vec<usize>,
    /// By number, the table of the subquery whose expressions are being read.
    pub scope: Option<usize>,
    /// Whether there is a row `excluded` beside that of the table.
    pub has_excluded: bool,
}

impl<'t> Compiler<'t> {
    pub fn new(catalog: &'t Catalog, relation: &TableWithJoins, with: With<'t>) -> Option<Self> {
        if !relation.joins.is_empty() {
            return None;
        }
        let (name, alias) = named_table(&relation.relation)?;
        Self::of_table(catalog, name, alias, with)
    }

    /// Of a table by its name.
    pub fn of_table(
        catalog: &'t Catalog,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        (stated, evaluator): With<'t>,
    ) -> Option<Self> {
        let table = catalog.get(&object_name(name).ok()?.0)?;
        let mut compiler = Self {
            table,
            relations: Vec::new(),
            stated,
            parameters: Vec::new(),
            computed: Vec::new(),
            evaluator,
            rows: None,
            scalars: Vec::new(),
            scope: None,
            has_excluded: false,
        };
        compiler.add(catalog, name, alias)?;
        Some(compiler)
    }

    /// Adds a table behind the others.
    pub fn add(&mut self, catalog: &'t Catalog, name: &ast::ObjectName, alias: Option<&ast::TableAlias>) -> Option<()> {
        let table = catalog.get(&object_name(name).ok()?.0)?;
        let alias = alias.map_or_else(|| table.bare_name().to_owned(), |alias| name_of(&alias.name));
        let is_known = self.relations.iter().any(|other| other.alias == alias);
        let relation = Relation { table, alias, first: self.width(), is_inner: false };
        (!is_known).then(|| self.relations.push(relation))
    }

    /// How many columns its tables have.
    pub fn width(&self) -> usize {
        self.relations.last().map_or(0, |last| last.first + last.table.columns.len())
    }

    /// The plan of a change, of whose rows `returning` says something.
    pub fn finish_change(mut self, operation: Operation, returning: Option<&Vec<ast::SelectItem>>) -> Option<FastPlan> {
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
        let schema = match (&operation, &returning) {
            (Operation::Query(query), _) => Some(self.answer(query.shape.columns(), &output)),
            (_, Some(columns)) => Some(self.answer(Some(columns), &output)),
            (_, None) => None,
        };
        // A parameter that is nowhere has no type, or one that nobody looks at.
        let parameters = self.parameters.into_iter().collect::<Option<Vec<_>>>()?;
        if self.stated.len() > parameters.len() {
            return None;
        }
        let is_planned = self.computed.iter().any(|(computed, _)| matches!(computed, Computed::Planned(_)));
        Some(FastPlan {
            table: Definition::of(self.table),
            free_in: AtomicU64::new(0),
            rules: Mutex::default(),
            no_rules: Arc::default(),
            allowed_in: Mutex::default(),
            left_out: AtomicU32::new(0),
            operation,
            parameters,
            state: is_planned.then(|| self.evaluator.parameters.state()),
            computed: self.computed.into_iter().map(|(computed, _)| computed).collect(),
            returning,
            output,
            schema,
        })
    }

    /// A column of one of the tables.
    pub fn column(&self, expr: &ast::Expr) -> Option<usize> {
        let (alias, name) = match expr {
            ast::Expr::Identifier(ident) => (None, name_of(ident)),
            ast::Expr::CompoundIdentifier(parts) => match &parts[..] {
                [relation, column] => (Some(name_of(relation)), name_of(column)),
                _ => return None,
            },
            _ => return None,
        };
        let is_asked = |relation: &&Relation<'_>| alias.as_ref().is_none_or(|name| *name == relation.alias);
        let place = |relation: &Relation<'_>| Some(relation.first + relation.table.column(&name)?);
        // What a subquery's own table has goes before what is outside of it.
        let own = self.scope.map(|own| &self.relations[own]).filter(is_asked).and_then(place);
        let mut found = self.visible().filter(is_asked).filter_map(place);
        // What two tables have is ambiguous, which the planner says.
        own.or_else(|| found.next().filter(|_| found.next().is_none()))
    }

    /// A column that the planner works out of each row.
    pub fn evaluated(&mut self, expr: &ast::Expr) -> Option<usize> {
        if !is_quick(expr) {
            return None;
        }
        if self.rows.is_none() {
            let named = self.visible().map(|relation| Named {
                alias: &relation.alias,
                first: relation.first,
                columns: relation.table.visible(),
            });
            self.rows = self.evaluator.rows(named);
        }
        let evaluated = self.rows.as_ref()?.plan(expr)?;
        let data_type = evaluated.data_type();
        self.computed.push((Computed::Planned(evaluated), data_type));
        Some(self.width() + self.computed.len() - 1)
    }

    /// A column that is true where the planner says that a row meets a condition.
    pub fn truth(&mut self, condition: &ast::Expr) -> Option<usize> {
        self.evaluated(condition).filter(|column| self.type_of(*column) == DataType::Bool)
    }

    /// The tables of FROM.
    pub fn visible(&self) -> impl Iterator<Item = &Relation<'t>> {
        self.relations.iter().filter(|relation| !relation.is_inner)
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

    /// The table whose columns are qualified by this.
    pub fn called(&self, name: &ast::ObjectName) -> Option<&Relation<'t>> {
        let [part] = &name.0[..] else { return None };
        let name = name_of(part.as_ident()?);
        self.visible().find(|relation| relation.alias == name)
    }

    /// By number: the table that has a column.
    pub fn relation_of(&self, column: usize) -> usize {
        self.relations.iter().rposition(|relation| relation.first <= column).unwrap_or_default()
    }

    /// A column's table, and which of its columns it is; `None` if it is worked out.
    fn origin(&self, column: usize) -> Option<(&'t Table, usize)> {
        let relation = &self.relations[self.relation_of(column)];
        (column < self.width()).then(|| (relation.table, column - relation.first))
    }

    pub fn name_of(&self, column: usize) -> String {
        let origin = self.origin(column);
        origin.map_or_else(|| UNNAMED.to_owned(), |(table, column)| table.columns[column].name.clone())
    }

    pub fn type_of(&self, column: usize) -> DataType {
        match self.origin(column) {
            Some((table, column)) => table.columns[column].data_type,
            None => self.computed[column - self.width()].1,
        }
    }

    /// The answer's columns as clients are told of them.
    fn answer(&self, columns: Option<&[usize]>, output: &[(String, DataType)]) -> SchemaRef {
        let field = |(name, data_type): &(String, DataType)| Field::new(name, saki_exec::arrow_type(*data_type), true);
        let schema = SchemaRef::new(Schema::new(output.iter().map(field).collect::<Vec<_>>()));
        match columns {
            Some(columns) => Described::of_columns(columns.iter().map(|column| self.origin(*column))).apply(&schema),
            None => schema,
        }
    }
}

/// A table and what it is called, if FROM says no more of it.
pub fn named_table(factor: &TableFactor) -> Option<(&ast::ObjectName, Option<&ast::TableAlias>)> {
    let TableFactor::Table { name, alias, args: None, with_hints, version: None, partitions, sample: None, .. } =
        factor
    else {
        return None;
    };
    let is_plain =
        with_hints.is_empty() && partitions.is_empty() && alias.as_ref().is_none_or(|alias| alias.columns.is_empty());
    is_plain.then_some((name, alias.as_ref()))
}
