//! `to_char` of intervals: years and months of its months, its days, and the hours, minutes and seconds of its time.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use saki_base::civil::MICROS_PER_SECOND;
use saki_catalog::SqlError;
use saki_parameters::Interval;

use super::template::{ROMAN, cased, written};
use crate::datum::{Datum, INTERVAL, datum};

const DAYS_OF_MONTH: i64 = 30;

/// Intervals by templates.
pub fn texts(intervals: &ArrayRef, templates: &ArrayRef) -> Result<ArrayRef> {
    let (intervals, templates) = (cast(intervals, &INTERVAL)?, cast(templates, &DataType::Utf8)?);
    let texts = templates.as_string::<i32>().iter().enumerate().map(|(row, template)| -> Result<Option<String>> {
        match (datum(&intervals, row)?, template) {
            (Datum::Interval(interval), Some(template)) => {
                let length = Length::of(interval);
                Ok(Some(written(template, |pattern, spelled, fill| length.value(pattern, spelled, fill))?))
            }
            _ => Ok(None),
        }
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

/// An interval, taken apart: each part has the sign of what it is a part of.
struct Length {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
}

impl Length {
    fn of(Interval { months, days, micros }: Interval) -> Self {
        let seconds = micros / MICROS_PER_SECOND;
        Self {
            year: i64::from(months) / 12,
            month: i64::from(months) % 12,
            day: days.into(),
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: micros % MICROS_PER_SECOND,
        }
    }

    /// # Errors
    /// 22007 for what only a calendar's dates have.
    fn value(&self, pattern: &str, spelled: &str, fill: bool) -> Result<String, SqlError> {
        // A sign has a place of its own.
        let number = |value: i64, width: usize| {
            let width = if fill { width + usize::from(value < 0) } else { 0 };
            format!("{value:0width$}")
        };
        let days = |value: i64, width: usize| if fill { format!("{value:0width$}") } else { value.to_string() };
        let span = (self.year * 12 + self.month) * DAYS_OF_MONTH + self.day;
        let half = if self.hour % 12 == 0 { 12 } else { self.hour % 12 };
        let is_afternoon = self.hour % 24 >= 12;
        Ok(match pattern {
            "HH24" => number(self.hour, 2),
            "HH12" | "HH" => number(half, 2),
            "MI" => number(self.minute, 2),
            "SS" => number(self.second, 2),
            "SSSSS" | "SSSS" => (self.hour * 3600 + self.minute * 60 + self.second).to_string(),
            "MS" => format!("{:03}", self.micros / 1000),
            "US" => format!("{:06}", self.micros),
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let digits = usize::from(pattern.as_bytes()[2] - b'0');
                format!("{:0digits$}", self.micros / 10_i64.pow(6 - digits as u32))
            }
            "Y,YYY" => format!("{},{:03}", self.year / 1000, self.year % 1000),
            "YYYY" => number(self.year, 4),
            "YYY" => number(self.year % 1000, 3),
            "YY" => number(self.year % 100, 2),
            "Y" => number(self.year % 10, 1),
            "MM" => number(self.month, 2),
            "DDD" => days(span, 3),
            "DD" => days(self.day, 2),
            "WW" => days((span - 1) / 7 + 1, 2),
            "W" => ((self.day - 1) / 7 + 1).to_string(),
            "Q" if self.month == 0 => String::new(),
            "Q" => ((self.month - 1) / 3 + 1).to_string(),
            "CC" => number(self.year / 100, 2),
            "AM" | "PM" => cased(if is_afternoon { "PM" } else { "AM" }, spelled),
            "A.M." | "P.M." => cased(if is_afternoon { "P.M." } else { "A.M." }, spelled),
            "RM" => self.roman(spelled, fill),
            _ => {
                return Err(SqlError::data("invalid format specification for an interval value")
                    .code("22007")
                    .hint("Intervals are not tied to specific calendar dates."));
            }
        })
    }

    /// The month; one before counts back from the last.
    fn roman(&self, spelled: &str, fill: bool) -> String {
        let month = match self.month {
            0 if self.year == 0 => return String::new(),
            0 if self.year > 0 => 12,
            0 => 1,
            month if month < 0 => 13 + month,
            month => month,
        };
        let roman = cased(ROMAN[month as usize - 1], spelled);
        if fill { format!("{roman:4}") } else { roman }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 writes them.
    #[test]
    fn parts_have_the_signs_of_what_they_are_parts_of() {
        let of = |months, days, micros, template: &str| {
            let length = Length::of(Interval { months, days, micros });
            written(template, |pattern, spelled, fill| length.value(pattern, spelled, fill))
                .map_err(|error| error.sqlstate().to_owned())
        };
        let all = "YYYY-MM-DD HH24:MI:SS.MS US FF3 Q WW DDD W CC Y,YYY YY Y RM";
        let micros = 14_706_789_000;
        assert_eq!(of(14, 3, micros, all).unwrap(), "0001-02-03 04:05:06.789 789000 789 1 61 423 1 00 0,001 01 1 II  ");
        assert_eq!(
            of(-14, -3, -micros, all).unwrap(),
            "-0001--02--3 -04:-05:-06.-789 -789000 -789 0 -59 -423 1 00 0,-01 -01 -1 XI  "
        );
        assert_eq!(of(0, 0, 25 * 3_600_000_000, "HH12 HH24 AM").unwrap(), "01 25 AM");
        assert_eq!(of(0, 3, 0, "FMDDth FMDD FMHH24").unwrap(), "3rd 3 0");
        assert_eq!(of(-12, 0, 0, "FMRM").unwrap() + &of(12, 0, 0, "FMRM").unwrap(), "IXII");
        assert_eq!(of(1, 0, 0, "Month").unwrap_err(), "22007");
    }
}
