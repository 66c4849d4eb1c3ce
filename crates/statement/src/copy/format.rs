//! The formats of COPY, and their options.

use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption};

use super::csv::CsvOptions;
use super::lines::LineOptions;
use super::records::RecordFormat;
use crate::name_of;
use saki_catalog::{Result, SqlError};

/// How rows of COPY are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyKind {
    Text,
    Csv,
    Binary,
}

/// The options of a COPY of texts, or over the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyFormat {
    pub kind: CopyKind,
    pub header: bool,
    pub delimiter: u8,
    pub quote: u8,
    pub escape: u8,
    /// What NULL looks like.
    pub null: String,
    /// FREEZE. Rows are stored as ever; but as in PostgreSQL it is only for tables that nobody else has seen.
    pub freeze: bool,
}

impl CopyFormat {
    /// The format of texts that it is; `None` of the binary one.
    pub fn records(&self) -> Option<RecordFormat> {
        let Self { kind, header, delimiter, quote, escape, ref null, .. } = *self;
        let null = null.clone();
        match kind {
            CopyKind::Text => Some(RecordFormat::Lines(LineOptions { header, delimiter, null })),
            CopyKind::Csv => Some(RecordFormat::Csv(CsvOptions { header, delimiter, quote, escape, null })),
            CopyKind::Binary => None,
        }
    }
}

/// What was said of a format; what was not said depends on its kind.
#[derive(Default)]
struct Said {
    kind: Option<CopyKind>,
    header: bool,
    delimiter: Option<char>,
    quote: Option<char>,
    escape: Option<char>,
    null: Option<String>,
    freeze: bool,
}

impl CopyFormat {
    /// `kind`: which it is where no option says so.
    ///
    /// # Errors
    /// 0A000 for options that have no effect here or in this format, 22023 for values that they do not take.
    pub fn read(options: &[CopyOption], legacy: &[CopyLegacyOption], kind: CopyKind) -> Result<Self> {
        let mut said = Said::default();
        for option in options {
            match option {
                CopyOption::Format(name) => said.kind = Some(kind_named(&name_of(name))?),
                CopyOption::Header(header) => said.header = *header,
                CopyOption::Delimiter(c) => said.delimiter = Some(*c),
                CopyOption::Quote(c) => said.quote = Some(*c),
                CopyOption::Escape(c) => said.escape = Some(*c),
                CopyOption::Null(text) => said.null = Some(text.clone()),
                CopyOption::Freeze(freeze) => said.freeze = *freeze,
                CopyOption::Encoding(name) if matches!(&*name.to_lowercase(), "utf8" | "utf-8" | "unicode") => {}
                other => return Err(refused(other)),
            }
        }
        for option in legacy {
            match option {
                CopyLegacyOption::Binary => said.kind = Some(CopyKind::Binary),
                CopyLegacyOption::Header => said.header = true,
                CopyLegacyOption::Delimiter(c) => said.delimiter = Some(*c),
                CopyLegacyOption::Null(text) => said.null = Some(text.clone()),
                CopyLegacyOption::Csv(parts) => {
                    said.kind = Some(CopyKind::Csv);
                    for part in parts {
                        match part {
                            CopyLegacyCsvOption::Header => said.header = true,
                            CopyLegacyCsvOption::Quote(c) => said.quote = Some(*c),
                            CopyLegacyCsvOption::Escape(c) => said.escape = Some(*c),
                            other => return Err(refused(other)),
                        }
                    }
                }
                other => return Err(refused(other)),
            }
        }
        said.complete(kind)
    }
}

impl Said {
    fn complete(self, otherwise: CopyKind) -> Result<CopyFormat> {
        let kind = self.kind.unwrap_or(otherwise);
        let csv = kind == CopyKind::Csv;
        if !csv && (self.quote.is_some() || self.escape.is_some()) {
            let option = if self.quote.is_some() { "quote" } else { "escape" };
            return Err(SqlError::unsupported(format!("COPY {option} available only in CSV mode")));
        }
        let quote = byte("QUOTE", self.quote.unwrap_or('"'))?;
        let format = CopyFormat {
            kind,
            header: self.header,
            delimiter: byte("DELIMITER", self.delimiter.unwrap_or(if csv { ',' } else { '\t' }))?,
            quote,
            escape: self.escape.map_or(Ok(quote), |c| byte("ESCAPE", c))?,
            null: self.null.unwrap_or_else(|| if csv { String::new() } else { "\\N".into() }),
            freeze: self.freeze,
        };
        let cuts_lines = |byte: u8| matches!(byte, b'\n' | b'\r');
        if cuts_lines(format.delimiter) || format.null.bytes().any(cuts_lines) {
            return Err(SqlError::invalid("COPY delimiter and null cannot contain line ends").code("22023"));
        }
        if csv && format.quote == format.delimiter {
            return Err(SqlError::invalid("COPY delimiter and quote must be different").code("22023"));
        }
        let letter = format.delimiter.is_ascii_lowercase() || format.delimiter.is_ascii_digit();
        if kind == CopyKind::Text && (letter || matches!(format.delimiter, b'\\' | b'.')) {
            return Err(
                SqlError::invalid("COPY delimiter cannot be a lower-case letter, a digit, \\ or a point").code("22023")
            );
        }
        Ok(format)
    }
}

fn kind_named(name: &str) -> Result<CopyKind> {
    match name {
        "text" => Ok(CopyKind::Text),
        "csv" => Ok(CopyKind::Csv),
        "binary" => Ok(CopyKind::Binary),
        _ => {
            Err(SqlError::unsupported(format!("COPY format {name:?} is not supported"))
                .hint("text, csv and binary are"))
        }
    }
}

fn byte(option: &str, c: char) -> Result<u8> {
    let invalid = || SqlError::invalid(format!("COPY option {option}: {c:?} is not one ASCII character")).code("22023");
    u8::try_from(c).ok().filter(u8::is_ascii).ok_or_else(invalid)
}

fn refused(option: &dyn std::fmt::Display) -> SqlError {
    SqlError::unsupported(format!("COPY option {option} is not supported"))
}
