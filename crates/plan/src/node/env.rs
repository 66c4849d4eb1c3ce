//! What one statement's plan needs of the database: its snapshot, its session's choices, and the executor.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use saki_base::Part;
use saki_exec::{Executor, SegmentReader};

use crate::cost::{CostModel, Costs};
use saki_catalog::{Result, RoleId, SqlError, Table};
use saki_settings::{Operators, Settings};
use saki_store::{Database, Generation, Snapshot};

/// Tables by the names under which a query finds them.
pub type StandIns = BTreeMap<String, Arc<dyn TableProvider>>;

/// Shared by all nodes of a statement's plan.
pub struct QueryEnv {
    /// What is read, deltas included.
    pub snapshot: Arc<Snapshot>,
    pub generation: Arc<Generation>,
    /// `None` in plans that are kept, which would keep it open.
    db: Option<Arc<Database>>,
    pub settings: Settings,
    /// On the first device; by part, as [`Costs`].
    pub costs: CostModel,
    pub executor: Arc<Executor>,
    pub segment_reader: Arc<SegmentReader>,
    /// Values of the parameters that the statement leaves open: its plan serves others too.
    pub parameters: Arc<[ScalarValue]>,
    /// The table whose hidden row id is a column like others.
    pub row_id_of: Option<String>,
    /// Tables that stand in for those of the same name.
    pub stand_ins: StandIns,
    /// Who asks: what that one may not read is refused where the query is planned. `None`: whoever may read all.
    pub asking: Option<Asking>,
}

/// A role that is not allowed everything, and what says what it is allowed: the newest catalog, whatever is read.
#[derive(Clone)]
pub struct Asking {
    pub role: RoleId,
    pub rights: Arc<Generation>,
}

impl Costs for QueryEnv {
    fn of(&self, parts: &[Part]) -> CostModel {
        self.db.as_ref().map_or(self.costs, |db| self.costs.on(db.speed_of(parts)))
    }
}

impl QueryEnv {
    /// What a statement of `db` works with.
    pub fn new(db: &Arc<Database>, snapshot: Arc<Snapshot>, settings: Settings) -> Self {
        let costs = CostModel::new(db.speed(), db.page_size().bytes(), &settings);
        Self {
            generation: Arc::clone(&snapshot.generation),
            snapshot,
            db: Some(Arc::clone(db)),
            parameters: Arc::default(),
            row_id_of: None,
            stand_ins: StandIns::default(),
            asking: None,
            settings,
            costs,
            executor: Arc::clone(&db.executor),
            segment_reader: Arc::clone(&db.segment_reader),
        }
    }

    /// The database, for a plan that runs.
    pub fn database(&self) -> Result<&Arc<Database>> {
        self.db.as_ref().ok_or_else(|| SqlError::internal("a plan that is kept runs"))
    }

    /// Bytes of a row of a table, on average. Of one page of rows nobody knows how full it is.
    pub fn row_bytes(&self, table: &Table) -> f64 {
        let average = |bytes: f64, rows: u64| if rows == 0 { 0.0 } else { bytes / rows as f64 };
        let pages = (table.root.leaf_pages + table.root.overflow_pages).saturating_sub(1);
        let page_bytes = self.executor.page_size().bytes() as f64;
        let newer = self.generation.delta(table);
        average(pages as f64 * page_bytes, table.root.entries)
            .max(newer.map_or(0.0, |delta| average(delta.bytes() as f64, delta.rows())))
    }

    /// The same with values for parameters that the statement leaves open.
    #[must_use]
    pub fn with_parameters(self, parameters: Arc<[ScalarValue]>) -> Self {
        Self { parameters, ..self }
    }

    /// The same on behalf of a role.
    #[must_use]
    pub fn asked_by(self, asking: Option<Asking>) -> Self {
        Self { asking, ..self }
    }

    /// The same with the row ids of a table to be seen, if it has any. Segments do not have them.
    pub fn with_row_id(&self, table: &Table) -> Arc<Self> {
        let mut env = self.copy();
        if table.primary_key.is_empty() {
            env.row_id_of = Some(table.name.clone());
        }
        Arc::new(env)
    }

    /// The same with other tables under some names.
    pub fn with_stand_ins(&self, stand_ins: StandIns) -> Arc<Self> {
        Arc::new(Self { stand_ins, ..self.copy() })
    }

    /// The same with other operators.
    pub fn with_operators(&self, operators: Operators) -> Result<Arc<Self>> {
        let settings = Settings { operators, ..self.settings.clone() };
        Ok(Arc::new(Self::new(self.database()?, Arc::clone(&self.snapshot), settings).asked_by(self.asking.clone())))
    }

    /// The same over nothing but the base, for a plan that is kept.
    pub fn over_base(&self) -> Arc<Self> {
        Arc::new(Self {
            db: None,
            snapshot: Snapshot::new(Arc::clone(&self.generation), None),
            asking: None,
            ..self.copy()
        })
    }

    fn copy(&self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            generation: Arc::clone(&self.generation),
            db: self.db.clone(),
            settings: self.settings.clone(),
            costs: self.costs,
            executor: Arc::clone(&self.executor),
            segment_reader: Arc::clone(&self.segment_reader),
            parameters: Arc::clone(&self.parameters),
            row_id_of: self.row_id_of.clone(),
            stand_ins: self.stand_ins.clone(),
            asking: self.asking.clone(),
        }
    }
}

impl fmt::Debug for QueryEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryEnv").field("settings", &self.settings).finish_non_exhaustive()
    }
}
