//! Queries.

use datafusion::sql::sqlparser::ast::{
    self, Distinct, FunctionArg, FunctionArgExpr, GroupByExpr, LimitClause, OrderByKind, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr,
};
use saki_base::types::DECIMAL_PRECISION_MAX;
use saki_base::{DataType, Value};

use super::super::plan::{Aggregate, Computed, FastPlan, Item, Operation, Query, Shape};
use super::compiler::{Compiler, Relation, With};
use super::condition::{Asked, Reach};
use super::join::{Found, Joins};
use saki_catalog::Catalog;
use saki_context::values::expr::{Expr, scale_of};
use saki_postgres::dialect::{UNNAMED, called};
use saki_postgres::statement::name_of;

/// Columns of an answer, and which of the table they are.
pub type Columns = Vec<(String, usize)>;

/// LIMIT and OFFSET.
#[derive(Default)]
struct Cut {
    limit: Option<Expr>,
    offset: Option<Expr>,
}

impl Cut {
    fn is_some(&self) -> bool {
        self.limit.is_some() || self.offset.is_some()
    }
}

pub fn compile(query: &ast::Query, catalog: &Catalog, with: With<'_>) -> Option<FastPlan> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    if !is_plain(query) || !is_plain_select(select) {
        return None;
    }
    let is_distinct = match &select.distinct {
        None => false,
        Some(Distinct::Distinct) => true,
        Some(_) => return None,
    };
    let (mut compiler, mut joins) = Compiler::of_from(catalog, &select.from, with)?;
    let selection = match &select.selection {
        Some(selection) => compiler.subqueries(catalog, selection, &mut joins)?,
        None => None,
    };
    compiler.looked_up(catalog, &select.projection, &mut joins)?;
    if !is_ungrouped(&select.group_by) {
        let is_plain = !is_distinct && query.locks.is_empty();
        return if is_plain { compiler.groups(select, selection, &joins, query) } else { None };
    }
    let holds = !query.locks.is_empty();
    let Some(columns) = compiler.columns(&select.projection) else {
        compiler.computed.clear();
        let is_one_row = !is_distinct && !holds && query.order_by.is_none() && query.limit_clause.is_none();
        return if is_one_row { compiler.aggregates(&select.projection, &joins, selection) } else { None };
    };
    let order = compiler.order(query.order_by.as_ref(), &columns)?;
    let cut = compiler.cut(query.limit_clause.as_ref())?;
    // All rows that the condition meets are held, whatever LIMIT says.
    if holds && (cut.is_some() || is_distinct || compiler.relations.len() > 1) {
        return None;
    }
    let reach = match cut.limit.is_some() && !is_distinct {
        _ if holds => Reach::Bounded,
        true => Reach::First,
        false => Reach::Small,
    };
    let found = compiler.found(&joins, selection, Asked { order: &order, reach })?;
    // They are held before they are whole.
    if holds && !found.conditions.is_empty() {
        return None;
    }
    let output = compiler.output(&columns);
    let columns: Vec<usize> = columns.into_iter().map(|(_, column)| column).collect();
    let is_shown = |(column, _): &(usize, bool)| columns.contains(column);
    let is_single = found.lookups.is_empty() && found.source.is_single();
    let shape = match is_distinct || !(found.is_ordered || is_single) {
        false => Shape::Rows(columns),
        // The planner says what is wrong.
        true if is_distinct && !order.iter().all(is_shown) => return None,
        true => Shape::Sorted { columns, order, is_distinct },
    };
    compiler.finish_query(found, shape, cut, holds, output)
}

pub fn is_plain(query: &ast::Query) -> bool {
    let is_plain_lock = |lock: &ast::LockClause| lock.of.is_none() && lock.nonblock.is_none();
    query.with.is_none()
        && query.fetch.is_none()
        && query.locks.iter().all(is_plain_lock)
        && query.for_clause.is_none()
        && query.pipe_operators.is_empty()
}

pub fn is_plain_select(select: &ast::Select) -> bool {
    select.top.is_none()
        && select.into.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.prewhere.is_none()
        && select.named_window.is_empty()
        && select.lateral_views.is_empty()
}

pub fn is_ungrouped(group_by: &GroupByExpr) -> bool {
    matches!(group_by, GroupByExpr::Expressions(list, modifiers) if list.is_empty() && modifiers.is_empty())
}

