//! Expressions over times beside what PostgreSQL 15 makes of them, by the default's zone; `tests/sql/times.slt` has
//! those of other zones.

use crate::fixture::{check_refused, check_values};

#[test]
fn moments_have_ages() {
    check_values(&[
        ("age(timestamp '2001-04-10', timestamp '1957-06-13')", "43 years 9 mons 27 days"),
        ("age(timestamp '1957-06-13', timestamp '2001-04-10')", "-43 years -9 mons -27 days"),
        ("age(timestamp '2024-03-31', timestamp '2024-02-29 12:00')", "1 mon 1 day 12:00:00"),
        ("age(timestamptz '2024-03-01', timestamptz '2024-02-29')", "1 day"),
        ("timestamp '2024-03-01' - timestamp '2024-02-29 12:00'", "12:00:00"),
        ("timestamp '9999-01-01' - timestamp '0001-01-01'", "3651694 days"),
        ("date '2024-01-02' - timestamp '2024-01-01 12:00'", "12:00:00"),
        ("timestamp 'infinity' + interval '1 day'", "infinity"),
        ("timestamp '2024-01-31' + interval '1 month 1 day 1 hour'", "2024-03-01 01:00:00"),
        ("timestamptz '2024-03-31' - interval '1 month'", "2024-02-29 00:00:00+00"),
    ]);
}

#[test]
fn intervals_are_brought_into_order() {
    check_values(&[
        ("justify_hours(interval '27 hours')", "1 day 03:00:00"),
        ("justify_days(interval '35 days')", "1 mon 5 days"),
        ("justify_interval(interval '1 mon -1 hour')", "29 days 23:00:00"),
        ("justify_days(interval '-35 days')", "-1 mons -5 days"),
    ]);
}

#[test]
fn what_is_too_far_is_refused() {
    check_refused(&[
        ("timestamp '200000-01-01' + interval '200000 years'", "22008"),
        ("timestamp 'infinity' - timestamp '2024-01-01'", "22008"),
    ]);
}

#[test]
fn fields_are_postgresqls() {
    check_values(&[
        ("extract(julian from timestamp '2024-02-29 12:34:56.789')", "2460370.52426839120370370370"),
        ("extract(julian from date '2024-02-29')", "2460370"),
        ("extract(century from date '2000-12-31')", "20"),
        ("extract(century from date '0001-01-01 BC')", "-1"),
        ("extract(decade from date '0001-01-01 BC')", "0"),
        ("extract(millennium from date '2001-01-01')", "3"),
        ("extract(year from timestamptz '0001-01-01 BC')", "-1"),
        ("extract(microseconds from timestamp '2024-02-29 12:34:56.789')", "56789000"),
        ("extract(milliseconds from interval '1 hour 2.5 sec')", "2500.000"),
        ("extract(epoch from interval '1 year 1 mon 1 day 1.5 sec')", "34236001.500000"),
        ("extract(hour from interval '30 hours')", "30"),
        ("extract(quarter from interval '5 months')", "2"),
        ("extract(timezone_hour from timestamptz '2024-01-01')", "0"),
        ("date_part('hour', date '2024-02-29')", "0"),
        ("date_part('century', timestamp 'infinity')", "Infinity"),
        ("extract(day from timestamptz 'infinity')", "NULL"),
        ("isfinite(date 'infinity')", "false"),
    ]);
}

#[test]
fn fields_that_there_are_not_are_refused() {
    check_refused(&[
        ("extract(hour from date '2024-02-29')", "0A000"),
        ("extract(foo from timestamp '2024-02-29')", "22023"),
        ("extract(week from interval '1 day')", "0A000"),
        ("extract(timezone from timestamp '2024-02-29')", "0A000"),
        ("date_part('foo', timestamp '2024-02-29')", "22023"),
    ]);
}

