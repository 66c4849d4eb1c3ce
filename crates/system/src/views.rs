//! The system views of schema `saki`: what the engine knows of itself. Whoever has the data registers a view for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::RwLock;

/// A view whose rows are made when a query reads it.
pub trait SystemView: fmt::Debug + Send + Sync {
    /// Its name in the schema `saki`.
    fn name(&self) -> &str;

    fn schema(&self) -> SchemaRef;

    /// The rows now, with exactly the columns of [`Self::schema`].
    ///
    /// # Errors
    /// Whatever keeps them from being known; the query fails with it.
    fn rows(&self) -> saki_catalog::Result<RecordBatch>;
}

/// The connections of a server, as sessions may stop each other's work.
pub trait Backends: fmt::Debug + Send + Sync {
    /// The role that a connection logged in as; `None` if there is no such connection.
    fn user_of(&self, process: i64) -> Option<String>;

    /// Asks a connection to stop its statement, or if `for_good` to end.
    fn stop(&self, process: i64, for_good: bool);
}

/// The views that are registered with a database, and who serves it.
#[derive(Debug, Default)]
pub struct SystemViews {
    views: RwLock<BTreeMap<String, Arc<dyn SystemView>>>,
    backends: RwLock<Option<Arc<dyn Backends>>>,
}

impl SystemViews {
    /// Adds a view, in place of one that has its name.
    pub fn register(&self, view: Arc<dyn SystemView>) {
        self.views.write().insert(view.name().to_owned(), view);
    }

    /// States whose connections they are that work on the database.
    pub fn serve(&self, backends: Arc<dyn Backends>) {
        *self.backends.write() = Some(backends);
    }

    pub(super) fn backends(&self) -> Option<Arc<dyn Backends>> {
        self.backends.read().clone()
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<dyn SystemView>> {
        self.views.read().get(name).map(Arc::clone)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.views.read().keys().cloned().collect()
    }
}
