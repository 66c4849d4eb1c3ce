//! The system schemas as the planner looks names up in them.

mod saki;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;

use self::saki::SakiSchema;
use super::contents::{self, Source};
use super::definition;
use super::system::{SYSTEM_SCHEMAS, SystemCatalog};

/// `pg_catalog` or `information_schema`.
#[derive(Debug)]
pub struct SystemSchema {
    name: &'static str,
    system: Arc<SystemCatalog>,
}

impl SystemSchema {
    /// The schema of a name, if it is one of these or `saki`.
    pub fn find(name: &str, system: &Arc<SystemCatalog>) -> Option<Arc<dyn SchemaProvider>> {
        if name == "saki" {
            return Some(Arc::new(SakiSchema::new(Arc::clone(system))));
        }
        let name = SYSTEM_SCHEMAS.into_iter().find(|known| *known == name)?;
        Some(Arc::new(Self { name, system: Arc::clone(system) }))
    }

    /// All names that [`Self::find`] finds.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SYSTEM_SCHEMAS.into_iter().chain(["saki"])
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        let own = definition::all().iter().filter(|definition| definition.schema == self.name);
        own.map(|definition| definition.name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(definition) = definition::find(self.name, name) else { return Ok(None) };
        let objects = self.system.objects();
        let rows = contents::rows(&Source { system: &self.system, objects: &objects }, definition)?;
        Ok(Some(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        definition::find(self.name, name).is_some()
    }
}
