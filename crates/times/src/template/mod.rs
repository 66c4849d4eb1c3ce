//! `to_date` and `to_timestamp` of a text by a template: the patterns of `to_char`, read.

mod said;
#[cfg(test)]
mod tests;

use arrow_schema::DataType;
use datafusion::common::Result;
use saki_base::civil::MICROS_PER_DAY;
use saki_catalog::SqlError;
use saki_parameters::{SessionTime, TimeZone};

use self::said::{Said, strip};
use crate::datum::Datum;
use crate::datum::rounded;
use crate::function::{TimeFunction, no_function};

/// Patterns, each before those that are its beginning, and how many digits they have.
const PATTERNS: [(&str, usize); 53] = [
    ("HH24", 2),
    ("HH12", 2),
    ("HH", 2),
    ("MI", 2),
    ("SSSSS", 5),
    ("SSSS", 5),
    ("SS", 2),
    ("MS", 3),
    ("US", 6),
    ("FF1", 1),
    ("FF2", 2),
    ("FF3", 3),
    ("FF4", 4),
    ("FF5", 5),
    ("FF6", 6),
    ("Y,YYY", 5),
    ("YYYY", 4),
    ("YYY", 3),
    ("YY", 2),
    ("IYYY", 4),
    ("IYY", 3),
    ("IY", 2),
    ("IDDD", 3),
    ("ID", 1),
    ("IW", 2),
    ("I", 1),
    ("MONTH", 0),
    ("MON", 0),
    ("MM", 2),
    ("RM", 0),
    ("WW", 2),
    ("W", 1),
    ("Q", 1),
    ("CC", 2),
    ("DAY", 0),
    ("DY", 0),
    ("DDD", 3),
    ("DD", 2),
    ("D", 1),
    ("Y", 1),
    ("J", 7),
    ("A.M.", 0),
    ("P.M.", 0),
    ("AM", 0),
    ("PM", 0),
    ("A.D.", 0),
    ("B.C.", 0),
    ("AD", 0),
    ("BC", 0),
    ("TZH", 3),
    ("TZM", 2),
    ("TZ", 0),
    ("OF", 0),
];

/// `to_date(text, template)`.
pub const TO_DATE: TimeFunction = TimeFunction::new(
    "to_date",
    (2, 2),
    |types, _| text_type(types, DataType::Date32),
    |args, _| {
        let (Some(text), Some(template)) = (args[0].text(), args[1].text()) else { return Ok(Datum::Null) };
        Ok(Datum::Date(read(text, template)?.days(text)? as i32))
    },
);

fn text_type(types: &[DataType], of: DataType) -> Result<DataType> {
    match types.iter().all(|of| matches!(of, DataType::Utf8 | DataType::Null)) {
        true => Ok(of),
        false => Err(no_function("to_date", types).into()),
    }
}

/// `to_timestamp(text, template)`: microseconds since 1970.
///
/// # Errors
/// 22007 for a text that does not fit, 22008 for a field that there is not.
pub fn timestamp(text: &str, template: &str, session: &SessionTime) -> Result<i64> {
    let said = read(text, template)?;
    let local = said.days(text)?.saturating_mul(MICROS_PER_DAY).saturating_add(said.micros(text)?);
    let instant = match (said.zone_hours, said.zone_minutes) {
        (None, None) => session.style.zone.instant(local),
        (hours, minutes) => {
            let (hours, minutes) = (hours.unwrap_or(0), minutes.unwrap_or(0));
            let sign = if hours < 0 { -1 } else { 1 };
            TimeZone::fixed((hours * 3_600 + sign * minutes * 60) as i32).instant(local)
        }
    };
    rounded(instant, said.digits.unwrap_or(6))
}

fn is_separator(letter: char) -> bool {
    letter.is_ascii_punctuation() || letter.is_whitespace()
}

/// Reads a text by a template. Blanks and separators match each other, and blanks around fields count for nothing.
fn read(text: &str, template: &str) -> Result<Said> {
    let mut said = Said::default();
    let (mut rest, mut template) = (text.trim_start(), template);
    // With FX each character of the template stands for one of the text.
    let (mut is_exact, mut is_free) = (false, false);
    // How many characters more have been passed over than the template has.
    let mut ahead = 0_i64;
    if strip(template, "FX").is_some() {
        rest = text;
    }
    while let Some(first) = template.chars().next() {
        if let Some(after) = strip(template, "FX") {
            (is_exact, template) = (true, after);
            continue;
        }
        if let Some(after) = strip(template, "FM") {
            (is_free, template) = (true, after);
            continue;
        }
        if let Some((pattern, width)) = PATTERNS.iter().find(|(pattern, _)| strip(template, pattern).is_some()) {
            template = &template[pattern.len()..];
            let ordinal = strip(template, "TH");
            template = ordinal.unwrap_or(template);
            if !is_exact || *width > 0 {
                pass_blanks(&mut rest, &mut ahead);
            }
            if rest.is_empty() {
                break;
            }
            // The sign of a zone may have been taken for a separator.
            let passed = text.len() - rest.len();
            if *pattern == "TZH" && ahead > 0 && text[..passed].ends_with('-') {
                rest = &text[passed - 1..];
            }
            let free = std::mem::take(&mut is_free) || ordinal.is_some();
            let used = field(&mut said, pattern, *width, rest, if free { "" } else { template })?;
            rest = &rest[used..];
            if ordinal.is_some() {
                // `st`, `nd`, `rd` or `th`.
                rest = rest.char_indices().nth(2).map_or("", |(at, _)| &rest[at..]);
            }
            if !is_exact {
                ahead = 0;
                pass_blanks(&mut rest, &mut ahead);
            }
            continue;
        }
        if first == '"' {
            // It stands for as many characters, whichever they are.
            let letters;
            (letters, template) = quoted(&template[1..]);
            (0..letters).for_each(|_| pass(&mut rest, &mut ahead));
            continue;
        }
        // A quotation mark that begins nothing.
        template = template.strip_prefix('\\').filter(|after| after.starts_with('"')).unwrap_or(template);
        template = template.get(first.len_utf8()..).unwrap_or_default();
        if is_exact {
            pass(&mut rest, &mut 0);
        } else if is_separator(first) {
            ahead -= 1;
            if let Some(next) = rest.chars().next().filter(|next| is_separator(*next)) {
                rest = &rest[next.len_utf8()..];
                ahead += 1;
            }
        } else {
            pass(&mut rest, &mut ahead);
        }
    }
    Ok(said)
}

