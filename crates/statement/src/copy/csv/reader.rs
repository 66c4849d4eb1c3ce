//! Records out of bytes that come in pieces, cut anywhere.

use std::fmt;

use super::CsvOptions;

/// Bytes of one record at most: an unclosed quote should not swallow all that follows.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Bytes of a line of the text format at most: PostgreSQL's bound of a value.
pub const LINE_BYTES_MAX: usize = 1 << 30;

/// What alone on a line ends the data, where the reader was told so.
const END_MARK: &[u8] = b"\\.";

/// Bytes that are no CSV, and the line on which their record begins, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CsvError {
    pub line: u64,
    pub fault: CsvFault,
}

/// What is wrong with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CsvFault {
    UnterminatedQuote,
    /// More than `RECORD_BYTES_MAX` bytes.
    TooLong,
    /// A line of the text format with more bytes than a value can have.
    LineTooLong,
    /// A field, from 1, is not text.
    NotUtf8 {
        field: usize,
    },
}

impl fmt::Display for CsvFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnterminatedQuote => write!(f, "unterminated CSV quoted field"),
            Self::LineTooLong => write!(f, "a line of more than {} MiB", LINE_BYTES_MAX >> 20),
            Self::TooLong => write!(f, "a record of more than {} MiB: is a quote missing?", RECORD_BYTES_MAX >> 20),
            Self::NotUtf8 { field } => write!(f, "field {field} is not UTF-8"),
        }
    }
}

impl fmt::Display for CsvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.fault)
    }
}

/// Where in a record the next byte is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// A record is complete, or none has begun.
    Between,
    Plain,
    /// Behind a carriage return, which may belong to a line end.
    CarriageReturn,
    Quoted,
    /// Within quotes, behind this byte: it closes them, or escapes the next.
    Escape(u8),
    /// Behind the end mark: nothing is heard any more.
    Ended,
}

/// A field of the present record.
#[derive(Clone, Copy)]
struct Field {
    /// Its end in the record's text.
    end: usize,
    quoted: bool,
}

/// Reads records.
pub struct CsvReader {
    options: CsvOptions,
    has_end_mark: bool,
    /// The header is to be left out still.
    skips_header: bool,
    state: State,
    /// Lines that have ended.
    lines: u64,
    /// Line on which the present record begins.
    record_line: u64,
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Part of the field that is being read was in quotes.
    quoted: bool,
}

impl CsvReader {
    /// Bytes of the record that is being read.
    pub fn pending_bytes(&self) -> usize {
        self.text.len()
    }

    pub fn new(options: CsvOptions) -> Self {
        Self {
            skips_header: options.header,
            options,
            has_end_mark: false,
            state: State::Between,
            lines: 0,
            record_line: 1,
            text: Vec::new(),
            fields: Vec::new(),
            quoted: false,
        }
    }

    /// A line `\.` ends the data, as clients may send it.
    #[must_use]
    pub fn with_end_mark(mut self) -> Self {
        self.has_end_mark = true;
        self
    }

    /// Line on which the present record begins, from 1.
    pub fn record_line(&self) -> u64 {
        self.record_line
    }

    /// Fields of the present record.
    pub fn fields(&self) -> usize {
        self.fields.len()
    }

