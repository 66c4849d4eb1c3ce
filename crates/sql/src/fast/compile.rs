//! Recognises fast statements.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, BinaryOperator, FromTable, GroupByExpr, SelectItem, SetExpr, TableFactor, TableObject,
    TableWithJoins, UnaryOperator,
};
use parking_lot::Mutex;
use saki_base::{DataType, Value};

use super::expr::{Expr, Operator, is_simple};
use super::plan::{FastPlan, Operation};
use saki_catalog::{Catalog, Table};
use saki_context::planner::Described;
use saki_postgres::statement::{name_of, object_name};

impl FastPlan {
    /// Compiles a statement; `None` if it has to go the ordinary way, where errors are found as well.
    pub fn compile(statement: &ast::Statement, catalog: &Catalog) -> Option<Self> {
        match statement {
            ast::Statement::Query(query) => select(query, catalog),
            ast::Statement::Update(update) => compile_update(update, catalog),
            ast::Statement::Delete(delete) => compile_delete(delete, catalog),
            ast::Statement::Insert(insert) => compile_insert(insert, catalog),
            _ => None,
        }
    }
}

/// The answer's columns as clients are told of them.
fn answer(table: &Table, columns: &[usize], output: &[(String, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(String, DataType)| Field::new(name, saki_exec::arrow_type(*data_type), true);
    let schema = SchemaRef::new(Schema::new(output.iter().map(field).collect::<Vec<_>>()));
    Described::of_table(table, columns).apply(&schema)
}

/// A statement being compiled: its table, and the types of the parameters met so far.
pub struct Compiler<'t> {
    pub table: &'t Table,
    /// What columns may be qualified by.
    alias: String,
    parameters: Vec<Option<DataType>>,
}

impl<'t> Compiler<'t> {
    fn new(catalog: &'t Catalog, relation: &TableWithJoins) -> Option<Self> {
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
        let (name, _) = object_name(name).ok()?;
        let table = catalog.get(&name)?;
        let alias = alias.as_ref().map_or(name, |alias| name_of(&alias.name));
        Some(Self { table, alias, parameters: Vec::new() })
    }

    fn finish(self, operation: Operation, output: Vec<(String, DataType)>) -> Option<FastPlan> {
        // A parameter that is nowhere has no type.
        let parameters = self.parameters.into_iter().collect::<Option<Vec<_>>>()?;
        let schema = match &operation {
            Operation::Select { columns, .. } | Operation::Range { columns, .. } => {
                Some(answer(self.table, columns, &output))
            }
            _ => None,
        };
        let (table, delta) = (self.table.name.clone(), self.table.delta);
        let layout = Arc::new(self.table.primary_layout());
        let (free_in, allowed_in) = (AtomicU64::new(0), Mutex::default());
        Some(FastPlan { table, delta, free_in, allowed_in, layout, operation, parameters, output, schema })
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

    /// An expression whose value goes into a column of `data_type`, or is compared with it.
    pub fn expr(&mut self, expr: &ast::Expr, data_type: DataType, columns: bool) -> Option<Expr> {
        match expr {
            ast::Expr::Nested(inner) => self.expr(inner, data_type, columns),
            ast::Expr::Value(value) => self.value(&value.value, data_type),
            ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => match self.expr(inner, data_type, false)? {
                Expr::Literal(Value::Int2(value)) => Some(Expr::Literal(Value::Int2(value.checked_neg()?))),
                Expr::Literal(Value::Int4(value)) => Some(Expr::Literal(Value::Int4(value.checked_neg()?))),
                Expr::Literal(Value::Int8(value)) => Some(Expr::Literal(Value::Int8(value.checked_neg()?))),
                _ => None,
            },
            ast::Expr::BinaryOp { left, op, right } if is_integer(data_type) => {
                let operator = match op {
                    BinaryOperator::Plus => Operator::Add,
                    BinaryOperator::Minus => Operator::Subtract,
                    BinaryOperator::Multiply => Operator::Multiply,
                    _ => return None,
                };
                let left = self.expr(left, data_type, columns)?;
                let right = self.expr(right, data_type, columns)?;
                Some(Expr::Arithmetic(operator, Box::new(left), Box::new(right)))
            }
            ast::Expr::Function(function) if is_now(function) && is_moment(data_type) => Some(Expr::Now),
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) if columns => {
                let column = self.column(expr)?;
                let found = self.table.columns[column].data_type;
                // Arithmetic is done in the type of the target: one of its own can only be narrower.
                (found == data_type).then_some(Expr::Column(column))
            }
            _ => None,
        }
    }

    fn value(&mut self, value: &ast::Value, data_type: DataType) -> Option<Expr> {
        match value {
            ast::Value::Placeholder(name) => self.parameter(name, data_type),
            ast::Value::Null => Some(Expr::Literal(Value::Null)),
            ast::Value::Number(text, _) if is_integer(data_type) => {
                Value::parse(data_type, text).ok().map(Expr::Literal)
            }
            ast::Value::SingleQuotedString(text) if is_simple(data_type) => {
                Value::parse(data_type, text).ok().map(Expr::Literal)
            }
            ast::Value::Boolean(value) if data_type == DataType::Bool => Some(Expr::Literal(Value::Bool(*value))),
            _ => None,
        }
    }

    fn parameter(&mut self, name: &str, data_type: DataType) -> Option<Expr> {
        let number: usize = name.strip_prefix('$')?.parse().ok()?;
        let place = number.checked_sub(1).filter(|place| *place < 1000)?;
        if !is_simple(data_type) {
            return None;
        }
        if self.parameters.len() <= place {
            self.parameters.resize(place + 1, None);
        }
        match &mut self.parameters[place] {
            // One parameter, two types: the planner knows what to do.
            Some(known) if *known != data_type => return None,
            place => *place = Some(data_type),
        }
        Some(Expr::Parameter(place))
    }

    /// A value for each key column, if the condition is exactly that.
    fn key(&mut self, selection: Option<&ast::Expr>) -> Option<Vec<Expr>> {
        let mut found: Vec<(usize, Expr)> = Vec::new();
        self.equalities(selection?, &mut found)?;
        let key = &self.table.primary_key;
        if key.is_empty() || found.len() != key.len() {
            return None;
        }
        key.iter().map(|column| found.iter().find(|(c, _)| c == column).map(|(_, expr)| expr.clone())).collect()
    }

    fn equalities(&mut self, condition: &ast::Expr, found: &mut Vec<(usize, Expr)>) -> Option<()> {
        match condition {
            ast::Expr::Nested(inner) => self.equalities(inner, found),
            ast::Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.equalities(left, found)?;
                self.equalities(right, found)
            }
            ast::Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                let (column, value) = match (self.column(left), self.column(right)) {
                    (Some(column), None) => (column, right),
                    (None, Some(column)) => (column, left),
                    _ => return None,
                };
                let expr = self.expr(value, self.table.columns[column].data_type, false)?;
                found.push((column, expr));
                Some(())
            }
            _ => None,
        }
    }
}

