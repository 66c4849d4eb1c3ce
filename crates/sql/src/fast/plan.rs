//! What a fast statement is compiled to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use saki_base::{DataType, TableId};

use super::expr::Expr;
use super::range::Range;
use saki_catalog::{EntryLayout, ObjectKind, Privilege, Privileges, RoleId, Table};
use saki_context::database::Database;
use saki_store::Snapshot;

/// A compiled statement.
#[derive(Debug)]
pub struct FastPlan {
    pub(super) table: String,
    /// Whose layout it was compiled against.
    pub(super) delta: TableId,
    /// The generation in which the table was last seen to be free of rules that changes of rows have to follow.
    pub(super) free_in: AtomicU64,
    /// The newest snapshot when a role was last found to be allowed this, and the role.
    pub(super) allowed_in: Mutex<(Weak<Snapshot>, Option<RoleId>)>,
    /// Of the table's primary entries.
    pub(super) layout: Arc<EntryLayout>,
    pub(super) operation: Operation,
    /// Types of the parameters, by number.
    pub parameters: Vec<DataType>,
    /// Columns of the answer, in order: name and type; none for changes.
    pub output: Vec<(String, DataType)>,
    pub(super) schema: Option<SchemaRef>,
}

/// What it does.
#[derive(Debug)]
pub enum Operation {
    /// Table columns of the answer.
    Select {
        key: Vec<Expr>,
        columns: Vec<usize>,
    },
    /// The same of several rows.
    Range {
        range: Range,
        columns: Vec<usize>,
    },
    Update {
        key: Vec<Expr>,
        assigned: Vec<(usize, Expr)>,
    },
    Delete {
        key: Vec<Expr>,
    },
    /// A value for each column of the table.
    Insert {
        values: Vec<Expr>,
    },
}

impl FastPlan {
    /// Its command.
    pub fn verb(&self) -> &'static str {
        match self.operation {
            Operation::Select { .. } | Operation::Range { .. } => "SELECT",
            Operation::Update { .. } => "UPDATE",
            Operation::Delete { .. } => "DELETE",
            Operation::Insert { .. } => "INSERT",
        }
    }

    /// The answer's columns, as a query plan would name them; `None` for changes.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// Whether it changes rows.
    pub fn is_change(&self) -> bool {
        !matches!(self.operation, Operation::Select { .. } | Operation::Range { .. })
    }

    /// Whether a role may run it now, as far as that can be told without a look at columns.
    #[inline]
    pub(super) fn is_allowed(&self, db: &Database, seen: &Arc<Snapshot>, table: &Table, role: RoleId) -> bool {
        let is_allowed = || match db.is_newest(seen) {
            true => self.is_allowed_to(seen, table, role),
            false => self.is_allowed_to(&db.snapshot(), table, role),
        };
        role == RoleId::OWNER || is_allowed()
    }

    fn is_allowed_to(&self, newest: &Arc<Snapshot>, table: &Table, role: RoleId) -> bool {
        let mut allowed_in = self.allowed_in.lock();
        if std::ptr::eq(allowed_in.0.as_ptr(), Arc::as_ptr(newest)) && allowed_in.1 == Some(role) {
            return true;
        }
        let needed = match self.operation {
            Operation::Select { .. } | Operation::Range { .. } => Privileges::from(Privilege::Select),
            Operation::Update { .. } => Privileges::from_iter([Privilege::Select, Privilege::Update]),
            Operation::Delete { .. } => Privileges::from_iter([Privilege::Select, Privilege::Delete]),
            Operation::Insert { .. } => Privilege::Insert.into(),
        };
        let catalog = &newest.catalog;
        let schema = catalog.schema_object(&table.schema);
        let is_allowed = catalog.privileges_on(role, table.id.into(), ObjectKind::Table).covers(needed)
            && schema.is_some_and(|schema| {
                catalog.privileges_on(role, schema, ObjectKind::Schema).contains(Privilege::Usage)
            });
        if is_allowed {
            *allowed_in = (Arc::downgrade(newest), Some(role));
        }
        is_allowed
    }

    /// Whether its table, which is in this snapshot, still has no constraint that a change would have to look at. They
    /// may come without a change of layout, so it is looked once in each generation.
    pub(super) fn is_free_of_rules(&self, snapshot: &Snapshot, table: &Table) -> bool {
        let generation = snapshot.generation().0;
        if self.free_in.load(Ordering::Relaxed) == generation {
            return true;
        }
        let is_free = table.is_free_of_rules(&snapshot.catalog);
        if is_free {
            self.free_in.store(generation, Ordering::Relaxed);
        }
        is_free
    }
}
