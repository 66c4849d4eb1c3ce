//! Records of either text format, for those who do not care which.

use std::io::{self, Write};

use super::csv::{CsvError, CsvOptions, CsvReader, CsvWriter};
use super::lines::{LineOptions, LineReader, LineWriter};

/// A text format, and how it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordFormat {
    Csv(CsvOptions),
    Lines(LineOptions),
}

impl RecordFormat {
    /// Whether the first record has the names of the columns.
    pub fn header(&self) -> bool {
        match self {
            Self::Csv(options) => options.header,
            Self::Lines(options) => options.header,
        }
    }
}

/// Reads records; bytes come in pieces that may be cut anywhere.
pub enum RecordReader {
    Csv(CsvReader),
    Lines(LineReader),
}

impl RecordReader {
    pub fn new(format: RecordFormat) -> Self {
        match format {
            RecordFormat::Csv(options) => Self::Csv(CsvReader::new(options)),
            RecordFormat::Lines(options) => Self::Lines(LineReader::new(options)),
        }
    }

    /// A line `\.` ends the data, as clients may send it; in the text format it always does.
    #[must_use]
    pub fn with_end_mark(self) -> Self {
        match self {
            Self::Csv(reader) => Self::Csv(reader.with_end_mark()),
            lines => lines,
        }
    }

    /// Bytes of the record that is being read.
    pub fn pending_bytes(&self) -> usize {
        match self {
            Self::Csv(reader) => reader.pending_bytes(),
            Self::Lines(reader) => reader.pending_bytes(),
        }
    }

    /// Line on which the present record begins, from 1.
    pub fn record_line(&self) -> u64 {
        match self {
            Self::Csv(reader) => reader.record_line(),
            Self::Lines(reader) => reader.record_line(),
        }
    }

    /// Fields of the present record.
    pub fn fields(&self) -> usize {
        match self {
            Self::Csv(reader) => reader.fields(),
            Self::Lines(reader) => reader.fields(),
        }
    }

    /// A field of the present record, from 0; `None` if it is NULL.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub fn field(&self, index: usize) -> Result<Option<&str>, CsvError> {
        match self {
            Self::Csv(reader) => reader.field(index),
            Self::Lines(reader) => reader.field(index),
        }
    }

    /// Reads on, and takes from `input` what was read; whether a record is complete. If none is, all of `input` was
    /// read, and the record goes on with the next piece.
    ///
    /// # Errors
    /// If the record is too long.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<bool, CsvError> {
        match self {
            Self::Csv(reader) => reader.read(input),
            Self::Lines(reader) => reader.read(input),
        }
    }

    /// There is no more; whether what is left is a record.
    ///
    /// # Errors
    /// If it is not complete.
    pub fn finish(&mut self) -> Result<bool, CsvError> {
        match self {
            Self::Csv(reader) => reader.finish(),
            Self::Lines(reader) => Ok(reader.finish()),
        }
    }
}

/// Writes records, field by field.
pub enum RecordWriter {
    Csv(CsvWriter),
    Lines(LineWriter),
}

impl RecordWriter {
    pub fn new(format: RecordFormat) -> Self {
        match format {
            RecordFormat::Csv(options) => Self::Csv(CsvWriter::new(options)),
            RecordFormat::Lines(options) => Self::Lines(LineWriter::new(options)),
        }
    }

    /// Writes the next field of the record; `None` is NULL.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn field(&mut self, value: Option<&[u8]>, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Csv(writer) => writer.field(value, out),
            Self::Lines(writer) => writer.field(value, out),
        }
    }

    /// Ends the record.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn end_record(&mut self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Csv(writer) => writer.end_record(out),
            Self::Lines(writer) => writer.end_record(out),
        }
    }

    /// Writes a record of names.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn header<'n>(&mut self, names: impl Iterator<Item = &'n str>, out: &mut impl Write) -> io::Result<()> {
        for name in names {
            self.field(Some(name.as_bytes()), out)?;
        }
        self.end_record(out)
    }
}