impl Compiler<'_> {
    /// What is given, if that is columns of the table.
    pub fn columns(&mut self, projection: &[SelectItem]) -> Option<Columns> {
        let (mut columns, mut scalars) = (Vec::new(), self.scalars.clone().into_iter());
        self.computed.clear();
        for item in projection {
            match item {
                SelectItem::Wildcard(options) if options.to_string().is_empty() => columns.extend(self.all()),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                    if options.to_string().is_empty() =>
                {
                    columns.extend(of_relation(self.called(name)?));
                }
                SelectItem::UnnamedExpr(expr) => {
                    columns.push(self.shown(expr, &mut scalars)?);
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    columns.push((name_of(alias), self.shown(expr, &mut scalars)?.1));
                }
                _ => return None,
            }
        }
        Some(columns)
    }

    /// A column of the answer, and what it is called if nothing is said.
    fn shown(&mut self, expr: &ast::Expr, scalars: &mut impl Iterator<Item = usize>) -> Option<(String, usize)> {
        if let ast::Expr::Subquery(_) = expr {
            let column = scalars.next()?;
            let data_type = self.type_of(column);
            // Of no table, for those who ask where it is from.
            self.computed.push((Computed::Own(Expr::Column(column, scale_of(data_type))), data_type));
            return Some((self.name_of(column), self.width() + self.computed.len() - 1));
        }
        if let Some(column) = self.column(expr).or_else(|| self.compute(expr)) {
            return Some((self.name_of(column), column));
        }
        let column = self.evaluated(expr)?;
        Some((called(expr).unwrap_or_else(|| UNNAMED.to_owned()), column))
    }

    fn all(&self) -> impl Iterator<Item = (String, usize)> {
        self.visible().flat_map(of_relation)
    }

    fn finish_query(
        self,
        found: Found,
        shape: Shape,
        cut: Cut,
        holds: bool,
        output: Vec<(String, DataType)>,
    ) -> Option<FastPlan> {
        let Found { source, spare, first, lookups, conditions, .. } = found;
        let (width, Cut { limit, offset }) = (self.width(), cut);
        let query = Query { source, spare, first, lookups, width, conditions, shape, limit, offset, holds };
        self.finish(Operation::Query(Box::new(query)), None, output)
    }

    /// What columns of an answer are called, and their types.
    pub fn output(&self, columns: &Columns) -> Vec<(String, DataType)> {
        columns.iter().map(|(name, column)| (name.clone(), self.type_of(*column))).collect()
    }

    /// A query of aggregates of all its rows.
    fn aggregates(
        mut self,
        projection: &[SelectItem],
        joins: &Joins<'_>,
        selection: Option<&ast::Expr>,
    ) -> Option<FastPlan> {
        let (mut aggregates, mut output) = (Vec::new(), Vec::new());
        for item in projection {
            let (expr, alias) = named(item)?;
            let ast::Expr::Function(function) = expr else { return None };
            let (name, aggregate, data_type) = self.coalesced(function).or_else(|| {
                let (name, aggregate, data_type) = self.aggregate(function)?;
                Some((name, (aggregate, Value::Null), data_type))
            })?;
            aggregates.push(aggregate);
            output.push((alias.unwrap_or(name), data_type));
        }
        let extreme = match &aggregates[..] {
            [(Aggregate::Min(column), otherwise)] => Some((*column, false, otherwise.clone())),
            [(Aggregate::Max(column), otherwise)] => Some((*column, true, otherwise.clone())),
            _ => None,
        };
        if let Some((column, is_greatest, otherwise)) = extreme
            && let Some(found) = self.found_extreme(selection, column, is_greatest)
        {
            let shape = match found.is_ordered {
                true => Shape::Extreme { column, otherwise },
                false => Shape::Aggregates(aggregates),
            };
            return self.finish_query(found, shape, Cut::default(), false, output);
        }
        let found = self.found(joins, selection, Asked { reach: Reach::Small, ..Asked::default() })?;
        self.finish_query(found, Shape::Aggregates(aggregates), Cut::default(), false, output)
    }

    /// A query of groups of its rows.
    fn groups(
        mut self,
        select: &ast::Select,
        selection: Option<&ast::Expr>,
        joins: &Joins<'_>,
        query: &ast::Query,
    ) -> Option<FastPlan> {
        let GroupByExpr::Expressions(list, modifiers) = &select.group_by else { return None };
        let by = list.iter().map(|expr| self.column(expr)).collect::<Option<Vec<_>>>()?;
        let (mut items, mut output, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for item in &select.projection {
            let (expr, alias) = named(item)?;
            let (name, item, data_type) = match expr {
                ast::Expr::Function(function) => {
                    let (name, aggregate, data_type) = self.aggregate(function)?;
                    (name, Item::Aggregate(aggregate), data_type)
                }
                _ => {
                    let column = self.column(expr).filter(|column| by.contains(column))?;
                    shown.push((alias.clone().unwrap_or_else(|| self.name_of(column)), column));
                    (self.name_of(column), Item::Column(column), self.type_of(column))
                }
            };
            items.push(item);
            output.push((alias.unwrap_or(name), data_type));
        }
        let order = self.order(query.order_by.as_ref(), &shown)?;
        // Of what is shown the places of groups' columns alone are known here.
        if has_places(query.order_by.as_ref()) {
            return None;
        }
        let is_known = |name: &str| shown.iter().any(|(other, _)| other == name);
        let is_column = |name: &str| self.visible().any(|relation| relation.table.column(name).is_some());
        let is_hidden = |(name, _): &(String, DataType)| !is_known(name) && is_column(name);
        // A name of the answer goes before one of the table, in ORDER BY.
        let is_plain = modifiers.is_empty() && !output.iter().any(is_hidden);
        if !is_plain || !order.iter().all(|(column, _)| by.contains(column)) {
            return None;
        }
        let cut = self.cut(query.limit_clause.as_ref())?;
        let found = self.found(joins, selection, Asked { reach: Reach::Small, ..Asked::default() })?;
        self.finish_query(found, Shape::Groups { by, items, order }, cut, false, output)
    }

    /// `coalesce(sum(n), 0)`: an aggregate and the number that stands for NULL, of its type.
    fn coalesced(&self, function: &ast::Function) -> Option<(String, (Aggregate, Value), DataType)> {
        let ast::FunctionArguments::List(list) = &function.args else { return None };
        let [FunctionArg::Unnamed(value), FunctionArg::Unnamed(otherwise)] = &list.args[..] else { return None };
        let (FunctionArgExpr::Expr(ast::Expr::Function(value)), FunctionArgExpr::Expr(ast::Expr::Value(otherwise))) =
            (value, otherwise)
        else {
            return None;
        };
        let name = function.name.to_string().to_lowercase();
        let ast::Value::Number(digits, false) = &otherwise.value else { return None };
        if name != "coalesce" || !is_plain_call(function, list) {
            return None;
        }
        let (_, aggregate, data_type) = self.aggregate(value)?;
        let number: i32 = digits.parse().ok()?;
        let otherwise = match data_type {
            DataType::Int4 => Value::Int4(number),
            DataType::Int8 => Value::Int8(number.into()),
            _ => return None,
        };
        Some((name, (aggregate, otherwise), data_type))
    }

    /// An aggregate, what its column is called, and its type.
    fn aggregate(&self, function: &ast::Function) -> Option<(String, Aggregate, DataType)> {
        let ast::FunctionArguments::List(list) = &function.args else { return None };
        let is_distinct = matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
        let [FunctionArg::Unnamed(argument)] = &list.args[..] else { return None };
        if !(list.duplicate_treatment.is_none() || is_distinct) || !is_plain_call(function, list) {
            return None;
        }
        let name = function.name.to_string().to_lowercase();
        let column = match argument {
            FunctionArgExpr::Wildcard if name == "count" && !is_distinct => {
                return Some((name, Aggregate::Count, DataType::Int8));
            }
            FunctionArgExpr::Expr(expr) => self.column(expr)?,
            _ => return None,
        };
        let data_type = self.type_of(column);
        let (aggregate, data_type) = match name.as_str() {
            "count" if is_distinct => (Aggregate::CountDistinct(column), DataType::Int8),
            _ if is_distinct => return None,
            "count" => (Aggregate::CountOf(column), DataType::Int8),
            "sum" => (Aggregate::Sum(column, data_type), sum_of(data_type)?),
            "min" if has_extremes(data_type) => (Aggregate::Min(column), data_type),
            "max" if has_extremes(data_type) => (Aggregate::Max(column), data_type),
            _ => return None,
        };
        Some((name, aggregate, data_type))
    }

    /// Which rows of the answer LIMIT and OFFSET leave.
    fn cut(&mut self, clause: Option<&LimitClause>) -> Option<Cut> {
        let Some(clause) = clause else { return Some(Cut::default()) };
        let LimitClause::LimitOffset { limit, offset, limit_by } = clause else { return None };
        if !limit_by.is_empty() {
            return None;
        }
        let limit = match limit {
            Some(rows) => Some(self.rows(rows)?),
            None => None,
        };
        let offset = match offset {
            Some(offset) => Some(self.rows(&offset.value)?),
            None => None,
        };
        Some(Cut { limit, offset })
    }

    /// A number of rows.
    fn rows(&mut self, expr: &ast::Expr) -> Option<Expr> {
        let (rows, data_type) = self.expr(expr, DataType::Int8, false)?;
        matches!(data_type, DataType::Int2 | DataType::Int4 | DataType::Int8).then_some(rows)
    }

    /// Columns, and whether they descend.
    fn order(&mut self, order: Option<&ast::OrderBy>, shown: &Columns) -> Option<Vec<(usize, bool)>> {
        let Some(order) = order else { return Some(Vec::new()) };
        let (OrderByKind::Expressions(list), None) = (&order.kind, &order.interpolate) else { return None };
        let column = |item: &ast::OrderByExpr| {
            let is_plain = item.with_fill.is_none() && item.options.nulls_first.is_none();
            let column = self.ordered(&item.expr, shown).filter(|_| is_plain)?;
            Some((column, item.options.asc == Some(false)))
        };
        list.iter().map(column).collect()
    }

    /// What rows are ordered by: a column of the answer, by its name or its place, one of the tables, or what the
    /// planner works out of them.
    fn ordered(&mut self, expr: &ast::Expr, shown: &Columns) -> Option<usize> {
        let name = if let ast::Expr::Identifier(ident) = expr { name_of(ident) } else { String::new() };
        let mut named = shown.iter().filter(|(other, _)| *other == name).map(|(_, column)| *column);
        match expr {
            ast::Expr::Value(value) => {
                let ast::Value::Number(place, false) = &value.value else { return None };
                let place = place.parse::<usize>().ok()?.checked_sub(1)?;
                shown.get(place).map(|(_, column)| *column)
            }
            // A name of the answer goes before one of the table; what two columns are called is ambiguous.
            ast::Expr::Identifier(_) if let Some(column) = named.next() => {
                named.all(|other| other == column).then_some(column)
            }
            _ => self.column(expr).or_else(|| self.evaluated(expr)),
        }
    }
}

