//! `format`: `%[position$][-][width]` and what is to be written, `s` text, `I` a name, `L` a literal; `%%` is `%`.

use std::iter::Peekable;
use std::str::Chars;

use datafusion::common::{Result, ScalarValue};
use saki_catalog::SqlError;

use super::super::describe::{quote_ident, quote_literal};
use super::super::system::SystemCatalog;
use super::function::{Arguments, text};

/// Letters that a value is filled up to at most.
const WIDTH_MAX: usize = 1 << 20;

/// # Errors
/// 22023 for a pattern that is none, and for an argument that is not there; 22004 for NULL as a name.
pub fn format(_: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let Some(pattern) = args.text(0) else { return Ok(text(None)) };
    let (mut out, mut next, mut letters) = (String::new(), 1, pattern.chars().peekable());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
        } else if letters.next_if_eq(&'%').is_some() {
            out.push('%');
        } else {
            let part = Part::read(&mut letters)?;
            let at = part.position.unwrap_or(next);
            next = at + 1;
            if at == 0 || at >= args.len() {
                return Err(refused(if at == 0 {
                    "format specifies argument 0, but arguments are numbered from 1"
                } else {
                    "too few arguments for format()"
                }));
            }
            part.write(args.get(at), &mut out)?;
        }
    }
    Ok(text(Some(out)))
}

/// What stands behind a `%`.
struct Part {
    /// Of the argument; `None`: the one behind the last.
    position: Option<usize>,
    left: bool,
    width: usize,
    kind: char,
}

impl Part {
    fn read(letters: &mut Peekable<Chars<'_>>) -> Result<Self> {
        let mut position = None;
        let mut left = letters.next_if_eq(&'-').is_some();
        let mut width = number(letters)?;
        if !left && letters.next_if_eq(&'$').is_some() {
            position = Some(width);
            left = letters.next_if_eq(&'-').is_some();
            width = number(letters)?;
        }
        match letters.next() {
            Some(kind @ ('s' | 'I' | 'L')) => Ok(Self { position, left, width, kind }),
            Some(other) => Err(refused(&format!("unrecognized format() type specifier {:?}", other.to_string()))),
            None => Err(refused("unterminated format() type specifier")),
        }
    }

    fn write(&self, value: &ScalarValue, out: &mut String) -> Result<()> {
        let plain = if value.is_null() { String::new() } else { value.to_string() };
        let shown = match self.kind {
            'I' if value.is_null() => {
                let error = SqlError::data("null values cannot be formatted as an SQL identifier");
                return Err(error.code("22004").into());
            }
            'I' => quote_ident(&plain),
            'L' if value.is_null() => "NULL".to_owned(),
            'L' => quote_literal(&plain),
            _ => plain,
        };
        // Formats of the language itself have no widths beyond 65 535.
        let blanks = " ".repeat(self.width.saturating_sub(shown.chars().count()));
        let (first, second) = if self.left { (shown, blanks) } else { (blanks, shown) };
        out.push_str(&first);
        out.push_str(&second);
        Ok(())
    }
}

/// Digits as a number; 0 for none.
fn number(letters: &mut Peekable<Chars<'_>>) -> Result<usize> {
    let mut number = 0_usize;
    while let Some(digit) = letters.next_if(char::is_ascii_digit) {
        number = number * 10 + digit as usize - '0' as usize;
        if number > WIDTH_MAX {
            return Err(refused("number is out of range"));
        }
    }
    Ok(number)
}

fn refused(message: &str) -> datafusion::common::DataFusionError {
    SqlError::data(message).code("22023").into()
}
