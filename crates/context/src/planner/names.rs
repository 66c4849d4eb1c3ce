//! What names stand for while a statement is planned: the relations of its snapshot, external tables, and system
//! schemas.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result};
use parking_lot::{Mutex, RwLock};
use saki_base::TableId;
use saki_catalog::{Catalog, PUBLIC, RelationKind, SqlError, Table, View, qualified};
use saki_plan::{HiddenKey, QueryEnv, SnapshotTable, once};
use saki_postgres::dialect;
use saki_store::Database;
use saki_system::{SystemCatalog, SystemSchema};

use super::hidden;
use super::sequence::relation_of;
use crate::view;

/// Views that the statement has named, all of which are known not to be nested too deep; with their plans, if others
/// may have them too. However many ways lead to a view by others, it is planned once.
type PlannedViews = BTreeMap<String, Option<Arc<ViewTable>>>;

/// The schema `public`: the snapshot's relations, and the session's external tables. Under their catalog names it has
/// those of other schemas too.
#[derive(Debug, Default)]
pub struct PublicSchema {
    env: RwLock<Option<Arc<QueryEnv>>>,
    planner: RwLock<view::PlannerState>,
    views: Mutex<PlannedViews>,
    /// Hidden columns of tables that the statement has named.
    hidden: Mutex<BTreeMap<TableId, Arc<[HiddenKey]>>>,
    external: RwLock<BTreeMap<String, Arc<dyn TableProvider>>>,
    /// Where sequences say how far they have come.
    store: RwLock<Weak<Database>>,
}

impl PublicSchema {
    /// From now on names mean the tables of this statement's snapshot.
    pub fn enter(&self, env: &Arc<QueryEnv>) {
        *self.env.write() = Some(Arc::clone(env));
        self.forget();
    }

    /// Lets go of the snapshot.
    pub fn leave(&self) {
        *self.env.write() = None;
        self.forget();
    }

    /// What was planned for a statement is another's no more: it may have another snapshot.
    fn forget(&self) {
        self.views.lock().clear();
        self.hidden.lock().clear();
    }

    /// Whose sequences are relations.
    pub fn read_sequences_of(&self, store: &Arc<Database>) {
        *self.store.write() = Arc::downgrade(store);
    }

    /// Whose functions and settings the queries of views are planned with.
    pub fn plan_views_by(&self, planner: view::PlannerState) {
        *self.planner.write() = planner;
    }

    pub fn is_external(&self, name: &str) -> bool {
        self.external.read().contains_key(name)
    }

    /// The plan of a view.
    async fn planned(&self, catalog: &Catalog, view: &View) -> Result<Arc<ViewTable>> {
        let known = self.views.lock().get(&view.name).cloned();
        match known {
            Some(Some(plan)) => return Ok(plan),
            Some(None) => {}
            None => {
                let (below, _) = catalog.views_below(&view.name)?;
                let mut views = self.views.lock();
                for name in below {
                    views.entry(name.to_owned()).or_default();
                }
            }
        }
        let planner = self.planner.read().clone();
        let plan = Arc::new(view::plan(view, &planner, catalog).await?);
        // Its parts that run once do so for each that names the view.
        if !once::is_marked(plan.logical_plan(), dialect::mark)? {
            self.views.lock().insert(view.name.clone(), Some(Arc::clone(&plan)));
        }
        Ok(plan)
    }
}

impl PublicSchema {
    /// What the hidden columns of a table are made of.
    fn hidden_of(&self, table: &Table) -> Arc<[HiddenKey]> {
        if !table.has_filled() {
            return Arc::default();
        }
        if let Some(known) = self.hidden.lock().get(&table.id) {
            return Arc::clone(known);
        }
        let planner = self.planner.read().clone();
        let Some(state) = planner.upgrade().map(|state| state.read().clone()) else { return Arc::default() };
        let keys: Arc<[HiddenKey]> = hidden::keys(&state, table).into();
        self.hidden.lock().insert(table.id, Arc::clone(&keys));
        keys
    }
}

