//! The rows of the system relations, each made from the objects when a query names it.

mod activity;
mod cluster;
mod information;
mod listings;
mod locks;
mod relations;
mod roles;
mod source;

use arrow_array::RecordBatch;
use datafusion::common::Result;

pub use self::source::Source;
use super::definition::Definition;
use super::rows::Rows;

/// The rows of a relation now; none of those that describe what Sakigake does not have.
pub fn rows(source: &Source<'_>, definition: &'static Definition) -> Result<RecordBatch> {
    let mut rows = Rows::new(definition);
    match definition.schema {
        "information_schema" => information::fill(source, definition.name, &mut rows),
        _ => {
            relations::fill(source, definition.name, &mut rows);
            cluster::fill(source, definition.name, &mut rows);
            roles::fill(source, definition.name, &mut rows);
            listings::fill(source, definition.name, &mut rows);
            locks::fill(source, definition.name, &mut rows);
            activity::fill(source, definition.name, &mut rows)?;
        }
    }
    rows.finish()
}
