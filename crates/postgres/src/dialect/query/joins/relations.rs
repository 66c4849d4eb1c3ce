//! Which columns the relations of a FROM have, as far as that can be told before the statement is planned, and which
//! of them its joins merge.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::ResolvedTableReference;
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, Value, VisitorMut,
};

use crate::column_names::{UNNAMED, called};
use crate::statement::{call, name_of};
use saki_catalog::Result;
use saki_statement::walk::walk_mut;

/// The tables of a statement, and the queries of WITH that can be named.
#[derive(Clone, Default)]
pub struct Relations {
    tables: Arc<HashMap<ResolvedTableReference, Columns>>,
    /// The catalog and the schema of names without them.
    defaults: (String, String),
    queries: Vec<(String, Option<Vec<String>>)>,
}

/// What is known of a table.
struct Columns {
    names: Vec<String>,
    /// The first that is NOT NULL.
    needed: Option<usize>,
}

impl Relations {
    /// # Errors
    /// Those of views that cannot be planned any more.
    pub async fn of(state: &SessionState, statement: &Statement) -> Result<Self> {
        let defaults = &state.config_options().catalog;
        let defaults = (defaults.default_catalog.clone(), defaults.default_schema.clone());
        let mut tables = HashMap::new();
        for name in state.resolve_table_references(statement)? {
            let name = name.resolve(&defaults.0, &defaults.1);
            // What does not exist is told by the planner.
            let Ok(schema) = state.schema_for_ref(name.clone()) else { continue };
            if let Some(table) = schema.table(&name.table).await? {
                let schema = table.schema();
                let names = schema.fields().iter().map(|field| field.name().clone()).collect();
                let needed = schema.fields().iter().position(|field| !field.is_nullable());
                tables.insert(name, Columns { names, needed });
            }
        }
        Ok(Self { tables: Arc::new(tables), defaults, queries: Vec::new() })
    }

    /// Within a query: what its WITH names.
    pub fn within(&self, query: &Query) -> Self {
        let mut inner = self.clone();
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = inner.renamed(inner.of_query(&table.query), Some(&table.alias));
            inner.queries.push((name_of(&table.alias.name), columns));
        }
        inner
    }

    /// `None`: not known.
    pub fn of_factor(&self, factor: &TableFactor) -> Option<Vec<String>> {
        match factor {
            TableFactor::Table { name, args: None, alias, .. } => {
                let bare = match name.0.as_slice() {
                    [part] => part.as_ident().map(name_of),
                    _ => None,
                };
                let query = self.queries.iter().rev().find(|(name, _)| Some(name) == bare.as_ref());
                let columns = match query {
                    Some((_, columns)) => columns.clone(),
                    None => self.table(name).map(|table| table.names.clone()),
                };
                self.renamed(columns, alias.as_ref())
            }
            TableFactor::Derived { subquery, alias, .. } => self.renamed(self.of_query(subquery), alias.as_ref()),
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let mut joined = table_with_joins.as_ref().clone();
                let columns = Sources::of(std::slice::from_mut(&mut joined), self).and_then(|joined| joined.names());
                self.renamed(columns, alias.as_ref())
            }
            _ => None,
        }
    }

    fn table(&self, name: &ObjectName) -> Option<&Columns> {
        let name = object_name_to_table_reference(name.clone(), true).ok()?;
        self.tables.get(&name.resolve(&self.defaults.0, &self.defaults.1))
    }

    /// A column of a table that is NOT NULL, by which a row is told from one that an outer join fills up.
    pub fn needed(&self, factor: &TableFactor) -> Option<String> {
        let TableFactor::Table { name, args: None, alias, .. } = factor else { return None };
        let is_query =
            |(query, _): &(String, _)| name.0.len() == 1 && name.0[0].as_ident().map(name_of).as_ref() == Some(query);
        if self.queries.iter().any(is_query) {
            return None;
        }
        let table = self.table(name)?;
        self.renamed(Some(table.names.clone()), alias.as_ref())?.into_iter().nth(table.needed?)
    }

    /// The first columns have the names of an alias's list.
    fn renamed(&self, columns: Option<Vec<String>>, alias: Option<&TableAlias>) -> Option<Vec<String>> {
        let mut columns = columns?;
        for (column, named) in columns.iter_mut().zip(alias.iter().flat_map(|alias| &alias.columns)) {
            *column = name_of(&named.name);
        }
        Some(columns)
    }

    fn of_query(&self, query: &Query) -> Option<Vec<String>> {
        self.within(query).of_body(&query.body)
    }

    fn of_body(&self, body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::SetOperation { left, .. } => self.of_body(left),
            SetExpr::Values(values) => {
                let width = values.rows.first()?.len();
                Some((1..=width).map(|column| format!("column{column}")).collect())
            }
            _ => None,
        }
    }

    fn of_select(&self, select: &Select) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => names.push(called(expr).unwrap_or_else(|| UNNAMED.to_owned())),
                SelectItem::ExprWithAlias { alias, .. } => names.push(name_of(alias)),
                SelectItem::Wildcard(_) => names.extend(Sources::of(&mut select.from.clone(), self)?.names()?),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let relation = name_of(name.0.last()?.as_ident()?);
                    names.extend(Sources::of(&mut select.from.clone(), self)?.of_relation(&relation)?);
                }
                _ => return None,
            }
        }
        Some(names)
    }
}

