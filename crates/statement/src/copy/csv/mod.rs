//! CSV as PostgreSQL reads and writes it, for whoever has rows as text: files, clients, the shell.
//!
//! An unquoted field that looks like NULL is NULL, a quoted one is text. Quotes may begin and end anywhere in a field;
//! within them delimiters and line ends are text. Lines end with `\n` or `\r\n`. Source: PostgreSQL's documentation of
//! COPY, "CSV Format".

mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use self::reader::{CsvError, CsvFault, CsvReader, LINE_BYTES_MAX};
pub use self::writer::CsvWriter;
use saki_catalog::{Result, SqlError};

/// How CSV is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvOptions {
    /// The first record has the names of the columns.
    pub header: bool,
    pub delimiter: u8,
    pub quote: u8,
    pub escape: u8,
    /// What an unquoted NULL looks like.
    pub null: String,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { header: false, delimiter: b',', quote: b'"', escape: b'"', null: String::new() }
    }
}

impl CsvOptions {
    /// Sets an option by name.
    ///
    /// # Errors
    /// `Invalid` or `Unsupported`, for values and names that there are not.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let byte = || match value.as_bytes() {
            [byte] if byte.is_ascii() => Ok(*byte),
            _ => Err(SqlError::invalid(format!("option {name}: {value:?} is not one ASCII character"))),
        };
        match name.to_ascii_lowercase().as_str() {
            "header" => self.header = matches!(value.to_ascii_lowercase().as_str(), "true" | "on" | "1"),
            "delimiter" => self.delimiter = byte()?,
            "quote" => {
                self.quote = byte()?;
                self.escape = self.quote;
            }
            "escape" => self.escape = byte()?,
            "null" | "null_value" => self.null = value.to_owned(),
            _ => {
                return Err(SqlError::unsupported(format!("option {name} is not supported"))
                    .hint("options are FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE and NULL"));
            }
        }
        Ok(())
    }
}