/// Whether nothing is said of a call but what it is of.
fn is_plain_call(function: &ast::Function, list: &ast::FunctionArgumentList) -> bool {
    list.clauses.is_empty()
        && function.filter.is_none()
        && function.over.is_none()
        && function.within_group.is_empty()
        && function.null_treatment.is_none()
}

/// Whether something is ordered by the places of columns.
fn has_places(order: Option<&ast::OrderBy>) -> bool {
    let Some(ast::OrderBy { kind: OrderByKind::Expressions(list), .. }) = order else { return false };
    list.iter().any(|item| matches!(item.expr, ast::Expr::Value(_)))
}

/// All columns of a table.
fn of_relation(relation: &Relation<'_>) -> impl Iterator<Item = (String, usize)> {
    let columns = relation.table.visible().iter().enumerate();
    columns.map(|(place, column)| (column.name.clone(), relation.first + place))
}

/// An expression of an answer, and what it is to be called.
fn named(item: &SelectItem) -> Option<(&ast::Expr, Option<String>)> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some((expr, None)),
        SelectItem::ExprWithAlias { expr, alias } => Some((expr, Some(name_of(alias)))),
        _ => None,
    }
}

/// The type of sums, where all paths agree on it.
fn sum_of(data_type: DataType) -> Option<DataType> {
    match data_type {
        DataType::Int2 | DataType::Int4 => Some(DataType::Int8),
        DataType::Decimal { precision, scale } => {
            Some(DataType::Decimal { precision: precision.saturating_add(10).min(DECIMAL_PRECISION_MAX), scale })
        }
        _ => None,
    }
}

fn has_extremes(data_type: DataType) -> bool {
    use DataType::{Date, Decimal, Int2, Int4, Int8, Time, Timestamp, Timestamptz};
    matches!(data_type, Int2 | Int4 | Int8 | Decimal { .. } | Date | Timestamp | Timestamptz | Time)
}
