//! Results as text: aligned tables, CSV or JSON.

mod csv;
mod json;
mod table;
mod value;
mod writer;

use arrow::datatypes::SchemaRef;
use clap::ValueEnum;

pub use table::{Align, Grid};
pub use writer::RowWriter;

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Format {
    /// Aligned columns, for people
    #[default]
    Table,
    /// Comma-separated values with a header; NULL is empty and unquoted
    Csv,
    /// An array of objects, one per line
    Json,
}

/// What a session chose of the output.
#[derive(Clone, Debug)]
pub struct Style {
    pub format: Format,
    /// One line per value instead of one per row, in tables.
    pub expanded: bool,
    /// What NULL looks like in tables.
    pub null: String,
}

impl Default for Style {
    fn default() -> Self {
        Self { format: Format::Table, expanded: false, null: String::new() }
    }
}

impl Style {
    pub fn writer(&self, schema: &SchemaRef) -> Box<dyn RowWriter> {
        match self.format {
            Format::Table if self.expanded => Box::new(table::ExpandedWriter::new(schema, &self.null)),
            Format::Table => Box::new(table::TableWriter::new(schema, &self.null)),
            Format::Csv => Box::new(csv::CsvWriter::new(schema)),
            Format::Json => Box::new(json::JsonWriter::new(schema)),
        }
    }
}
