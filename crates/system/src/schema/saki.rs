//! The schema `saki`: the views that are registered, and those of the catalog itself.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;

use super::super::objects::{Detail, Relation};
use super::super::system::SystemCatalog;

/// The schema `saki`.
#[derive(Debug)]
pub struct SakiSchema {
    system: Arc<SystemCatalog>,
}

/// Views of the catalog itself.
const OWN: [&str; 2] = ["indexes", "tables"];

impl SakiSchema {
    pub fn new(system: Arc<SystemCatalog>) -> Self {
        Self { system }
    }

    fn own(&self, name: &str) -> Result<Option<RecordBatch>> {
        let objects = self.system.objects();
        Ok(match name {
            "tables" => Some(tables(&objects.user_relations().collect::<Vec<_>>())?),
            "indexes" => {
                let table = |oid| objects.relation(oid).map(|relation| relation.name.as_str()).unwrap_or_default();
                Some(indexes(&objects.user_relations().collect::<Vec<_>>(), &table)?)
            }
            _ => None,
        })
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect())?)
}

fn names<'r>(names: impl Iterator<Item = &'r str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(names))
}

fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values.map(|value| i64::try_from(value).unwrap_or(i64::MAX))))
}

fn tables(relations: &[&Relation]) -> Result<RecordBatch> {
    let tables: Vec<_> = relations
        .iter()
        .filter_map(|relation| match &relation.detail {
            Detail::Table(table) => Some((*relation, table)),
            _ => None,
        })
        .collect();
    batch(vec![
        ("schema", names(tables.iter().map(|(relation, _)| relation.schema.as_str()))),
        ("name", names(tables.iter().map(|(relation, _)| relation.name.as_str()))),
        ("columns", counts(tables.iter().map(|(relation, _)| relation.columns.len() as u64))),
        ("base_rows", counts(tables.iter().map(|(relation, _)| relation.rows))),
        ("base_bytes", counts(tables.iter().map(|(relation, _)| relation.bytes))),
        ("indexes", counts(tables.iter().map(|(_, table)| table.indexes.len() as u64))),
        ("tree_height", counts(tables.iter().map(|(_, table)| u64::from(table.root.height)))),
    ])
}

fn indexes<'o>(relations: &[&'o Relation], table_name: &dyn Fn(i64) -> &'o str) -> Result<RecordBatch> {
    let indexes: Vec<_> = relations
        .iter()
        .filter_map(|relation| match &relation.detail {
            Detail::Index(index) => Some((*relation, index)),
            _ => None,
        })
        .collect();
    batch(vec![
        ("schema", names(indexes.iter().map(|(relation, _)| relation.schema.as_str()))),
        ("table_name", names(indexes.iter().map(|(_, index)| table_name(index.table)))),
        ("name", names(indexes.iter().map(|(relation, _)| relation.name.as_str()))),
        ("is_unique", Arc::new(arrow_array::BooleanArray::from_iter(indexes.iter().map(|(_, i)| Some(i.unique))))),
        ("is_primary", Arc::new(arrow_array::BooleanArray::from_iter(indexes.iter().map(|(_, i)| Some(i.primary))))),
        ("entries", counts(indexes.iter().map(|(relation, _)| relation.rows))),
        ("bytes", counts(indexes.iter().map(|(relation, _)| relation.bytes))),
    ])
}

#[async_trait]
impl SchemaProvider for SakiSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.system.views().names();
        names.extend(OWN.map(str::to_owned));
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let rows = match self.own(name)? {
            Some(rows) => rows,
            None => match self.system.views().find(name) {
                Some(view) => self.system.as_seen(&view.rows()?)?,
                None => return Ok(None),
            },
        };
        Ok(Some(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        OWN.contains(&name) || self.system.views().find(name).is_some()
    }
}