/// What the relations of a FROM bring.
#[derive(Default)]
pub struct Sources {
    pub items: Vec<Item>,
    /// Whether a join merges columns.
    pub merges: bool,
}

#[derive(Clone)]
pub enum Item {
    Relation(Relation),
    Merged(Box<Merger>),
}

/// A column that a join has merged.
#[derive(Clone)]
pub struct Merger {
    pub column: Ident,
    pub value: Expr,
    /// Whether the planner takes the name for the same.
    pub is_planners: bool,
}

/// A relation's columns but those that were merged.
#[derive(Clone)]
pub struct Relation {
    pub name: Ident,
    /// `None`: not known.
    pub columns: Option<Vec<String>>,
    pub merged: Vec<Ident>,
}

impl Relation {
    /// The columns that are left.
    pub fn left(&self) -> Option<Vec<String>> {
        let is_merged = |name: &String| self.merged.iter().any(|merged| name_of(merged) == *name);
        Some(self.columns.as_ref()?.iter().filter(|name| !is_merged(name)).cloned().collect())
    }

    fn has(&self, name: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(|column| column == name))
    }
}

impl Sources {
    /// What `from` brings. Its joins become such as the planner takes as they are meant: NATURAL names its columns, and
    /// what merged columns are is written out where the planner would take the left side's. `None`: it cannot be told.
    pub fn of(from: &mut [TableWithJoins], relations: &Relations) -> Option<Self> {
        let mut all = Self::default();
        for tables in from {
            all = all.beside(Self::joined(tables, relations)?);
        }
        Some(all)
    }

    fn joined(tables: &mut TableWithJoins, relations: &Relations) -> Option<Self> {
        let mut left = Self::factor(&mut tables.relation, relations)?;
        for join in &mut tables.joins {
            left = left.join(Self::factor(&mut join.relation, relations)?, &mut join.join_operator)?;
        }
        Some(left)
    }