/// The error of a relation that `restrict_nonsystem_relation_kind` keeps queries from.
fn restricted(kind: &str, name: &str) -> DataFusionError {
    let message = format!("access to non-system {kind} {name:?} is restricted");
    SqlError::invalid(message).code("55000").hint("RESET restrict_nonsystem_relation_kind").into()
}

#[async_trait]
impl SchemaProvider for PublicSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.external.read().keys().cloned().collect();
        if let Some(env) = self.env.read().as_ref() {
            let catalog = &env.generation.catalog;
            names.extend(catalog.tables().filter(|t| t.schema == PUBLIC).map(|table| table.name.clone()));
            names.extend(catalog.views().filter(|v| v.schema == PUBLIC).map(|view| view.name.clone()));
        }
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let env = self.env.read().clone();
        if let Some(stand_in) = env.as_ref().and_then(|env| env.stand_ins.get(name)) {
            return Ok(Some(Arc::clone(stand_in)));
        }
        if let Some(external) = self.external.read().get(name) {
            if env.is_some_and(|env| env.settings.without_external_tables) {
                return Err(restricted("foreign table", name));
            }
            return Ok(Some(Arc::clone(external)));
        }
        let Some(env) = env else { return Ok(None) };
        if let Some(view) = env.generation.catalog.view(name) {
            if env.settings.without_views {
                return Err(restricted("view", name));
            }
            return Ok(Some(self.planned(&env.generation.catalog, view).await?));
        }
        if let Some(sequence) = env.generation.catalog.sequence(name) {
            let store = self.store.read().upgrade();
            let position = store.map_or(sequence.position, |store| store.sequences.position(sequence));
            return Ok(Some(relation_of(sequence, position, env.asking.as_ref())?));
        }
        let Some(table) = env.generation.catalog.get(name).map(Arc::clone) else { return Ok(None) };
        let hidden = self.hidden_of(&table);
        Ok(Some(Arc::new(SnapshotTable::new(env, table)?.with_hidden(hidden)) as Arc<dyn TableProvider>))
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.external.write().insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.external.write().remove(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        let named = |env: &Arc<QueryEnv>| {
            env.stand_ins.contains_key(name)
                || matches!(
                    env.generation.catalog.kind_of(name),
                    Some(RelationKind::Table | RelationKind::View | RelationKind::Sequence)
                )
        };
        self.is_external(name) || self.env.read().as_ref().is_some_and(named)
    }
}

/// A schema other than `public`.
#[derive(Debug)]
struct OtherSchema {
    name: String,
    public: Arc<PublicSchema>,
}

#[async_trait]
impl SchemaProvider for OtherSchema {
    fn table_names(&self) -> Vec<String> {
        let env = self.public.env.read();
        let Some(env) = env.as_ref() else { return Vec::new() };
        let catalog = &env.generation.catalog;
        let tables = catalog.tables().filter(|table| table.schema == self.name).map(|table| table.bare_name());
        let views = catalog.views().filter(|view| view.schema == self.name).map(|view| view.bare_name());
        tables.chain(views).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.public.table(&qualified(&self.name, name)).await
    }

    fn table_exist(&self, name: &str) -> bool {
        self.public.table_exist(&qualified(&self.name, name))
    }
}

/// The catalog `saki` with its schemas.
#[derive(Debug)]
pub struct SakiCatalog {
    pub public: Arc<PublicSchema>,
    pub system: Arc<SystemCatalog>,
}

impl CatalogProvider for SakiCatalog {
    fn schema_names(&self) -> Vec<String> {
        let of_users = match self.public.env.read().as_ref() {
            Some(env) => env.generation.catalog.schema_names().map(str::to_owned).collect(),
            None => vec![PUBLIC.to_owned()],
        };
        of_users.into_iter().chain(SystemSchema::names().map(str::to_owned)).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == PUBLIC {
            return Some(Arc::clone(&self.public) as _);
        }
        let is_there = self.public.env.read().as_ref().is_some_and(|env| env.generation.catalog.has_schema(name));
        match is_there {
            true => Some(Arc::new(OtherSchema { name: name.to_owned(), public: Arc::clone(&self.public) }) as _),
            false => SystemSchema::find(name, &self.system),
        }
    }
}
