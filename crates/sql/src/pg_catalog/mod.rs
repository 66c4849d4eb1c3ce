//! The database as PostgreSQL's clients look at it: `pg_catalog`, `information_schema`, the functions about them, and
//! the system views of schema `saki`.
//!
//! ```text
//!   catalog ─ source ─► objects ─► contents ─► SystemSchema (rows, made when a query names a relation)
//!                          └─────► functions (pg_get_indexdef, format_type, regclass…)
//!   statement ─► rewrite (text that the planner does not know) ─► plan ─► nested_loops (correlated subqueries)
//! ```
//!
//! # Invariants
//! - Every relation has the columns and types of PostgreSQL 15; those that describe what there is not are empty.
//! - Oids are made of ids that never change, so an object keeps its own.
//! - Functions answer from the newest snapshot, as PostgreSQL's do, whatever snapshot a query reads.
//! - Statements that name nothing of this are planned as if this module were not there.

mod contents;
mod definition;
mod describe;
mod functions;
mod nested_loops;
mod objects;
mod parameters;
mod rewrite;
mod rows;
mod saki_views;
mod schema;
mod session;
mod source;
mod types;

use std::fmt;
use std::sync::Arc;

use datafusion::execution::context::SessionContext;
use parking_lot::{Mutex, RwLock};
use saki_base::Generation;

pub use self::definition::{PG_COLUMN, PG_MODIFIER, PG_TABLE, PG_TYPE, is_letter};
pub use self::nested_loops::{has_subqueries, last_resort, nested_loops};
pub use self::objects::relation_oid;
use self::objects::{Detail, Objects, Relation};
pub use self::rewrite::{TypeNames, array_literal, rewrite};
pub use self::saki_views::{SystemView, SystemViews};
pub use self::schema::SystemSchema;
pub use self::session::SessionFacts;
pub use self::types::type_of;
use crate::catalog::Sequence;
use crate::database::Database;

/// What a session's system relations and functions answer from.
pub struct SystemCatalog {
    database: Arc<Database>,
    session: RwLock<SessionFacts>,
    objects: Mutex<Option<(Generation, Arc<Objects>)>>,
    started_micros: i64,
}

impl SystemCatalog {
    pub fn new(database: &Arc<Database>) -> Arc<Self> {
        let session = SessionFacts::default();
        Arc::new(Self {
            database: Arc::clone(database),
            started_micros: session.started_micros,
            session: RwLock::new(session),
            objects: Mutex::default(),
        })
    }

    /// Makes the functions known to the planner.
    pub fn register(self: &Arc<Self>, context: &SessionContext) {
        for function in functions::all(self) {
            context.register_udf(function);
        }
    }

    /// Who the session is.
    pub fn session(&self) -> SessionFacts {
        self.session.read().clone()
    }

    /// States who the session is.
    pub fn state_session<T>(&self, change: impl FnOnce(&mut SessionFacts) -> T) -> T {
        change(&mut self.session.write())
    }

    fn database(&self) -> &Arc<Database> {
        &self.database
    }

    fn generation(&self) -> u64 {
        self.database.snapshot().generation().0
    }

    fn server_started_micros(&self) -> i64 {
        self.started_micros
    }

    /// Rows and bytes of a relation, with those of its delta: about, since rows that replace others count until they are merged.
    fn size_of(&self, relation: &Relation) -> (u64, u64) {
        let (rows, bytes) = match &relation.detail {
            Detail::Table(table) => source::delta_size(&self.database, table),
            _ => (0, 0),
        };
        (relation.rows + rows, relation.bytes + bytes)
    }

    /// The last value that a sequence has given; `None`: it has given none yet.
    fn last_value(&self, sequence: &Sequence) -> Option<i64> {
        let position = self.database.sequences.position(sequence);
        position.is_called.then_some(position.last_value)
    }

    /// The objects of the newest snapshot, made once for each.
    fn objects(&self) -> Arc<Objects> {
        let snapshot = self.database.snapshot();
        let mut objects = self.objects.lock();
        if let Some((generation, objects)) = objects.as_ref()
            && *generation == snapshot.generation()
        {
            return Arc::clone(objects);
        }
        let made = Arc::new(Objects::new(&snapshot.catalog, self.database.page_size().bytes()));
        *objects = Some((snapshot.generation(), Arc::clone(&made)));
        made
    }
}

impl fmt::Debug for SystemCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemCatalog").finish_non_exhaustive()
    }
}
