//! What a fast statement is compiled to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow_schema::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::ConflictTarget;
use parking_lot::Mutex;
use saki_base::stack::with_room;
use saki_base::{DataType, Enumeration, TableId, Value};

use super::evaluated::Evaluated;
use super::rules::{KeptRules, RulePlanner, Rules};
use crate::dml::Arbiter;
use saki_catalog::{Catalog, EntryLayout, ObjectKind, Privilege, Privileges, RoleId, Table};
use saki_context::transaction::Telling;
use saki_context::values::condition::Alternatives;
use saki_context::values::expr::Expr;
use saki_context::values::range::Range;
use saki_parameters::{Parameters, State};
use saki_store::{Delta, Generation};

/// Keys from which on a statement takes long.
const KEYS_LONG: usize = 1000;
/// How often a statement that took too much goes the ordinary way before it is tried again.
const RUNS_LEFT_OUT: u32 = 15;

/// A compiled statement.
#[derive(Debug)]
pub struct FastPlan {
    pub(super) table: Definition,
    /// The generation, by its identity, in which the table was last seen to be free of rules that changes of rows have
    /// to follow, and to fill columns as it did.
    pub(super) free_in: AtomicU64,
    /// The rules of a table that has some.
    pub(super) rules: Mutex<Option<KeptRules>>,
    /// None.
    pub(super) no_rules: Arc<Rules>,
    /// How often it is still left out, since it has taken too much.
    pub(super) left_out: AtomicU32,
    /// The newest generation when a role was last found to be allowed this, and the role.
    pub(super) allowed_in: Mutex<(Weak<Generation>, Option<RoleId>)>,
    pub(super) operation: Operation,
    /// Types of the parameters, by number.
    pub parameters: Vec<arrow_schema::DataType>,
    /// What is worked out of each row that is given: columns behind those of the tables.
    pub(super) computed: Vec<Computed>,
    /// The session's parameters that this depends on, if the planner has been asked.
    pub(super) state: Option<Arc<State>>,
    /// Columns that a change says of its rows; `None`: it only counts them.
    pub(super) returning: Option<Vec<usize>>,
    /// Columns of the answer, in order: name and type; none for changes that only count.
    pub output: Vec<(String, DataType)>,
    pub(super) schema: Option<SchemaRef>,
}

/// A table as a statement was compiled for it: by the newest catalog. Who keeps an older snapshot may see another under
/// its name, or the same with its columns called otherwise.
#[derive(Debug)]
pub struct Definition {
    pub name: String,
    /// Whose layout that was.
    delta: TableId,
    /// What the columns were called.
    columns: Vec<String>,
    /// Their enumerations, in the states of then.
    labels: Vec<Enumeration>,
    /// The generation, by its identity, in which it was last found to be as it was.
    found_in: AtomicU64,
    /// Of the primary entries.
    pub layout: Arc<EntryLayout>,
}

impl Definition {
    pub fn of(table: &Table) -> Self {
        Self {
            name: table.name.clone(),
            delta: table.delta,
            columns: table.columns.iter().map(|column| column.name.clone()).collect(),
            labels: enumerations(table).collect(),
            found_in: AtomicU64::new(0),
            layout: Arc::new(table.primary_layout()),
        }
    }

    /// The table in a generation; `None` if it is not there as it was.
    pub fn find<'g>(&self, generation: &'g Generation) -> Option<(&'g Arc<Table>, Arc<Delta>)> {
        let (table, number) = (generation.catalog.get(&self.name)?, generation.identity.number());
        if self.found_in.load(Ordering::Relaxed) != number {
            let names = table.columns.iter().map(|column| &column.name);
            let are_known = enumerations(table).zip(&self.labels).all(|(now, then)| now.is_same_state(*then));
            if table.delta != self.delta || !names.eq(&self.columns) || !are_known {
                return None;
            }
            self.found_in.store(number, Ordering::Relaxed);
        }
        Some((table, Arc::clone(generation.delta(table)?)))
    }
}

/// The enumerations that a table's columns are of, in order.
fn enumerations(table: &Table) -> impl Iterator<Item = Enumeration> {
    table.columns.iter().filter_map(|column| match column.data_type {
        DataType::Enum(of) => Some(of),
        _ => None,
    })
}

/// What is worked out of a row.
#[derive(Debug)]
pub enum Computed {
    Own(Expr),
    Planned(Evaluated),
}

/// What it does.
#[derive(Debug)]
pub enum Operation {
    Query(Box<Query>),
    Update { source: Source, assigned: Vec<(usize, Expr)> },
    Delete(Source),
    Insert(Insert),
}

