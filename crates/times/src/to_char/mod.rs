//! `to_char` of dates, timestamps and intervals, by PostgreSQL's template patterns.

mod interval;
mod template;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use saki_base::civil::{JULIAN_EPOCH, MICROS_PER_DAY, MONTHS, WEEKDAYS, civil_from_days};
use saki_catalog::SqlError;
use saki_parameters::{TimeZone, ZoneOffset};

use self::template::{ROMAN, cased, written};
use crate::session::session_time;

/// The function, under its name.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(ToChar { signature: Signature::any(2, Volatility::Stable) })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct ToChar {
    signature: Signature,
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        "to_char"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(DataType::Date32 | DataType::Timestamp(..) | DataType::Null) => Ok(DataType::Utf8),
            Some(DataType::Interval(_) | DataType::Duration(_)) => Ok(DataType::Utf8),
            Some(other) => Err(SqlError::unsupported(format!("to_char of {other} is not supported"))
                .hint("to_char takes a date, a timestamp, an interval or a number")
                .into()),
            None => Err(SqlError::invalid("to_char takes a time and a template").code("42883").into()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = &session_time(&args.config_options).style.zone;
        make_scalar_function(|arrays: &[ArrayRef]| texts(arrays, zone), Vec::new())(&args.args)
    }
}

/// Times by templates.
fn texts(arrays: &[ArrayRef], zone: &TimeZone) -> Result<ArrayRef> {
    let [times, templates] = arrays else {
        return Err(SqlError::internal("to_char takes two arguments").into());
    };
    if matches!(times.data_type(), DataType::Interval(_) | DataType::Duration(_)) {
        return interval::texts(times, templates);
    }
    let zone = matches!(times.data_type(), DataType::Timestamp(_, Some(_))).then_some(zone);
    let utc = zone.map(|_| "UTC".into());
    let times = cast(times, &DataType::Timestamp(TimeUnit::Microsecond, utc))?;
    let templates = cast(templates, &DataType::Utf8)?;
    let pairs = times.as_primitive::<TimestampMicrosecondType>().iter().zip(templates.as_string::<i32>());
    let texts = pairs.map(|(time, template)| match (time, template) {
        (Some(micros), Some(template)) => Moment::new(micros, zone).map(|moment| moment.text(template)).transpose(),
        _ => Ok(None),
    });
    Ok(Arc::new(texts.collect::<Result<StringArray, SqlError>>()?))
}

/// Width of a month's or day's name that is filled with blanks.
const NAME_WIDTH: usize = 9;
/// A time, taken apart.
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
    micros: i64,
    /// Days since 1970-01-01.
    days: i64,
    /// Of its zone.
    offset: Option<ZoneOffset>,
}

impl Moment {
    /// By the clocks of a zone, if it has one; `None` for infinity.
    fn new(micros: i64, zone: Option<&TimeZone>) -> Option<Self> {
        if matches!(micros, i64::MAX | i64::MIN) {
            return None;
        }
        let offset = zone.map(|zone| zone.at(micros));
        let micros = zone.map_or(micros, |zone| zone.local(micros));
        let days = micros.div_euclid(MICROS_PER_DAY);
        let date = civil_from_days(days);
        Some(Self {
            year: date.year,
            month: date.month.into(),
            day: date.day.into(),
            second_of_day: micros.rem_euclid(MICROS_PER_DAY) / 1_000_000,
            micros: micros.rem_euclid(1_000_000),
            days,
            offset,
        })
    }

    /// Seconds east of Greenwich.
    fn offset(&self) -> i32 {
        self.offset.as_ref().map_or(0, |offset| offset.seconds)
    }

    fn text(&self, template: &str) -> Result<String, SqlError> {
        written(template, |pattern, spelled, fill| self.value(pattern, spelled, fill))
    }

