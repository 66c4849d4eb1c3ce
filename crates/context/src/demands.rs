//! What a query asks to be allowed: the tables and views that its plan reads, each with the columns that it names.
//!
//! A view is read as its owner reads, and asked for by whoever names it. Where a view begins is marked in the plan by a
//! name that no statement can spell ([`crate::view::boundary_of`]).

use std::collections::BTreeSet;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};

use crate::view::boundary_of;
use saki_base::TableId;
use saki_catalog::{Catalog, Demand, Demanded, ObjectId, ObjectKind, Privilege, Result};
use saki_parameters::is_temporary;
use saki_plan::{Asking, SnapshotTable};

/// What a plan needs to be allowed.
#[derive(Debug)]
pub struct Demands(Vec<(Reader, Demand)>);

/// Who reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reader {
    /// Whoever runs the statement.
    Caller,
    /// The owner of a view, whoever that is when it is asked.
    OwnerOf(ObjectId),
}

impl Demands {
    /// Those of a plan that has not been optimized. Of `target`, which a statement changes, only columns that are named
    /// count.
    pub fn of(plan: &LogicalPlan, catalog: &Catalog, target: Option<ObjectId>) -> Self {
        let mut walk = Walk { catalog, scans: Vec::new() };
        walk.visit(plan, Reader::Caller, &[]);
        let mut demands = Vec::new();
        for scan in walk.scans {
            if scan.reader == Reader::Caller
                && !is_temporary(&scan.schema)
                && let Some(object) = catalog.schema_object(&scan.schema)
            {
                let of = Demanded::Any(Privilege::Usage.into());
                demands.push((Reader::Caller, Demand { object, kind: ObjectKind::Schema, name: scan.schema, of }));
            }
            let columns: Vec<u32> = scan.used.iter().filter_map(|place| scan.columns.get(*place).copied()).collect();
            if columns.is_empty() && target == Some(scan.object) {
                continue;
            }
            let of = Demanded::Columns(Privilege::Select, columns);
            demands.push((scan.reader, Demand { object: scan.object, kind: scan.kind, name: scan.name, of }));
        }
        Self(demands)
    }

    /// # Errors
    /// 42501 for the first that is not allowed.
    pub fn check(&self, asking: &Asking) -> Result<()> {
        let catalog = &asking.rights.catalog;
        self.0.iter().try_for_each(|(reader, demand)| {
            let role = match reader {
                Reader::Caller => asking.role,
                Reader::OwnerOf(view) => catalog.owner(*view),
            };
            catalog.demand(role, demand)
        })
    }
}

/// A table or view that is read.
struct Scan {
    object: ObjectId,
    kind: ObjectKind,
    schema: String,
    name: String,
    reader: Reader,
    /// Ids of its columns, by position.
    columns: Vec<u32>,
    /// Positions of those that are named.
    used: BTreeSet<usize>,
}

/// Columns that expressions may name, and which column of which scan each is.
struct Scope {
    schema: DFSchemaRef,
    origins: Vec<Option<(usize, usize)>>,
}

impl Scope {
    fn find(&self, column: &Column) -> Option<Option<(usize, usize)>> {
        let place = self.schema.maybe_index_of_column(column)?;
        Some(self.origins.get(place).copied().flatten())
    }
}

struct Walk<'c> {
    catalog: &'c Catalog,
    scans: Vec<Scan>,
}