#[derive(Default, Debug)]
pub struct Insert {
    /// Of each row, a value for each column of the table.
    pub rows: Vec<Vec<Expr>>,
    /// Sequences that values are drawn from, as `nextval` is told of them.
    pub draws: Vec<String>,
    /// Columns that some row gives a value.
    pub given: BTreeSet<usize>,
    /// Columns that some row gives none, each with the default that it was compiled with.
    pub defaults: BTreeMap<usize, Option<String>>,
    /// What becomes of rows that are there; `None`: the statement fails.
    pub conflict: Option<Conflict>,
}

/// ON CONFLICT.
#[derive(Debug)]
pub struct Conflict {
    /// As it was written.
    pub target: Option<ConflictTarget>,
    /// The key that it means.
    pub arbiter: Arbiter,
    /// DO UPDATE; `None`: DO NOTHING.
    pub assigned: Option<Vec<(usize, Expr)>>,
}

impl Conflict {
    /// Whether it still means the same key.
    fn fits(&self, table: &Table) -> bool {
        Arbiter::read(self.target.as_ref(), table).is_ok_and(|arbiter| arbiter == self.arbiter)
    }
}

impl Insert {
    /// Whether the table, whose layout is as it was, still fills the same columns with the same.
    fn fits(&self, catalog: &Catalog, table: &Table) -> bool {
        self.defaults.iter().all(|(column, default)| table.default_of(catalog, *column) == *default)
            && !self.given.iter().any(|column| table.refuses_values(*column))
            && self.conflict.as_ref().is_none_or(|conflict| conflict.fits(table))
    }
}

/// Columns of its rows are those of all of its tables, in the order of FROM.
#[derive(Debug)]
pub struct Query {
    /// Of the plan's table.
    pub source: Source,
    /// For the first rows in an order, or the least value: where they are found in it, taken if `source` has too many.
    pub spare: Option<Source>,
    /// The plan's table has its columns from here on.
    pub first: usize,
    /// Rows of other tables that belong to each, one table after the other.
    pub lookups: Vec<Lookup>,
    /// How many columns the tables have.
    pub width: usize,
    /// What whole rows have to meet, of what is worked out of them; none: nothing.
    pub conditions: Alternatives,
    pub shape: Shape,
    /// Rows of the answer at most.
    pub limit: Option<Expr>,
    /// Rows before them that are passed over.
    pub offset: Option<Expr>,
    /// Whether its rows are held until the transaction ends: FOR UPDATE.
    pub holds: bool,
}

/// A join: for each row, rows of a table.
#[derive(Debug)]
pub struct Lookup {
    pub table: Definition,
    /// The table has its columns from here on.
    pub first: usize,
    /// Values of its ranges are made of columns of tables before it, as is what its filter says of whole rows.
    pub source: Source,
    pub kind: Kind,
}

/// What a join gives for a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It with each row that it finds.
    Inner,
    /// The same; with NULLs if it finds none.
    Outer,
    /// It, if it finds any: `EXISTS`, `IN (SELECT …)`.
    Semi,
    /// It, if it finds none: `NOT EXISTS`.
    Anti,
}

/// Where rows are found.
#[derive(Debug)]
pub struct Source {
    pub tree: Tree,
    pub ranges: Vec<Range>,
    pub is_reverse: bool,
    /// What the ranges leave open.
    pub filter: Option<Alternatives>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tree {
    /// The primary one; the ranges are whole keys.
    Keys,
    Primary,
    Index(usize),
}

/// What becomes of the rows.
#[derive(Debug)]
pub enum Shape {
    /// These columns, in the order in which rows are found.
    Rows(Vec<usize>),
    Sorted {
        columns: Vec<usize>,
        /// Columns, and whether they descend.
        order: Vec<(usize, bool)>,
        /// Equal rows are one.
        is_distinct: bool,
    },
    /// One row of these, each with what stands for NULL.
    Aggregates(Vec<(Aggregate, Value)>),
    /// One row: a column of the first row that is found, or what stands for it.
    Extreme { column: usize, otherwise: Value },
    /// One row for each of the values that some columns have.
    Groups {
        by: Vec<usize>,
        items: Vec<Item>,
        /// Columns of `by`, and whether they descend.
        order: Vec<(usize, bool)>,
    },
}

/// What is said of a group.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// One of the columns that it is made by.
    Column(usize),
    Aggregate(Aggregate),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregate {
    /// Of rows.
    Count,
    /// Of rows in which a column is not NULL.
    CountOf(usize),
    /// Of different values of a column that are not NULL.
    CountDistinct(usize),
    /// Of a column, and its type.
    Sum(usize, DataType),
    Min(usize),
    Max(usize),
}

impl Shape {
    /// The columns that the answer's are, if they are such.
    pub fn columns(&self) -> Option<&[usize]> {
        match self {
            Self::Rows(columns) | Self::Sorted { columns, .. } => Some(columns),
            Self::Aggregates(_) | Self::Extreme { .. } | Self::Groups { .. } => None,
        }
    }
}

impl Query {
    /// Whether each row that is found in its source is one of the answer's.
    pub fn is_plain(&self) -> bool {
        self.lookups.is_empty() && self.conditions.is_empty()
    }
}

impl Source {
    /// How many keys or ranges it is about, with these values of parameters.
    pub fn count(&self, parameters: &[ScalarValue]) -> usize {
        self.ranges.iter().map(|range| range.count(parameters)).fold(0, usize::saturating_add)
    }