    fn factor(factor: &mut TableFactor, relations: &Relations) -> Option<Self> {
        let columns = match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return Self::joined(table_with_joins, relations);
            }
            ref factor => relations.of_factor(factor),
        };
        let name = match factor {
            TableFactor::NestedJoin { alias: Some(alias), .. }
            | TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => alias.name.clone(),
            TableFactor::Table { name, args: None, .. } => name.0.last()?.as_ident()?.clone(),
            _ => return None,
        };
        Some(Self { items: vec![Item::Relation(Relation { name, columns, merged: Vec::new() })], merges: false })
    }

    fn beside(mut self, right: Self) -> Self {
        self.items.extend(right.items);
        self.merges |= right.merges;
        self
    }

    fn join(self, right: Self, operator: &mut JoinOperator) -> Option<Self> {
        use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
        let (from_right, from_both) = (matches!(operator, Right(_) | RightOuter(_)), matches!(operator, FullOuter(_)));
        let constraint = match operator {
            Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on) | FullOuter(on) => on,
            _ => return Some(self.beside(right)),
        };
        let columns = match constraint {
            JoinConstraint::Using(columns) => {
                columns.iter().map(|column| column.0.last()?.as_ident().cloned()).collect::<Option<Vec<_>>>()?
            }
            JoinConstraint::Natural => {
                let others = right.names()?;
                let both = self.names()?.into_iter().filter(|name| others.contains(name));
                both.map(|name| Ident::with_quote('"', name)).collect()
            }
            JoinConstraint::On(condition) => {
                let both = self.beside(right);
                let _ = walk_mut(condition, &mut Merged { sources: &both, depth: 0 });
                return Some(both);
            }
            JoinConstraint::None => return Some(self.beside(right)),
        };
        let (mut left, mut right) = (self, right);
        let (mut values, mut conditions, mut is_planners) = (Vec::new(), Vec::new(), !columns.is_empty());
        for column in &columns {
            let ((one, is_known), (two, is_known_too)) = (left.without(column)?, right.without(column)?);
            is_planners &= is_known && is_known_too;
            conditions.push(binary(one.clone(), BinaryOperator::Eq, two.clone()));
            values.push(match () {
                () if from_right => two,
                () if from_both => call("coalesce", vec![one, two]),
                () => one,
            });
        }
        *constraint = if is_planners {
            JoinConstraint::Using(columns.iter().map(|column| ObjectName::from(vec![column.clone()])).collect())
        } else {
            let all = conditions.into_iter().reduce(|all, next| binary(all, BinaryOperator::And, next));
            JoinConstraint::On(all.unwrap_or_else(|| Expr::value(Value::Boolean(true))))
        };
        is_planners &= !from_right && !from_both;
        let merged = columns.into_iter().zip(values).map(|(column, value)| Merger { column, value, is_planners });
        let items = merged.map(|merger| Item::Merged(Box::new(merger))).chain(left.items).chain(right.items).collect();
        Some(Self { items, merges: true })
    }

    /// Takes a column out of what a side brings: what it is there, and whether the planner takes its name for the same.
    fn without(&mut self, column: &Ident) -> Option<(Expr, bool)> {
        let name = name_of(column);
        let is_it = |item: &Item| matches!(item, Item::Merged(merger) if name_of(&merger.column) == name);
        if let Some(at) = self.items.iter().position(is_it) {
            return match self.items.remove(at) {
                Item::Merged(merger) => Some((merger.value, merger.is_planners)),
                Item::Relation(_) => None,
            };
        }
        let mut having = self.items.iter_mut().filter_map(|item| match item {
            Item::Relation(relation) if relation.has(&name) => Some(relation),
            _ => None,
        });
        // Of several relations it is not known here which has it, or it is ambiguous.
        let (Some(relation), None) = (having.next(), having.next()) else { return None };
        relation.merged.push(column.clone());
        Some((Expr::CompoundIdentifier(vec![relation.name.clone(), column.clone()]), true))
    }

    /// What `*` shows. `None`: not known.
    pub fn names(&self) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for item in &self.items {
            match item {
                Item::Relation(relation) => names.extend(relation.left()?),
                Item::Merged(merger) => names.push(name_of(&merger.column)),
            }
        }
        Some(names)
    }

    fn of_relation(&self, name: &str) -> Option<Vec<String>> {
        self.items.iter().find_map(|item| match item {
            Item::Relation(relation) if name_of(&relation.name) == name => relation.columns.clone(),
            _ => None,
        })
    }

    /// Whether a name is a merged column's that the planner would take for something else.
    pub fn merges_otherwise(&self, name: &str) -> bool {
        self.items.iter().any(|item| match item {
            Item::Merged(merger) => name_of(&merger.column) == name && !merger.is_planners,
            Item::Relation(_) => false,
        })
    }

    /// What an unqualified name of a merged column stands for.
    pub fn merged(&self, name: &str) -> Option<&Expr> {
        self.items.iter().find_map(|item| match item {
            Item::Merged(merger) if name_of(&merger.column) == name => Some(&merger.value),
            _ => None,
        })
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Puts what merged columns are in the place of their names, not in queries within.
pub struct Merged<'s> {
    pub sources: &'s Sources,
    pub depth: usize,
}

impl VisitorMut for Merged<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expr
            && self.depth == 0
            && let Some(value) = self.sources.merged(&name_of(ident))
        {
            *expr = value.clone();
        }
        ControlFlow::Continue(())
    }
}