#[test]
fn times_are_made_of_parts() {
    check_values(&[
        ("make_date(2024, 2, 29)", "2024-02-29"),
        ("make_date(-44, 3, 15)", "0044-03-15 BC"),
        ("make_time(8, 15, 23.5)", "08:15:23.5"),
        ("make_timestamp(2013, 7, 15, 8, 15, 23.5)", "2013-07-15 08:15:23.5"),
        ("make_timestamptz(2013, 7, 15, 8, 15, 23.5, 'America/New_York')", "2013-07-15 12:15:23.5+00"),
        ("make_interval(1, 2, 3, 4, 5, 6, 7.5)", "1 year 2 mons 25 days 05:06:07.5"),
        ("make_interval(days => 10, hours => 2)", "10 days 02:00:00"),
        ("make_interval()", "00:00:00"),
    ]);
}

#[test]
fn parts_that_there_are_not_are_refused() {
    check_refused(&[
        ("make_date(2024, 13, 1)", "22008"),
        ("make_date(2023, 2, 29)", "22008"),
        ("make_time(25, 1, 1)", "22008"),
        ("make_timestamp(2024, 1, 32, 1, 1, 1)", "22008"),
    ]);
}

#[test]
fn texts_are_read_by_templates() {
    check_values(&[
        ("to_date('05 Dec 2000', 'DD Mon YYYY')", "2000-12-05"),
        ("to_date('20240131', 'YYYYMMDD')", "2024-01-31"),
        ("to_date('2024-366', 'YYYY-DDD')", "2024-12-31"),
        ("to_date('31/01/24', 'DD/MM/YY')", "2024-01-31"),
        ("to_date('Monday, 1 January 2024', 'Day, DD Month YYYY')", "2024-01-01"),
        ("to_date('44 BC', 'YYYY BC')", "0044-01-01 BC"),
        ("to_timestamp('05 Dec 2000', 'DD Mon YYYY')", "2000-12-05 00:00:00+00"),
        ("to_timestamp('2024-01-31 03:04:05.678 PM', 'YYYY-MM-DD HH12:MI:SS.MS AM')", "2024-01-31 15:04:05.678+00"),
        ("to_timestamp('2024-01-31 03:04 -05', 'YYYY-MM-DD HH24:MI TZH')", "2024-01-31 08:04:00+00"),
        ("to_timestamp('2024-01-31T03:04:05', 'YYYY-MM-DD\"T\"HH24:MI:SS')", "2024-01-31 03:04:05+00"),
        ("to_timestamp(1.5)", "1970-01-01 00:00:01.5+00"),
    ]);
}

#[test]
fn texts_that_do_not_fit_are_refused() {
    check_refused(&[
        ("to_date('2024-13-01', 'YYYY-MM-DD')", "22008"),
        ("to_date('x', 'YYYY')", "22007"),
        ("to_date('1 Foo 2024', 'DD Mon YYYY')", "22007"),
        ("to_timestamp('13', 'HH12')", "22007"),
    ]);
}

#[test]
fn moments_are_cut() {
    check_values(&[
        ("date_trunc('century', timestamp '2024-02-15 12:34:56')", "2001-01-01 00:00:00"),
        ("date_trunc('decade', timestamp '2024-02-15 12:34:56')", "2020-01-01 00:00:00"),
        ("date_trunc('quarter', date '2024-05-15')", "2024-04-01 00:00:00+00"),
        ("date_trunc('day', timestamptz '2024-05-15 03:00+00', 'America/New_York')", "2024-05-14 04:00:00+00"),
        ("date_trunc('hour', interval '1 day 02:34:56')", "1 day 02:00:00"),
        ("date_trunc('second', timestamp '1969-12-31 23:59:59.5')", "1969-12-31 23:59:59"),
        ("date_trunc('month', timestamp 'infinity')", "infinity"),
        ("date_bin('15 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01')", "2020-02-11 15:30:00"),
    ]);
}

#[test]
fn units_that_there_are_not_are_refused() {
    check_refused(&[
        ("date_trunc('foo', timestamp '2024-02-29')", "22023"),
        ("date_trunc('timezone', timestamp '2024-02-29')", "0A000"),
        ("date_trunc('week', interval '1 day')", "0A000"),
        ("date_bin('1 month', timestamp '2024-02-29', timestamp '2001-01-01')", "0A000"),
        ("date_bin('0 s', timestamp '2024-02-29', timestamp '2001-01-01')", "22008"),
    ]);
}