    /// Whether it is about one row at most.
    pub fn is_single(&self) -> bool {
        matches!((&self.tree, &self.ranges[..]), (Tree::Keys, [range]) if range.is_single())
    }
}

impl FastPlan {
    /// Whether it means the same to a session with these parameters.
    pub(super) fn is_for(&self, parameters: &Parameters) -> bool {
        self.state.as_ref().is_none_or(|of| parameters.ask_state(|state| Arc::ptr_eq(of, state)))
    }

    /// Its command.
    pub fn verb(&self) -> &'static str {
        match self.operation {
            Operation::Query(_) => "SELECT",
            Operation::Update { .. } => "UPDATE",
            Operation::Delete(_) => "DELETE",
            Operation::Insert(_) => "INSERT",
        }
    }

    /// The answer's columns, as a query plan would name them; `None` for changes that only count.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// How it finds its rows, as EXPLAIN shows it.
    pub fn text(&self, catalog: &Catalog) -> String {
        let tree = |table: &Definition, tree: Tree| match tree {
            Tree::Keys | Tree::Primary => format!("{} by primary key", table.name),
            Tree::Index(index) => {
                let name = catalog.get(&table.name).and_then(|found| found.indexes.get(index)).map(|index| &index.name);
                format!("{} by index {}", table.name, name.map_or("", String::as_str))
            }
        };
        let source = match &self.operation {
            Operation::Query(query) => tree(&self.table, query.source.tree),
            Operation::Update { source, .. } | Operation::Delete(source) => tree(&self.table, source.tree),
            Operation::Insert(_) => self.table.name.clone(),
        };
        let lookup = |lookup: &Lookup| {
            let found = tree(&lookup.table, lookup.source.tree);
            match lookup.kind {
                Kind::Inner => format!(", {found}"),
                Kind::Outer => format!(", {found} or NULLs"),
                Kind::Semi => format!(", if there is one in {found}"),
                Kind::Anti => format!(", if there is none in {found}"),
            }
        };
        let lookups: String = self.lookups().iter().map(lookup).collect();
        format!("Compiled, as long as it takes few rows: {source}{lookups}")
    }

    /// Whether it takes long with these values, since they are so many keys: others who wait for the same thread would
    /// notice.
    pub fn is_long(&self, values: &[ScalarValue]) -> bool {
        let source = match &self.operation {
            Operation::Query(query) => &query.source,
            Operation::Update { source, .. } | Operation::Delete(source) => source,
            Operation::Insert(_) => return false,
        };
        source.count(values) > KEYS_LONG
    }

    /// Whether it changes rows.
    pub fn is_change(&self) -> bool {
        !matches!(self.operation, Operation::Query(_))
    }

    /// What a client learns of it: of a change by whole keys, without conditions, that there are rows of these. Foreign
    /// keys ask what is in rows, since they may refer to a unique column.
    pub(super) fn telling(&self, rules: &Rules) -> Telling {
        let is_by_keys = |source: &Source| source.tree == Tree::Keys && source.filter.is_none() && rules.is_free();
        let is_counted = match &self.operation {
            Operation::Query(_) => false,
            Operation::Insert(insert) => insert.conflict.is_none() && !rules.has_keys(),
            Operation::Update { source, .. } | Operation::Delete(source) => is_by_keys(source),
        };
        if is_counted && self.returning.is_none() { Telling::Presence } else { Telling::All }
    }

