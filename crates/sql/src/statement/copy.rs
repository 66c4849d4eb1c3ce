//! COPY table [(columns)] FROM 'file' and COPY {table | (query)} TO 'file', with their options.

use datafusion::sql::sqlparser::ast::{
    self, CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident,
};

use super::{name_of, object_name};
use crate::error::{Position, Result, SqlError};

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFormat {
    Csv,
    Parquet,
}

impl FileFormat {
    pub fn named(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "parquet" => Ok(Self::Parquet),
            _ => Err(SqlError::unsupported(format!("file format {name} is not supported")).hint("csv and parquet are")),
        }
    }

    fn of_path(path: &str) -> Self {
        if path.to_ascii_lowercase().ends_with(".parquet") { Self::Parquet } else { Self::Csv }
    }
}

/// How a CSV file is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvOptions {
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

/// What is copied, in either direction.
pub enum Source {
    Table { name: String, position: Option<Position>, columns: Vec<Ident> },
    Query(Box<ast::Query>),
}

/// A COPY statement.
pub struct Copy {
    pub source: Source,
    pub to: bool,
    pub path: String,
    pub format: FileFormat,
    pub csv: CsvOptions,
}

impl Copy {
    pub fn read(statement: ast::Statement) -> Result<Self> {
        let ast::Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
            return Err(SqlError::internal("not a COPY statement"));
        };
        let source = match source {
            CopySource::Table { table_name, columns } => {
                let (name, position) = object_name(&table_name)?;
                Source::Table { name, position, columns }
            }
            CopySource::Query(query) => Source::Query(query),
        };
        let CopyTarget::File { filename: path } = target else {
            return Err(
                SqlError::unsupported(format!("COPY with {target} is not supported here")).hint("give a file name")
            );
        };
        let mut format = FileFormat::of_path(&path);
        let mut csv = CsvOptions::default();
        let mut escape = None;
        for option in &options {
            match option {
                CopyOption::Format(name) => format = FileFormat::named(&name_of(name))?,
                CopyOption::Header(header) => csv.header = *header,
                CopyOption::Delimiter(c) => csv.set("delimiter", &c.to_string())?,
                CopyOption::Quote(c) => csv.set("quote", &c.to_string())?,
                CopyOption::Escape(c) => escape = Some(*c),
                CopyOption::Null(text) => csv.null.clone_from(text),
                CopyOption::Encoding(name)
                    if name.eq_ignore_ascii_case("utf8") || name.eq_ignore_ascii_case("utf-8") => {}
                other => return Err(SqlError::unsupported(format!("COPY option {other} is not supported"))),
            }
        }
        for option in &legacy_options {
            match option {
                CopyLegacyOption::Csv(parts) => {
                    format = FileFormat::Csv;
                    for part in parts {
                        match part {
                            CopyLegacyCsvOption::Header => csv.header = true,
                            CopyLegacyCsvOption::Quote(c) => csv.set("quote", &c.to_string())?,
                            CopyLegacyCsvOption::Escape(c) => escape = Some(*c),
                            other => {
                                return Err(SqlError::unsupported(format!("COPY option {other} is not supported")));
                            }
                        }
                    }
                }
                CopyLegacyOption::Header => csv.header = true,
                CopyLegacyOption::Parquet => format = FileFormat::Parquet,
                CopyLegacyOption::Delimiter(c) => csv.set("delimiter", &c.to_string())?,
                CopyLegacyOption::Null(text) => csv.null.clone_from(text),
                other => return Err(SqlError::unsupported(format!("COPY option {other} is not supported"))),
            }
        }
        if let Some(c) = escape {
            csv.set("escape", &c.to_string())?;
        }
        Ok(Self { source, to, path, format, csv })
    }
}
