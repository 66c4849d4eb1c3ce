//! Records as bytes.

use std::io::{self, Write};

use super::LineOptions;

/// Writes records, field by field.
pub struct LineWriter {
    options: LineOptions,
    /// The record has a field already.
    within_record: bool,
}

impl LineWriter {
    pub fn new(options: LineOptions) -> Self {
        Self { options, within_record: false }
    }

    /// Writes the next field of the record; `None` is NULL.
    pub fn field(&mut self, value: Option<&[u8]>, out: &mut impl Write) -> io::Result<()> {
        if std::mem::replace(&mut self.within_record, true) {
            out.write_all(&[self.options.delimiter])?;
        }
        match value {
            None => out.write_all(self.options.null.as_bytes()),
            Some(value) => self.escaped(value, out),
        }
    }

    /// Ends the record.
    pub fn end_record(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.within_record = false;
        out.write_all(b"\n")
    }

    fn escaped(&self, value: &[u8], out: &mut impl Write) -> io::Result<()> {
        let mut plain = 0;
        for (at, byte) in value.iter().enumerate() {
            let letter = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                other if *other == self.options.delimiter => *other,
                _ => continue,
            };
            out.write_all(&value[plain..at])?;
            out.write_all(&[b'\\', letter])?;
            plain = at + 1;
        }
        out.write_all(&value[plain..])
    }
}