/// How many characters a template has up to the quotation mark that ends them, and what follows it. A backslash stands
/// before one that does not.
fn quoted(template: &str) -> (usize, &str) {
    let (mut letters, mut escaped) = (0, false);
    for (at, letter) in template.char_indices() {
        match letter {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return (letters, &template[at + 1..]),
            _ => (letters, escaped) = (letters + 1, false),
        }
    }
    (letters, "")
}

/// A field at the beginning of a text: how many bytes it takes.
fn field(said: &mut Said, pattern: &str, width: usize, rest: &str, template: &str) -> Result<usize> {
    said.counts_by(pattern)?;
    match pattern {
        "TZ" | "OF" => {
            let message = format!("formatting field \"{pattern}\" is only supported in to_char");
            Err(SqlError::unsupported(message).into())
        }
        "Y,YYY" if rest.contains(',') => thousands(said, rest),
        _ if width > 0 => number(said, pattern, width, rest, template),
        _ => said.name(pattern, rest),
    }
}

/// A year with a comma behind its thousands.
fn thousands(said: &mut Said, rest: &str) -> Result<usize> {
    let length = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let invalid = || SqlError::data("invalid input string for \"Y,YYY\"").code("22007");
    let first = length(rest);
    let after = rest[first..].strip_prefix(',').ok_or_else(invalid)?;
    let second = length(after).min(3);
    let number = |digits: &str| digits.parse::<i64>().map_err(|_| invalid());
    let (thousands, ones) = (number(&rest[..first])?, number(&after[..second])?);
    said.set("Y,YYY", thousands.saturating_mul(1_000).saturating_add(ones), second)?;
    Ok(first + 1 + second)
}

fn pass_blanks(rest: &mut &str, ahead: &mut i64) {
    let trimmed = rest.trim_start();
    *ahead += rest.chars().count() as i64 - trimmed.chars().count() as i64;
    *rest = trimmed;
}

/// Passes over a character, unless one too many has been.
fn pass(rest: &mut &str, ahead: &mut i64) {
    if *ahead > 0 {
        *ahead -= 1;
    } else if let Some(next) = rest.chars().next() {
        *rest = &rest[next.len_utf8()..];
    }
}

/// A number at the beginning of a text: of so many digits if a number follows it in the template, else of all.
fn number(said: &mut Said, pattern: &str, width: usize, rest: &str, template: &str) -> Result<usize> {
    let is_signed = rest.starts_with(['+', '-']);
    let digits = rest[usize::from(is_signed)..].bytes().take_while(u8::is_ascii_digit).count();
    let follows = template.starts_with(|next: char| next.is_ascii_digit())
        || PATTERNS.iter().any(|(pattern, width)| *width > 0 && strip(template, pattern).is_some());
    let invalid = || {
        let word: String = rest.chars().take(width).collect();
        SqlError::data(format!("invalid value \"{word}\" for \"{pattern}\"")).code("22007")
    };
    let loose = || "If your source string is not fixed-width, try using the \"FM\" modifier.";
    if follows {
        let remain = rest.chars().count();
        if remain < width {
            let message = format!("source string too short for \"{pattern}\" formatting field");
            return Err(SqlError::data(message)
                .code("22007")
                .detail(format!("Field requires {width} characters, but only {remain} remain."))
                .hint(loose())
                .into());
        }
        let parsed = usize::from(is_signed) + digits;
        if digits > 0 && parsed < width {
            return Err(invalid()
                .detail(format!("Field requires {width} characters, but only {parsed} could be parsed."))
                .hint(loose())
                .into());
        }
    }
    let is_fraction = matches!(pattern, "MS" | "US");
    let taken = if follows { digits.min(width - usize::from(is_signed)) } else { digits };
    let taken = if is_fraction { taken.min(width) } else { taken };
    if taken == 0 {
        return Err(invalid().detail("Value must be an integer.").into());
    }
    let end = usize::from(is_signed) + taken;
    let too_large = || {
        SqlError::data(format!("value for \"{pattern}\" in source string is out of range"))
            .code("22008")
            .detail("Value must be in the range -2147483648 to 2147483647.")
    };
    let value: i32 = rest[..end].parse().map_err(|_| too_large())?;
    said.set(pattern, value.into(), taken)?;
    Ok(end)
}
