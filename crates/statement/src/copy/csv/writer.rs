//! Records as bytes.

use std::io::{self, Write};

use super::CsvOptions;

/// Writes records, field by field.
pub struct CsvWriter {
    options: CsvOptions,
    /// The record has a field already.
    within_record: bool,
}

impl CsvWriter {
    pub fn new(options: CsvOptions) -> Self {
        Self { options, within_record: false }
    }

    /// Writes the next field of the record; `None` is NULL.
    pub fn field(&mut self, value: Option<&[u8]>, out: &mut impl Write) -> io::Result<()> {
        if std::mem::replace(&mut self.within_record, true) {
            out.write_all(&[self.options.delimiter])?;
        }
        match value {
            None => out.write_all(self.options.null.as_bytes()),
            Some(value) if self.needs_quotes(value) => self.quoted(value, out),
            Some(value) => out.write_all(value),
        }
    }

    /// Ends the record.
    pub fn end_record(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.within_record = false;
        out.write_all(b"\n")
    }

    /// Writes a record of names.
    pub fn header<'n>(&mut self, names: impl Iterator<Item = &'n str>, out: &mut impl Write) -> io::Result<()> {
        for name in names {
            self.field(Some(name.as_bytes()), out)?;
        }
        self.end_record(out)
    }

    /// What looks like NULL, or ends the data, is no such thing in quotes.
    fn needs_quotes(&self, value: &[u8]) -> bool {
        let CsvOptions { delimiter, quote, escape, ref null, .. } = self.options;
        let is_special = |byte: &u8| [delimiter, quote, escape, b'\n', b'\r'].contains(byte);
        value == null.as_bytes() || value == b"\\." || value.iter().any(is_special)
    }

    fn quoted(&self, value: &[u8], out: &mut impl Write) -> io::Result<()> {
        let CsvOptions { quote, escape, .. } = self.options;
        out.write_all(&[quote])?;
        let mut rest = value;
        while let Some(at) = rest.iter().position(|byte| *byte == quote || *byte == escape) {
            out.write_all(&rest[..at])?;
            out.write_all(&[escape, rest[at]])?;
            rest = &rest[at + 1..];
        }
        out.write_all(rest)?;
        out.write_all(&[quote])
    }
}