impl Walk<'_> {
    fn visit(&mut self, plan: &LogicalPlan, reader: Reader, outer: &[&Scope]) -> Scope {
        let schema = DFSchemaRef::clone(plan.schema());
        match plan {
            LogicalPlan::TableScan(scan) => return self.scan(scan, schema, reader),
            LogicalPlan::SubqueryAlias(alias) => {
                if let Some(view) = boundary_of(&alias.alias) {
                    return self.view(view, &alias.input, schema, reader);
                }
                let below = self.visit(&alias.input, reader, outer);
                return Scope { schema, origins: below.origins };
            }
            _ => {}
        }
        let mut scopes: Vec<Scope> = Vec::new();
        for input in plan.inputs() {
            // What stands on the right may be about the left.
            let around: Vec<&Scope> = outer.iter().copied().chain(&scopes).collect();
            let scope = self.visit(input, reader, &around);
            scopes.push(scope);
        }
        let inputs: Vec<&Scope> = scopes.iter().collect();
        for expr in plan.expressions() {
            self.mark(&expr, &inputs, reader, outer);
        }
        let is_made_here = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_));
        let origin = |column: &Column| scopes.iter().find_map(|scope| scope.find(column)).flatten();
        let origins = match (plan, is_made_here) {
            (_, true) => vec![None; schema.fields().len()],
            (LogicalPlan::Union(_), _) => {
                // Each input's columns are the union's: all of them are read.
                let all: Vec<_> = scopes.iter().flat_map(|scope| scope.origins.clone()).flatten().collect();
                for (scan, column) in all {
                    self.scans[scan].used.insert(column);
                }
                vec![None; schema.fields().len()]
            }
            _ => schema.columns().iter().map(origin).collect(),
        };
        Scope { schema, origins }
    }

    /// Notes the columns that an expression names, and visits the queries in it.
    fn mark(&mut self, expr: &Expr, inputs: &[&Scope], reader: Reader, outer: &[&Scope]) {
        let mut named = Vec::new();
        let mut queries = Vec::new();
        let visited = expr.apply(|part| {
            match part {
                Expr::Column(column) => named.push((column.clone(), false)),
                Expr::OuterReferenceColumn(_, column) => named.push((column.clone(), true)),
                Expr::ScalarSubquery(subquery) => queries.push(subquery.clone()),
                Expr::Exists(exists) => queries.push(exists.subquery.clone()),
                Expr::InSubquery(within) => queries.push(within.subquery.clone()),
                Expr::SetComparison(comparison) => queries.push(comparison.subquery.clone()),
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(visited.is_ok(), "looking at an expression cannot fail");
        for (column, is_outer) in named {
            let here = inputs.iter().find_map(|scope| scope.find(&column)).filter(|_| !is_outer);
            let found = here.or_else(|| outer.iter().rev().find_map(|scope| scope.find(&column)));
            if let Some(Some((scan, place))) = found {
                self.scans[scan].used.insert(place);
            }
        }
        for query in queries {
            let around: Vec<&Scope> = outer.iter().chain(inputs).copied().collect();
            self.visit(&query.subquery, reader, &around);
        }
    }

    fn scan(&mut self, scan: &TableScan, schema: DFSchemaRef, reader: Reader) -> Scope {
        let unknown = |schema: DFSchemaRef| Scope { origins: vec![None; schema.fields().len()], schema };
        let Ok(provider) = source_as_provider(&scan.source) else { return unknown(schema) };
        let Some(SnapshotTable { table, .. }) = provider.downcast_ref::<SnapshotTable>() else {
            let Some(plan) = provider.get_logical_plan() else { return unknown(schema) };
            let below = self.visit(&plan, reader, &[]);
            let whole = below.schema.fields();
            let origin = |field: &arrow_schema::FieldRef| {
                let place = whole.iter().position(|other| other.name() == field.name())?;
                below.origins[place]
            };
            let origins = schema.fields().iter().map(origin).collect();
            return Scope { schema, origins };
        };
        let number = self.scans.len();
        let origin = |field: &arrow_schema::FieldRef| table.column(field.name()).map(|column| (number, column));
        let origins = schema.fields().iter().map(origin).collect();
        self.scans.push(Scan {
            object: table.id.into(),
            kind: ObjectKind::Table,
            schema: table.schema.clone(),
            name: table.bare_name().to_owned(),
            reader,
            columns: table.details.iter().map(|detail| detail.id).collect(),
            used: BTreeSet::new(),
        });
        Scope { schema, origins }
    }

    fn view(&mut self, view: ObjectId, query: &LogicalPlan, schema: DFSchemaRef, reader: Reader) -> Scope {
        let number = self.scans.len();
        let found = self.catalog.view_of(TableId(view.0));
        let width = schema.fields().len();
        self.scans.push(Scan {
            object: view,
            kind: ObjectKind::View,
            schema: found.map_or_else(String::new, |view| view.schema.clone()),
            name: found.map_or_else(String::new, |view| view.bare_name().to_owned()),
            reader,
            columns: (0..width as u32).collect(),
            used: BTreeSet::new(),
        });
        self.visit(query, Reader::OwnerOf(view), &[]);
        Scope { schema, origins: (0..width).map(|place| Some((number, place))).collect() }
    }
}
