//! CSV as PostgreSQL reads and writes it: an unquoted empty field is NULL, a quoted one is empty text.

use std::io::{BufRead, Write};

use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_array::RecordBatch;

use crate::error::{Result, SqlError};
use crate::statement::copy::CsvOptions;

/// Bytes of one record at most: an unclosed quote should not swallow a file.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Reads records.
pub struct CsvReader<R> {
    input: R,
    options: CsvOptions,
    path: String,
    /// Lines read so far.
    line: u64,
    /// Line on which the record begins.
    record_line: u64,
    buffer: Vec<u8>,
    text: Vec<u8>,
    /// End of each field in `text`, and whether it was quoted.
    fields: Vec<(usize, bool)>,
}

impl<R: BufRead> CsvReader<R> {
    pub fn new(input: R, options: CsvOptions, path: &str) -> Self {
        Self {
            input,
            options,
            path: path.to_owned(),
            line: 0,
            record_line: 0,
            buffer: Vec::new(),
            text: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Line on which the present record begins, from 1.
    pub fn record_line(&self) -> u64 {
        self.record_line
    }

    pub fn fields(&self) -> usize {
        self.fields.len()
    }

    /// A field of the present record; `None` if it is NULL.
    pub fn field(&self, index: usize) -> Result<Option<&str>> {
        let start = if index == 0 { 0 } else { self.fields[index - 1].0 };
        let (end, quoted) = self.fields[index];
        let bytes = &self.text[start..end];
        if !quoted && bytes == self.options.null.as_bytes() {
            return Ok(None);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(self.fault(&format!("field {} is not UTF-8", index + 1))),
        }
    }

    fn fault(&self, what: &str) -> SqlError {
        SqlError::data(format!("{}, line {}: {what}", self.path, self.record_line))
    }

    /// Reads the next record; `false` at the end.
    pub fn next_record(&mut self) -> Result<bool> {
        self.text.clear();
        self.fields.clear();
        self.record_line = self.line + 1;
        if !self.next_line()? {
            return Ok(false);
        }
        let CsvOptions { delimiter, quote, escape, .. } = self.options;
        let mut at = 0;
        loop {
            // At the beginning of a field.
            let mut quoted = false;
            let mut inside = false;
            loop {
                let Some(byte) = self.buffer.get(at).copied() else {
                    if !inside {
                        break;
                    }
                    if self.text.len() > RECORD_BYTES_MAX || !self.next_line_within()? {
                        return Err(self.fault("a quoted field does not end"));
                    }
                    at = 0;
                    continue;
                };
                if inside {
                    let next = self.buffer.get(at + 1).copied();
                    if byte == escape
                        && next.is_some_and(|next| next == quote || next == escape)
                        && (escape != quote || next == Some(quote))
                    {
                        self.text.push(self.buffer[at + 1]);
                        at += 2;
                    } else if byte == quote {
                        inside = false;
                        at += 1;
                    } else {
                        self.text.push(byte);
                        at += 1;
                    }
                } else if byte == quote && !quoted && self.text.len() == self.fields.last().map_or(0, |field| field.0) {
                    (quoted, inside) = (true, true);
                    at += 1;
                } else if byte == delimiter || (byte == b'\n' && at + 1 == self.buffer.len()) {
                    break;
                } else if byte == b'\r' && self.buffer[at + 1..] == *b"\n" {
                    at += 1;
                } else {
                    self.text.push(byte);
                    at += 1;
                }
            }
            self.fields.push((self.text.len(), quoted));
            match self.buffer.get(at) {
                Some(byte) if *byte == delimiter => at += 1,
                _ => return Ok(true),
            }
        }
    }

    fn next_line(&mut self) -> Result<bool> {
        self.buffer.clear();
        self.next_line_within()
    }

    /// Reads on within a quoted field.
    fn next_line_within(&mut self) -> Result<bool> {
        self.buffer.clear();
        let read = self.input.read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|error| SqlError::storage(format!("{}: {error}", self.path)))?;
        self.line += 1;
        Ok(read > 0)
    }
}

/// Writes batches.
pub struct CsvWriter<W> {
    output: W,
    options: CsvOptions,
}

impl<W: Write> CsvWriter<W> {
    pub fn new(output: W, options: CsvOptions) -> Self {
        Self { output, options }
    }

    pub fn header<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> std::io::Result<()> {
        for (position, name) in names.enumerate() {
            if position > 0 {
                self.output.write_all(&[self.options.delimiter])?;
            }
            self.field(name)?;
        }
        self.output.write_all(b"\n")
    }

    pub fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let format = FormatOptions::default();
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &format))
            .collect::<Result<Vec<_>, _>>()?;
        let written = |error: std::io::Error| SqlError::storage(error.to_string());
        for row in 0..batch.num_rows() {
            for (position, column) in columns.iter().enumerate() {
                if position > 0 {
                    self.output.write_all(&[self.options.delimiter]).map_err(written)?;
                }
                if batch.column(position).is_null(row) {
                    self.output.write_all(self.options.null.as_bytes()).map_err(written)?;
                } else {
                    self.field(&column.value(row).to_string()).map_err(written)?;
                }
            }
            self.output.write_all(b"\n").map_err(written)?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> std::io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    fn field(&mut self, text: &str) -> std::io::Result<()> {
        let CsvOptions { delimiter, quote, escape, ref null, .. } = self.options;
        let special = |byte: u8| byte == delimiter || byte == quote || byte == b'\n' || byte == b'\r';
        if text != null && !text.bytes().any(special) {
            return self.output.write_all(text.as_bytes());
        }
        self.output.write_all(&[quote])?;
        for byte in text.bytes() {
            if byte == quote || byte == escape {
                self.output.write_all(&[escape])?;
            }
            self.output.write_all(&[byte])?;
        }
        self.output.write_all(&[quote])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Vec<Vec<Option<String>>> {
        let mut reader = CsvReader::new(text.as_bytes(), CsvOptions::default(), "test");
        let mut records = Vec::new();
        while reader.next_record().unwrap() {
            records.push((0..reader.fields()).map(|i| reader.field(i).unwrap().map(str::to_owned)).collect());
        }
        records
    }

    #[test]
    fn quoted_and_unquoted_emptiness_differ() {
        assert_eq!(records("a,,\"\"\r\n"), [[Some("a".into()), None, Some(String::new())]]);
    }

    #[test]
    fn quotes_hold_delimiters_line_ends_and_doubled_quotes() {
        assert_eq!(
            records("\"x,\ny\"\"z\",2\n3,4"),
            [[Some("x,\ny\"z".to_owned()), Some("2".into())], [Some("3".into()), Some("4".into())]]
        );
    }

    #[test]
    fn an_unclosed_quote_is_an_error_with_its_line() {
        let mut reader = CsvReader::new("1\n\"x".as_bytes(), CsvOptions::default(), "test");
        assert!(reader.next_record().unwrap());
        let error = reader.next_record().unwrap_err();
        assert!(error.message.contains("line 2"), "{error}");
    }
}
