//! Texts beside what PostgreSQL 15 reads them as.

use super::*;
use crate::style::DateStyle;

/// 2024-02-29 12:34:56.789+00.
const NOW: i64 = 1_709_210_096_789_000;

fn style(zone: &str, date: &str) -> TimeStyle {
    TimeStyle {
        zone: TimeZone::read(zone).unwrap(),
        date: DateStyle::read(date, DateStyle::default()).unwrap(),
        ..TimeStyle::default()
    }
}

fn timestamptz(text: &str, style: &TimeStyle) -> String {
    let mut out = String::new();
    match style.read_timestamptz(text, NOW) {
        Ok(micros) => style.write_timestamptz(micros, &mut out).unwrap(),
        Err(error) => return error.sqlstate().to_owned(),
    }
    out
}

#[test]
fn every_form_of_postgresql_is_read() {
    let style = style("America/New_York", "ISO, MDY");
    for (text, expected) in [
        ("2024-01-01 10:00", "2024-01-01 10:00:00-05"),
        ("2024-07-01 10:00", "2024-07-01 10:00:00-04"),
        ("2024-01-01 10:00+02", "2024-01-01 03:00:00-05"),
        ("2024-01-01 10:00 +0230", "2024-01-01 02:30:00-05"),
        ("2024-01-01T10:00:00.123456789Z", "2024-01-01 05:00:00.123457-05"),
        ("2024-01-01 10:00 Europe/Berlin", "2024-01-01 04:00:00-05"),
        ("2024-01-01 10:00 PST", "2024-01-01 13:00:00-05"),
        ("2024-01-01 10:00 PM", "2024-01-01 22:00:00-05"),
        ("2024-01-01 12:00 am", "2024-01-01 00:00:00-05"),
        ("2024-01-01 24:00", "2024-01-02 00:00:00-05"),
        ("Jan 5, 2024", "2024-01-05 00:00:00-05"),
        ("5 January 2024 04:05", "2024-01-05 04:05:00-05"),
        ("January 8 04:05:06 1999 PST", "1999-01-08 07:05:06-05"),
        ("1999-Jan-08", "1999-01-08 00:00:00-05"),
        ("08-Jan-99", "1999-01-08 00:00:00-05"),
        ("1/18/1999", "1999-01-18 00:00:00-05"),
        ("20240131", "2024-01-31 00:00:00-05"),
        ("240131", "2024-01-31 00:00:00-05"),
        ("20240131 101112", "2024-01-31 10:11:12-05"),
        ("20240131T101112-03", "2024-01-31 08:11:12-05"),
        ("1999.008", "1999-01-08 00:00:00-05"),
        ("J2451187", "1999-01-08 00:00:00-05"),
        ("J2452271-08", "2001-12-27 03:00:00-05"),
        ("2000-03-15 08:14:01 GMT+8", "2000-03-15 11:14:01-05"),
        ("2000-03-15 13:14:02 GMT-1", "2000-03-15 07:14:02-05"),
        ("2000-03-15 02:14:05 MST+7:00", "2000-03-15 04:14:05-05"),
        ("Wed Jul 11 10:51:14 PST+03:00 2001", "2001-07-11 09:51:14-04"),
        ("Y2001M12D27H04M05S06.789+08", "2001-12-26 15:05:06.789-05"),
        ("Y2001M12D27H04MM05S06.789-08", "2001-12-27 07:05:06.789-05"),
        ("4714-11-23 16:00:00-08 BC", "4714-11-23 19:03:58-04:56:02 BC"),
        ("4714-11-23 15:59:59-08 BC", "22008"),
        ("January 8, 99 BC", "0099-01-08 00:00:00-04:56:02 BC"),
        ("now", "2024-02-29 07:34:56.789-05"),
        ("today", "2024-02-29 00:00:00-05"),
        ("tomorrow 10:00", "2024-03-01 10:00:00-05"),
        ("yesterday", "2024-02-28 00:00:00-05"),
        ("epoch", "1969-12-31 19:00:00-05"),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("2024-02-30", "22008"),
        ("2024-13-01", "22008"),
        ("2024-01-01 25:00", "22008"),
        ("0000-01-01", "22008"),
        ("2024-01-01 10:00+16", "22009"),
        ("2024-01-01 Nowhere/x", "22023"),
        ("2024-01-01 nowhere", "22007"),
        ("10:00", "22007"),
        ("", "22007"),
        ("300000-01-01", "22008"),
    ] {
        assert_eq!(timestamptz(text, &style), expected, "{text}");
    }
}

#[test]
fn the_order_of_day_month_and_year_is_the_sessions() {
    let read = |text: &str, date: &str| {
        let style = style("UTC", date);
        match style.read_date(text, NOW) {
            Ok(days) => {
                let mut out = String::new();
                TimeStyle::default().write_date(days, &mut out).unwrap();
                out
            }
            Err(error) => error.sqlstate().to_owned(),
        }
    };
    assert_eq!(read("01/02/03", "ISO, MDY"), "2003-01-02");
    assert_eq!(read("01/02/03", "ISO, DMY"), "2003-02-01");
    assert_eq!(read("01/02/03", "ISO, YMD"), "2001-02-03");
    assert_eq!(read("18/1/1999", "ISO, MDY"), "22008");
    assert_eq!(read("18.1.1999", "German"), "1999-01-18");
    assert_eq!(read("99-Jan-08", "ISO, YMD"), "1999-01-08");
    assert_eq!(read("5874898-01-01", "ISO, MDY"), "22008");
}

#[test]
fn intervals_have_postgresqls_forms() {
    let read = |text: &str| {
        let mut out = String::new();
        match TimeStyle::default().read_interval(text, Unit::Second) {
            Ok(Interval { months, days, micros }) => {
                TimeStyle::default().write_interval(months, days, micros, &mut out).unwrap();
            }
            Err(error) => return error.sqlstate().to_owned(),
        }
        out
    };
    for (text, expected) in [
        ("1 year 2 months 3 days 4 hours 5 minutes 6.5 seconds", "1 year 2 mons 3 days 04:05:06.5"),
        ("1-2 3 4:05:06", "1 year 2 mons 3 days 04:05:06"),
        ("-1-2 +3 -4:05:06", "-1 years -2 mons +3 days -04:05:06"),
        ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
        ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
        ("1 day ago", "-1 days"),
        ("@ 1 minute", "00:01:00"),
        ("1.5 months", "1 mon 15 days"),
        ("1.5 days", "1 day 12:00:00"),
        ("1.5 years", "1 year 6 mons"),
        ("1.5 weeks", "10 days 12:00:00"),
        ("100", "00:01:40"),
        ("1h30m", "01:30:00"),
        ("25:00", "25:00:00"),
        ("10:20.5", "00:10:20.5"),
        ("1 century", "100 years"),
        ("0", "00:00:00"),
        ("", "22007"),
        ("1 fortnight", "22007"),
        ("1 day 2 days", "22007"),
        ("99999999999 years", "22015"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}