#[test]
fn intervals_are_postgresqls() {
    check_values(&[
        ("interval '1 year 2 mons 3 days 04:05:06.789'", "1 year 2 mons 3 days 04:05:06.789"),
        ("interval '1 year 2 mons 3 days 04:05:06.789' year", "1 year"),
        ("interval '1-2' year to month", "1 year 2 mons"),
        ("interval '1' day", "1 day"),
        ("interval '10' hour", "10:00:00"),
        ("interval '1 2:03' day to minute", "1 day 02:03:00"),
        ("'1 day'::interval + '2 hours'", "1 day 02:00:00"),
        ("-interval '1 month 2 days'", "-1 mons -2 days"),
        ("interval '1.2345 s'::interval(2)", "00:00:01.23"),
        ("(interval '1 day 02:03:04')::interval day to hour", "1 day 02:00:00"),
        ("(select i::interval from (values ('P1DT2H')) as t(i))", "1 day 02:00:00"),
        ("interval '1 day' = interval '24 hours'", "true"),
        ("interval '1 day'::text || 'x'", "1 dayx"),
    ]);
}

#[test]
fn what_is_no_interval_is_refused() {
    check_refused(&[
        ("interval '1 fortnight'", "22007"),
        ("interval '99999999999 years'", "22015"),
        ("'x'::interval", "22007"),
    ]);
}

#[test]
fn moments_have_zones() {
    check_values(&[
        ("timestamp '2024-07-01 12:00' at time zone 'America/New_York'", "2024-07-01 16:00:00+00"),
        ("timestamptz '2024-07-01 12:00+00' at time zone 'America/New_York'", "2024-07-01 08:00:00"),
        ("timestamptz '2024-07-01 12:00+00' at time zone 'EST'", "2024-07-01 07:00:00"),
        ("timestamptz '2024-07-01 12:00+00' at time zone interval '-3 hours'", "2024-07-01 09:00:00"),
        ("timezone('utc', timestamptz '2024-07-01 12:00+02')", "2024-07-01 10:00:00"),
        ("timestamp(0) '2024-07-01 12:00:00.5'", "2024-07-01 12:00:01"),
        ("'2024-07-01 12:00:00.123456'::timestamptz(3)", "2024-07-01 12:00:00.123+00"),
    ]);
    check_refused(&[
        ("timestamptz '2024-07-01' at time zone 'nowhere'", "22023"),
        ("timestamptz '2024-07-01' at time zone interval '1 day'", "22023"),
    ]);
}

#[test]
fn intervals_are_scaled() {
    check_values(&[
        ("interval '1 day' * 2 = interval '2 days'", "true"),
        ("interval '1 day' * 1.5 = interval '1 day 12 hours'", "true"),
        ("2 * interval '1 hour' = interval '2 hours'", "true"),
        ("interval '1 day' / 2 = interval '12 hours'", "true"),
        ("interval '1 month' / 3 = interval '10 days'", "true"),
        ("date '2024-01-01' + interval '1 day' * 3", "2024-01-04 00:00:00"),
    ]);
}

#[test]
fn an_interval_over_zero_is_refused() {
    check_refused(&[("interval '1 day' / 0 = interval '1 day'", "22012")]);
}