    /// A field of the present record, from 0; `None` if it is NULL.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub fn field(&self, index: usize) -> Result<Option<&str>, CsvError> {
        let start = if index == 0 { 0 } else { self.fields[index - 1].end };
        let Field { end, quoted } = self.fields[index];
        let bytes = &self.text[start..end];
        if !quoted && bytes == self.options.null.as_bytes() {
            return Ok(None);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(self.fault(CsvFault::NotUtf8 { field: index + 1 })),
        }
    }

    /// Reads on, and takes from `input` what was read; whether a record is complete. If none is, all of `input` was
    /// read, and the record goes on with the next piece.
    ///
    /// # Errors
    /// If the record is too long.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<bool, CsvError> {
        while !input.is_empty() {
            match self.state {
                State::Between => self.begin(),
                State::Plain => {
                    if self.plain(input)? {
                        return Ok(true);
                    }
                }
                State::CarriageReturn => {
                    if input.first() != Some(&b'\n') {
                        self.text.push(b'\r');
                    }
                    self.state = State::Plain;
                }
                State::Quoted => self.within_quotes(input)?,
                State::Escape(escape) => self.behind_escape(escape, input),
                State::Ended => *input = &[],
            }
        }
        Ok(false)
    }

    /// There is no more; whether what is left is a record.
    ///
    /// # Errors
    /// If it is not complete.
    pub fn finish(&mut self) -> Result<bool, CsvError> {
        match self.state {
            State::Between | State::Ended => return Ok(false),
            State::Plain | State::CarriageReturn => {}
            State::Escape(byte) if byte == self.options.quote => {}
            State::Quoted | State::Escape(_) => return Err(self.fault(CsvFault::UnterminatedQuote)),
        }
        Ok(self.end_record())
    }

    fn begin(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.quoted = false;
        self.record_line = self.lines + 1;
        self.state = State::Plain;
    }

    /// Reads a run of plain bytes, and the byte that ends it; whether that ended a record.
    fn plain(&mut self, input: &mut &[u8]) -> Result<bool, CsvError> {
        let CsvOptions { delimiter, quote, .. } = self.options;
        let ends = |byte: u8| byte == delimiter || byte == quote || byte == b'\n' || byte == b'\r';
        match self.run(input, ends)? {
            Some(byte) if byte == delimiter => self.end_field(),
            Some(byte) if byte == quote => (self.state, self.quoted) = (State::Quoted, true),
            Some(b'\r') => self.state = State::CarriageReturn,
            Some(_) => {
                self.lines += 1;
                return Ok(self.end_record());
            }
            None => {}
        }
        Ok(false)
    }

    fn within_quotes(&mut self, input: &mut &[u8]) -> Result<(), CsvError> {
        let CsvOptions { quote, escape, .. } = self.options;
        match self.run(input, |byte| byte == quote || byte == escape || byte == b'\n')? {
            Some(b'\n') => {
                self.lines += 1;
                self.text.push(b'\n');
            }
            Some(byte) => self.state = State::Escape(byte),
            None => {}
        }
        Ok(())
    }

    fn behind_escape(&mut self, behind: u8, input: &mut &[u8]) {
        let CsvOptions { quote, escape, .. } = self.options;
        match input.split_first() {
            Some((byte, rest)) if behind == escape && (*byte == quote || *byte == escape) => {
                self.text.push(*byte);
                *input = rest;
                self.state = State::Quoted;
            }
            _ if behind == quote => self.state = State::Plain,
            _ => {
                // An escape before anything else is itself.
                self.text.push(behind);
                self.state = State::Quoted;
            }
        }
    }

    /// Takes bytes up to one that `ends` them, which is taken as well and returned.
    fn run(&mut self, input: &mut &[u8], ends: impl Fn(u8) -> bool) -> Result<Option<u8>, CsvError> {
        let length = input.iter().position(|byte| ends(*byte)).unwrap_or(input.len());
        let (run, rest) = input.split_at(length);
        if self.text.len() + run.len() > RECORD_BYTES_MAX {
            return Err(self.fault(CsvFault::TooLong));
        }
        self.text.extend_from_slice(run);
        let (end, rest) = rest.split_first().map_or((None, rest), |(end, rest)| (Some(*end), rest));
        *input = rest;
        Ok(end)
    }

    fn end_field(&mut self) {
        self.fields.push(Field { end: self.text.len(), quoted: std::mem::take(&mut self.quoted) });
    }

    /// Whether the record is one to be shown.
    fn end_record(&mut self) -> bool {
        let is_end_mark =
            self.has_end_mark && self.fields.is_empty() && !self.quoted && self.text.as_slice() == END_MARK;
        self.state = if is_end_mark { State::Ended } else { State::Between };
        self.end_field();
        !is_end_mark && !std::mem::take(&mut self.skips_header)
    }

    fn fault(&self, fault: CsvFault) -> CsvError {
        CsvError { line: self.record_line, fault }
    }
}