    fn value(&self, pattern: &str, spelled: &str, fill: bool) -> Result<String, SqlError> {
        let number = |value: i64, width: usize| if fill { format!("{value:0width$}") } else { value.to_string() };
        let hour = self.second_of_day / 3600;
        let half = if hour % 12 == 0 { 12 } else { hour % 12 };
        let (iso_year, iso_week) = self.iso_week();
        let iso_year = counted(iso_year);
        let (year, offset) = (counted(self.year), self.offset());
        Ok(match pattern {
            "HH24" => number(hour, 2),
            "HH12" | "HH" => number(half, 2),
            "MI" => number(self.second_of_day / 60 % 60, 2),
            "SS" => number(self.second_of_day % 60, 2),
            "SSSSS" | "SSSS" => self.second_of_day.to_string(),
            "MS" => number(self.micros / 1000, 3),
            "US" => number(self.micros, 6),
            "Y,YYY" => format!("{},{:03}", year / 1000, year % 1000),
            "YYYY" => number(year, 4),
            "YYY" => number(year % 1000, 3),
            "YY" => number(year % 100, 2),
            "Y" => (year % 10).to_string(),
            "IYYY" => number(iso_year, 4),
            "IYY" => number(iso_year % 1000, 3),
            "IY" => number(iso_year % 100, 2),
            "I" => (iso_year % 10).to_string(),
            "IW" => number(iso_week, 2),
            "IDDD" => number((iso_week - 1) * 7 + self.iso_weekday(), 3),
            "ID" => self.iso_weekday().to_string(),
            "MM" => number(self.month, 2),
            "MONTH" => name(MONTHS[self.month as usize - 1], spelled, fill),
            "MON" => name(&MONTHS[self.month as usize - 1][..3], spelled, false),
            "DAY" => name(WEEKDAYS[self.weekday() as usize], spelled, fill),
            "DY" => name(&WEEKDAYS[self.weekday() as usize][..3], spelled, false),
            "DDD" => number(self.day_of_year(), 3),
            "DD" => number(self.day, 2),
            "D" => (self.weekday() + 1).to_string(),
            "WW" => number((self.day_of_year() - 1) / 7 + 1, 2),
            "W" => ((self.day - 1) / 7 + 1).to_string(),
            "Q" => ((self.month - 1) / 3 + 1).to_string(),
            "CC" if self.year <= 0 => number(self.year / 100 - 1, 2),
            "CC" => number((self.year + 99) / 100, 2),
            // Days since the beginning of the Julian period, 4714 BC.
            "J" => (self.days + JULIAN_EPOCH).to_string(),
            "AM" | "PM" => cased(if hour < 12 { "AM" } else { "PM" }, spelled),
            "A.M." | "P.M." => cased(if hour < 12 { "A.M." } else { "P.M." }, spelled),
            "AD" | "BC" => cased(if self.year > 0 { "AD" } else { "BC" }, spelled),
            "A.D." | "B.C." => cased(if self.year > 0 { "A.D." } else { "B.C." }, spelled),
            "RM" => {
                let roman = cased(ROMAN[self.month as usize - 1], spelled);
                if fill { format!("{roman:4}") } else { roman }
            }
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let digits = usize::from(pattern.as_bytes()[2] - b'0');
                format!("{:06}", self.micros)[..digits].to_owned()
            }
            "TZH" => format!("{}{:02}", if offset < 0 { '-' } else { '+' }, offset.abs() / 3_600),
            "TZM" => format!("{:02}", offset.abs() / 60 % 60),
            "OF" => {
                let minutes = offset.abs() / 60 % 60;
                let minutes = if minutes == 0 { String::new() } else { format!(":{minutes:02}") };
                format!("{}{:02}{minutes}", if offset < 0 { '-' } else { '+' }, offset.abs() / 3_600)
            }
            "TZ" => {
                let abbreviation = self.offset.as_ref().map_or("", |offset| &*offset.abbreviation);
                if spelled.starts_with('t') { abbreviation.to_lowercase() } else { abbreviation.to_owned() }
            }
            _ => return Err(SqlError::internal(format!("to_char knows no pattern {spelled}"))),
        })
    }

    /// From Sunday, 0.
    fn weekday(&self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }

    /// From Monday, 1.
    fn iso_weekday(&self) -> i64 {
        (self.days + 3).rem_euclid(7) + 1
    }

    fn day_of_year(&self) -> i64 {
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][self.month as usize - 1];
        before + self.day + i64::from(self.month > 2 && is_leap(self.year))
    }

    /// The ISO year, and the week in it: the one that has this day's Thursday.
    fn iso_week(&self) -> (i64, i64) {
        let thursday = self.day_of_year() - self.iso_weekday() + 4;
        let length = |year| 365 + i64::from(is_leap(year));
        if thursday < 1 {
            (self.year - 1, (thursday + length(self.year - 1) - 1) / 7 + 1)
        } else if thursday > length(self.year) {
            (self.year + 1, 1)
        } else {
            (self.year, (thursday - 1) / 7 + 1)
        }
    }
}

/// A year as people count it: there is none that is 0.
fn counted(year: i64) -> i64 {
    if year > 0 { year } else { 1 - year }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// A name as its pattern is spelled: `MONTH`, `Month` or `month`.
fn name(name: &str, spelled: &str, fill: bool) -> String {
    let mut letters = spelled.chars();
    let (first, second) = (letters.next(), letters.next());
    let is_lower = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_lowercase());
    let written = match (is_lower(first), is_lower(second)) {
        (false, false) => name.to_uppercase(),
        (false, true) => name.to_owned(),
        _ => name.to_lowercase(),
    };
    if fill { format!("{written:NAME_WIDTH$}") } else { written }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(micros: i64, template: &str) -> String {
        Moment::new(micros, None).unwrap().text(template).unwrap()
    }

    #[test]
    fn patterns_are_postgresqls() {
        // 2024-12-30 15:04:05.006007, a Monday of the first week of 2025.
        let micros = 1_735_571_045_006_007;
        for (template, expected) in [
            ("YYYY-MM-DD HH24:MI:SS.US", "2024-12-30 15:04:05.006007"),
            ("IYYY-IW-ID", "2025-01-1"),
            ("HH12 am MS", "03 pm 006"),
            ("FMMonth FMDDth, Dy", "December 30th, Mon"),
            ("[MONTH] day", "[DECEMBER ] monday   "),
            ("DDD Q WW J \"YYYY\"", "365 4 53 2460675 YYYY"),
        ] {
            assert_eq!(text(micros, template), expected, "{template}");
        }
        // A day of 97 BC.
        let before = saki_base::civil::days_from_civil(-96, 2, 16) * MICROS_PER_DAY;
        assert_eq!(text(before, "FMYYYY FMCC FMIYYY FMIY AD"), "97 -1 97 97 BC");
    }
}
