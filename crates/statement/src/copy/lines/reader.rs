//! Lines out of bytes that come in pieces, cut anywhere.

use std::iter::Peekable;

use super::LineOptions;
use crate::copy::csv::{CsvError, CsvFault, LINE_BYTES_MAX};

/// What alone on a line ends the data.
const END_MARK: &[u8] = b"\\.";

/// Reads records.
pub struct LineReader {
    options: LineOptions,
    /// The header is to be left out still.
    skips_header: bool,
    /// The record's line, as far as it has come.
    line: Vec<u8>,
    is_complete: bool,
    has_ended: bool,
    /// Lines that have ended.
    lines: u64,
    /// Line on which the present record begins.
    record_line: u64,
    /// What the record's fields mean.
    text: Vec<u8>,
    /// Their ends in it, and whether each is NULL.
    fields: Vec<(usize, bool)>,
}

impl LineReader {
    pub fn new(options: LineOptions) -> Self {
        Self {
            skips_header: options.header,
            options,
            line: Vec::new(),
            is_complete: false,
            has_ended: false,
            lines: 0,
            record_line: 1,
            text: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Bytes of the record that is being read.
    pub fn pending_bytes(&self) -> usize {
        self.line.len()
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
        let start = if index == 0 { 0 } else { self.fields[index - 1].0 };
        let (end, is_null) = self.fields[index];
        if is_null {
            return Ok(None);
        }
        match std::str::from_utf8(&self.text[start..end]) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(CsvError { line: self.record_line, fault: CsvFault::NotUtf8 { field: index + 1 } }),
        }
    }

    /// Reads on, and takes from `input` what was read; whether a record is complete. If none is, all of `input` was
    /// read, and the record goes on with the next piece.
    ///
    /// # Errors
    /// If the record is too long.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<bool, CsvError> {
        while !input.is_empty() {
            if self.has_ended {
                *input = &[];
                break;
            }
            if std::mem::take(&mut self.is_complete) || self.line.is_empty() {
                self.line.clear();
                self.record_line = self.lines + 1;
            }
            let end = input.iter().position(|byte| *byte == b'\n');
            let (piece, rest) = input.split_at(end.unwrap_or(input.len()));
            *input = rest.get(1..).unwrap_or_default();
            if self.line.len() + piece.len() > LINE_BYTES_MAX {
                return Err(CsvError { line: self.record_line, fault: CsvFault::LineTooLong });
            }
            self.line.extend_from_slice(piece);
            if end.is_none() {
                break;
            }
            self.lines += 1;
            // A line end behind an odd number of backslashes is part of a value.
            if self.line.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1 && self.line != END_MARK {
                self.line.push(b'\n');
                continue;
            }
            if self.end_record() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// There is no more; whether what is left is a record.
    pub fn finish(&mut self) -> bool {
        let is_left = !self.is_complete && !self.line.is_empty() && !self.has_ended;
        is_left && self.end_record()
    }

    /// Whether the record is one to be shown.
    fn end_record(&mut self) -> bool {
        self.is_complete = true;
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if self.line == END_MARK {
            self.has_ended = true;
            return false;
        }
        if std::mem::take(&mut self.skips_header) {
            return false;
        }
        self.cut();
        true
    }

    /// Cuts the line into fields.
    fn cut(&mut self) {
        self.text.clear();
        self.fields.clear();
        let mut rest = self.line.as_slice();
        loop {
            let end = field_end(rest, self.options.delimiter);
            let (field, after) = rest.split_at(end.unwrap_or(rest.len()));
            let is_null = field == self.options.null.as_bytes();
            if !is_null {
                unescape(field, &mut self.text);
            }
            self.fields.push((self.text.len(), is_null));
            if end.is_none() {
                return;
            }
            rest = after.get(1..).unwrap_or_default();
        }
    }
}

/// Where the first delimiter that no backslash is before stands.
fn field_end(line: &[u8], delimiter: u8) -> Option<usize> {
    let mut escaped = false;
    line.iter().position(|byte| {
        let ends = !escaped && *byte == delimiter;
        escaped = !escaped && *byte == b'\\';
        ends
    })
}

/// The number that up to `count` digits spell; `None` if there is none.
fn number(bytes: &mut Peekable<impl Iterator<Item = u8>>, radix: u32, count: usize) -> Option<u32> {
    let mut number = None;
    for _ in 0..count {
        let Some(digit) = bytes.peek().and_then(|byte| char::from(*byte).to_digit(radix)) else { break };
        bytes.next();
        number = Some(number.unwrap_or(0) * radix + digit);
    }
    number
}

/// Appends what a field with backslashes means.
fn unescape(field: &[u8], out: &mut Vec<u8>) {
    let mut bytes = field.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.peek().copied() {
            None => out.push(b'\\'),
            Some(b'0'..=b'7') => out.extend(number(&mut bytes, 8, 3).map(|number| number as u8)),
            Some(letter) => {
                bytes.next();
                match letter {
                    b'b' => out.push(8),
                    b'f' => out.push(12),
                    b'n' => out.push(b'\n'),
                    b'r' => out.push(b'\r'),
                    b't' => out.push(b'\t'),
                    b'v' => out.push(11),
                    b'x' => out.push(number(&mut bytes, 16, 2).map_or(b'x', |number| number as u8)),
                    other => out.push(other),
                }
            }
        }
    }
}
