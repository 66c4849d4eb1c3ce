//! PostgreSQL's text format: a line for each record, with backslashes before what would end a field. Source:
//! PostgreSQL's documentation of COPY, "Text Format".

mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use self::reader::LineReader;
pub use self::writer::LineWriter;

/// How lines are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineOptions {
    /// The first line has the names of the columns.
    pub header: bool,
    pub delimiter: u8,
    /// What NULL looks like, backslashes included.
    pub null: String,
}

impl Default for LineOptions {
    fn default() -> Self {
        Self { header: false, delimiter: b'\t', null: "\\N".to_owned() }
    }
}