fn is_integer(data_type: DataType) -> bool {
    matches!(data_type, DataType::Int2 | DataType::Int4 | DataType::Int8)
}

fn is_moment(data_type: DataType) -> bool {
    matches!(data_type, DataType::Timestamp | DataType::Timestamptz)
}

fn is_now(function: &ast::Function) -> bool {
    let name = function.name.to_string().to_lowercase();
    let no_arguments = match &function.args {
        ast::FunctionArguments::None => true,
        ast::FunctionArguments::List(list) => list.args.is_empty(),
        ast::FunctionArguments::Subquery(_) => false,
    };
    no_arguments && (name == "now" || name == "current_timestamp") && function.over.is_none()
}

fn select(query: &ast::Query, catalog: &Catalog) -> Option<FastPlan> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_plain = query.with.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.for_clause.is_none()
        && query.pipe_operators.is_empty()
        && select.distinct.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.prewhere.is_none()
        && select.named_window.is_empty()
        && select.lateral_views.is_empty()
        && is_ungrouped(&select.group_by);
    let [relation] = &select.from[..] else { return None };
    if !is_plain {
        return None;
    }
    let mut compiler = Compiler::new(catalog, relation)?;
    let mut columns = Vec::new();
    let mut output = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(options) if options.to_string().is_empty() => {
                for (place, column) in compiler.table.columns.iter().enumerate() {
                    columns.push(place);
                    output.push((column.name.clone(), column.data_type));
                }
            }
            SelectItem::UnnamedExpr(expr) => {
                let column = compiler.column(expr)?;
                let found = &compiler.table.columns[column];
                columns.push(column);
                output.push((found.name.clone(), found.data_type));
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let column = compiler.column(expr)?;
                columns.push(column);
                output.push((name_of(alias), compiler.table.columns[column].data_type));
            }
            _ => return None,
        }
    }
    if output.iter().any(|(_, data_type)| !is_simple(*data_type)) {
        return None;
    }
    let has_order = query.order_by.is_some() || query.limit_clause.is_some();
    if !has_order && let Some(key) = compiler.key(select.selection.as_ref()) {
        return compiler.finish(Operation::Select { key, columns }, output);
    }
    compiler.parameters.clear();
    let shown: Vec<_> = output.iter().map(|(name, _)| name.as_str()).zip(columns.iter().copied()).collect();
    let range = compiler.range(query, select.selection.as_ref()?, &shown)?;
    compiler.finish(Operation::Range { range, columns }, output)
}