#[test]
fn templates_are_postgresqls() {
    check_values(&[
        ("to_char(date '2024-02-29', 'YYYY-MM-DD')", "2024-02-29"),
        ("to_char(date '2024-02-29', 'DD Mon YYYY')", "29 Feb 2024"),
        ("to_char(date '2024-02-29', 'FMDay, FMDD FMMonth YYYY')", "Thursday, 29 February 2024"),
        ("to_char(timestamp '2024-02-29 03:04:05.678901', 'HH24:MI:SS.MS US')", "03:04:05.678 678901"),
        ("to_char(timestamp '2024-02-29 15:04:05', 'HH12:MI AM')", "03:04 PM"),
        ("to_char(timestamp '2024-02-29 15:04:05', 'HH:MI pm')", "03:04 pm"),
        ("to_char(timestamp '2024-02-29 00:04:05', 'HH12 HH24 HH')", "12 00 12"),
        ("to_char(timestamp '2024-02-29 15:04:05', 'HH12:MI A.M.')", "03:04 P.M."),
        ("to_char(timestamp '2024-02-29 15:04:05', 'SSSS SSSSS')", "54245 54245"),
        ("to_char(date '2024-02-29', 'MONTH|Month|month|MON|Mon|mon')", "FEBRUARY |February |february |FEB|Feb|feb"),
        ("to_char(date '2024-05-03', 'MONTH|Month|month')", "MAY      |May      |may      "),
        ("to_char(date '2024-02-29', 'DAY|Day|day|DY|Dy|dy')", "THURSDAY |Thursday |thursday |THU|Thu|thu"),
        ("to_char(date '2024-02-29', 'D ID DDD IDDD')", "5 4 060 060"),
        ("to_char(date '2024-02-29', 'W WW IW')", "5 09 09"),
        ("to_char(date '2024-02-29', 'Q')", "1"),
        ("to_char(date '2024-02-29', 'CC')", "21"),
        ("to_char(date '2000-12-31', 'CC')", "20"),
        ("to_char(date '2001-01-01', 'CC')", "21"),
        ("to_char(date '2024-02-29', 'Y YY YYY YYYY Y,YYY')", "4 24 024 2024 2,024"),
        ("to_char(date '2024-12-30', 'I IY IYY IYYY')", "5 25 025 2025"),
        ("to_char(date '2021-01-03', 'IYYY-\"W\"IW-ID')", "2020-W53-7"),
        ("to_char(date '2020-12-31', 'IYYY IW')", "2020 53"),
        ("to_char(date '2024-02-29', 'J')", "2460370"),
        ("to_char(date '2024-02-01', 'DDth')", "01st"),
        ("to_char(date '2024-02-02', 'DDTH')", "02ND"),
        ("to_char(date '2024-02-03', 'FMDDth')", "3rd"),
        ("to_char(date '2024-02-11', 'DDth')", "11th"),
        ("to_char(date '2024-02-21', 'DDth')", "21st"),
        ("to_char(date '2024-02-29', 'FMMM/FMDD')", "2/29"),
        ("to_char(date '2024-02-09', 'FMDDD')", "40"),
        ("to_char(date '2024-02-29', '\"year: \"YYYY')", "year: 2024"),
        ("to_char(date '2024-02-29', 'RM')", "II  "),
        ("to_char(date '2024-02-29', 'rm')", "ii  "),
        ("to_char(date '2024-02-29', 'BC')", "AD"),
        ("to_char(date '2024-02-29', 'YYYY AD')", "2024 AD"),
        ("to_char(date '2024-02-29', 'xyz')", "x4z"),
        ("to_char(date '2024-02-29', 'YYYY\\\"x')", "2024\"x"),
        ("to_char(date '0999-02-03', 'YYYY YYY YY Y')", "0999 999 99 9"),
        ("to_char(null::date, 'YYYY')", "NULL"),
        ("to_char(timestamp '1969-12-31 23:59:59.999999', 'YYYY-MM-DD HH24:MI:SS.US')", "1969-12-31 23:59:59.999999"),
        ("to_char(timestamp '2024-02-29 15:04:05.000001', 'FF1 FF3 FF6')", "0 000 000001"),
        ("to_char(date '2024-02-29', '日YYYY')", "日2024"),
        ("to_char(date '2024-02-29', 'YYYYMMDD')", "20240229"),
        ("to_char(date '2024-02-29', 'yyyy-mm-dd')", "2024-02-29"),
        ("to_char(timestamptz '2024-02-29', 'HH24 TZ tz OF TZH:TZM')", "00 UTC utc +00 +00:00"),
        ("to_char(date '0044-03-15 BC', 'YYYY BC')", "0044 BC"),
        ("to_char(timestamp 'infinity', 'YYYY')", "NULL"),
    ]);
}
