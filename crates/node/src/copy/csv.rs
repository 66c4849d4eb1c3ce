//! The CSV format: fields that quotes may hold together. Source: PostgreSQL's documentation of COPY, "CSV Format".

use arrow_array::RecordBatch;
use saki_sql::{CopyFormat, CopyTarget};

use super::bad;
use super::text::TextRows;
use crate::failure::Result;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    Quoted,
    /// After an escape or a closing quote within quotes: the next byte tells which.
    Escape,
}

/// Reads bytes one after another, so that a chunk may end anywhere.
pub struct CsvReader {
    rows: TextRows,
    format: CopyFormat,
    header: bool,
    state: State,
    /// The byte that led to [`State::Escape`].
    escape: u8,
    value: Vec<u8>,
    was_quoted: bool,
    /// A carriage return that may belong to the line end.
    carriage_return: bool,
    ended: bool,
}

impl CsvReader {
    pub fn new(target: &CopyTarget, format: &CopyFormat) -> Self {
        Self {
            rows: TextRows::new(target),
            format: format.clone(),
            header: format.header,
            state: State::Plain,
            escape: 0,
            value: Vec::new(),
            was_quoted: false,
            carriage_return: false,
            ended: false,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<RecordBatch>> {
        for byte in bytes {
            self.byte(*byte)?;
        }
        // Between two rows only.
        if self.rows.is_enough() && self.rows.fields() == 0 { self.rows.take() } else { Ok(None) }
    }

    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        match self.state {
            State::Quoted => return Err(bad(format!("line {}: unterminated CSV quoted field", self.rows.line))),
            State::Escape => {
                self.leave_escape(None)?;
            }
            State::Plain => {}
        }
        if self.rows.fields() > 0 || !self.value.is_empty() || self.was_quoted {
            self.line_end()?;
        }
        self.rows.take()
    }

    fn byte(&mut self, byte: u8) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        if self.state == State::Escape && self.leave_escape(Some(byte))? {
            return Ok(());
        }
        let CopyFormat { delimiter, quote, escape, .. } = self.format;
        if self.state == State::Quoted {
            if byte == quote || byte == escape {
                (self.state, self.escape) = (State::Escape, byte);
            } else {
                self.value.push(byte);
            }
            return Ok(());
        }
        if std::mem::take(&mut self.carriage_return) && byte != b'\n' {
            self.value.push(b'\r');
        }
        match byte {
            b'\n' => self.line_end(),
            b'\r' => {
                self.carriage_return = true;
                Ok(())
            }
            _ if byte == delimiter => self.field_end(),
            _ if byte == quote => {
                (self.state, self.was_quoted) = (State::Quoted, true);
                Ok(())
            }
            _ => {
                self.value.push(byte);
                Ok(())
            }
        }
    }

    /// Whether `byte` was used up.
    fn leave_escape(&mut self, byte: Option<u8>) -> Result<bool> {
        let CopyFormat { quote, escape, .. } = self.format;
        let escapes = |byte: &u8| self.escape == escape && (*byte == quote || *byte == escape);
        if let Some(byte) = byte.filter(escapes) {
            self.value.push(byte);
            self.state = State::Quoted;
            return Ok(true);
        }
        if self.escape == quote {
            self.state = State::Plain;
            return Ok(false);
        }
        // An escape before anything else is itself.
        self.value.push(self.escape);
        self.state = State::Quoted;
        Ok(false)
    }

    fn field_end(&mut self) -> Result<()> {
        if !self.header {
            let null = !self.was_quoted && self.value == self.format.null.as_bytes();
            self.rows.field((!null).then_some(&self.value))?;
        }
        self.value.clear();
        self.was_quoted = false;
        Ok(())
    }

    fn line_end(&mut self) -> Result<()> {
        let end_mark = self.rows.fields() == 0 && !self.was_quoted && self.value == b"\\.";
        if end_mark {
            self.ended = true;
            self.value.clear();
            return Ok(());
        }
        self.field_end()?;
        if std::mem::take(&mut self.header) {
            self.rows.line += 1;
            return Ok(());
        }
        self.rows.row()
    }
}
