//! Moments on the command line.

use saki_base::{DataType, Value};

/// Microseconds since 1970; the end of time for `latest`.
pub fn parse(text: &str) -> Result<i64, String> {
    if text.eq_ignore_ascii_case("latest") {
        return Ok(i64::MAX);
    }
    match Value::parse(DataType::Timestamptz, text) {
        Ok(Value::Timestamptz(micros)) => Ok(micros),
        Ok(_) => Err("is no time".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A moment, as people and [`parse`] read it.
pub fn display(micros: i64) -> String {
    Value::Timestamptz(micros).display(DataType::Timestamptz).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read() {
        // 2025-11-28 07:30:15.25 UTC
        let micros = 1_764_315_015_250_000;
        assert_eq!(parse(&display(micros)), Ok(micros));
        assert_eq!(parse("2025-11-28 07:30:15.25+01"), Ok(micros - 3_600_000_000));
        assert_eq!(parse("2025-11-28 07:30"), Ok(micros - 15_250_000));
        assert_eq!(parse("Latest"), Ok(i64::MAX));
        assert!(parse("soon").is_err());
    }
}