fn is_ungrouped(group_by: &GroupByExpr) -> bool {
    matches!(group_by, GroupByExpr::Expressions(list, modifiers) if list.is_empty() && modifiers.is_empty())
}

fn compile_update(update: &ast::Update, catalog: &Catalog) -> Option<FastPlan> {
    let is_plain = update.from.is_none()
        && update.returning.is_none()
        && update.or.is_none()
        && update.output.is_none()
        && update.order_by.is_empty()
        && update.limit.is_none();
    if !is_plain {
        return None;
    }
    let mut compiler = Compiler::new(catalog, &update.table)?;
    if !compiler.table.is_free_of_rules(catalog) {
        return None;
    }
    let mut assigned: Vec<(usize, Expr)> = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
        let column = compiler.table.column(&object_name(name).ok()?.0)?;
        let is_key = compiler.table.primary_key.contains(&column);
        if is_key || assigned.iter().any(|(other, _)| *other == column) {
            return None;
        }
        let data_type = compiler.table.columns[column].data_type;
        assigned.push((column, compiler.expr(&assignment.value, data_type, true)?));
    }
    let key = compiler.key(update.selection.as_ref())?;
    compiler.finish(Operation::Update { key, assigned }, Vec::new())
}

fn compile_delete(delete: &ast::Delete, catalog: &Catalog) -> Option<FastPlan> {
    let is_plain = delete.tables.is_empty()
        && delete.using.is_none()
        && delete.returning.is_none()
        && delete.output.is_none()
        && delete.order_by.is_empty()
        && delete.limit.is_none();
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [from] = &from[..] else { return None };
    if !is_plain {
        return None;
    }
    let mut compiler = Compiler::new(catalog, from)?;
    if !compiler.table.is_free_of_rules(catalog) {
        return None;
    }
    let key = compiler.key(delete.selection.as_ref())?;
    compiler.finish(Operation::Delete { key }, Vec::new())
}

fn compile_insert(insert: &ast::Insert, catalog: &Catalog) -> Option<FastPlan> {
    let is_plain = insert.on.is_none()
        && insert.returning.is_none()
        && insert.or.is_none()
        && insert.output.is_none()
        && !insert.overwrite
        && !insert.ignore
        && !insert.replace_into
        && insert.insert_alias.is_none()
        && insert.assignments.is_empty()
        && insert.partitioned.is_none();
    let TableObject::TableName(name) = &insert.table else { return None };
    let query = insert.source.as_ref()?;
    let SetExpr::Values(values) = query.body.as_ref() else { return None };
    let [row] = &values.rows[..] else { return None };
    if !is_plain || query.with.is_some() || query.order_by.is_some() || query.limit_clause.is_some() {
        return None;
    }
    let (name, _) = object_name(name).ok()?;
    let table = catalog.get(&name)?;
    if !table.is_free_of_rules(catalog) {
        return None;
    }
    let mut compiler = Compiler { table, alias: name, parameters: Vec::new() };
    let mut columns = Vec::with_capacity(row.len());
    for column in &insert.columns {
        columns.push(table.column(&object_name(column).ok()?.0)?);
    }
    if columns.is_empty() {
        columns = (0..table.columns.len().min(row.len())).collect();
    }
    let mut values = vec![Expr::Literal(Value::Null); table.columns.len()];
    let mut is_given = vec![false; table.columns.len()];
    if columns.len() != row.len() {
        return None;
    }
    for (column, expr) in columns.iter().zip(row.iter()) {
        if std::mem::replace(&mut is_given[*column], true) {
            return None;
        }
        values[*column] = compiler.expr(expr, table.columns[*column].data_type, false)?;
    }
    // A column without a value has its default, which may be anything.
    if (0..table.columns.len()).any(|column| !is_given[column] && table.has_default(column)) {
        return None;
    }
    compiler.finish(Operation::Insert { values }, Vec::new())
}