    /// Sequences that it draws values from, as `nextval` is told of them.
    pub(super) fn draws(&self) -> &[String] {
        match &self.operation {
            Operation::Insert(insert) => &insert.draws,
            _ => &[],
        }
    }

    /// Whether it holds rows that it gives.
    pub(super) fn holds_rows(&self) -> bool {
        matches!(&self.operation, Operation::Query(query) if query.holds)
    }

    /// Tables that it looks rows of its own up in.
    pub(super) fn lookups(&self) -> &[Lookup] {
        match &self.operation {
            Operation::Query(query) => &query.lookups,
            _ => &[],
        }
    }

    /// Whether a role may run it by the rights of the newest catalog, as far as that can be told without a look at
    /// columns.
    pub(super) fn is_allowed(&self, newest: &Arc<Generation>, table: &Table, role: RoleId) -> bool {
        let mut allowed_in = self.allowed_in.lock();
        if std::ptr::eq(allowed_in.0.as_ptr(), Arc::as_ptr(newest)) && allowed_in.1 == Some(role) {
            return true;
        }
        let needed = self.needed();
        let catalog = &newest.catalog;
        let is_allowed_on = |table: &Table| {
            let schema = catalog.schema_object(&table.schema);
            catalog.privileges_on(role, table.id.into(), ObjectKind::Table).covers(needed)
                && schema.is_some_and(|schema| {
                    catalog.privileges_on(role, schema, ObjectKind::Schema).contains(Privilege::Usage)
                })
        };
        let is_joined_allowed =
            |lookup: &Lookup| catalog.get(&lookup.table.name).is_some_and(|table| is_allowed_on(table));
        let is_allowed = is_allowed_on(table) && self.lookups().iter().all(is_joined_allowed);
        if is_allowed {
            *allowed_in = (Arc::downgrade(newest), Some(role));
        }
        is_allowed
    }

    /// What a role needs on the whole table.
    fn needed(&self) -> Privileges {
        let reads = self.returning.is_some().then_some(Privilege::Select);
        let all = |privileges: &[Privilege]| privileges.iter().copied().chain(reads).collect();
        match &self.operation {
            Operation::Query(query) if !query.holds => all(&[Privilege::Select]),
            Operation::Query(_) | Operation::Update { .. } => all(&[Privilege::Select, Privilege::Update]),
            Operation::Delete(_) => all(&[Privilege::Select, Privilege::Delete]),
            Operation::Insert(Insert { conflict: None, .. }) => all(&[Privilege::Insert]),
            Operation::Insert(_) => all(&[Privilege::Insert, Privilege::Select, Privilege::Update]),
        }
    }

    /// The rules of its table, which is in this generation; `None` if the plan does not fit it any more, or the rules
    /// do not keep. Defaults and rules may change without a change of layout, so it is looked once in each generation.
    pub(super) fn rules(
        &self,
        with: &RulePlanner<'_>,
        generation: &Generation,
        table: &Arc<Table>,
    ) -> Option<Arc<Rules>> {
        let (number, catalog) = (generation.identity.number(), &generation.catalog);
        if self.free_in.load(Ordering::Relaxed) == number {
            return Some(Arc::clone(&self.no_rules));
        }
        let mut kept = self.rules.lock();
        if let Some(rules) = kept.as_ref().and_then(|kept| kept.rules(with, generation)) {
            return Some(rules);
        }
        if !self.fits(catalog, table) {
            return None;
        }
        if table.is_free_of_rules(catalog) {
            self.free_in.store(number, Ordering::Relaxed);
            return Some(Arc::clone(&self.no_rules));
        }
        // What is wrong with a rule is said where the statement is planned.
        *kept = with_room(|| KeptRules::plan(with, generation, table)).ok()?;
        kept.as_ref()?.rules(with, generation)
    }

    /// Whether its table, whose layout is as it was, is changed as it was.
    fn fits(&self, catalog: &Catalog, table: &Table) -> bool {
        match &self.operation {
            Operation::Query(_) | Operation::Delete(_) => true,
            Operation::Insert(insert) => insert.fits(catalog, table),
            Operation::Update { assigned, .. } => !assigned.iter().any(|(column, _)| table.refuses_values(*column)),
        }
    }

    /// It has taken more than is looked at here: next time it is not tried.
    pub(super) fn leave_out(&self) {
        self.left_out.store(RUNS_LEFT_OUT, Ordering::Relaxed);
    }

    /// Whether it is to be left out now.
    pub(super) fn is_left_out(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.left_out.load(Ordering::Relaxed) > 0
            && self.left_out.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}
