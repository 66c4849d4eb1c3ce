//! Civil dates: days since 1970-01-01 to year, month and day of the proleptic
//! Gregorian calendar, and back. Year 0 is 1 BC, year -1 is 2 BC.
//!
//! Years are counted from March, so that a leap day ends its year and the
//! months have the lengths 31 30 31 30 31 31 30 31 30 31 31 28; 400 years (an
//! *era*) are always 146 097 days.

/// Microseconds of a second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds of a day.
pub const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

const YEARS_PER_ERA: i64 = 400;
const DAYS_PER_ERA: i64 = 146_097;
/// The day of the Julian period that 1970-01-01 is.
pub const JULIAN_EPOCH: i64 = 2_440_588;

/// From January on.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// From Sunday on.
pub const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;
const _: () = assert!(days_from_civil(1970, 1, 1) == 0 && days_from_civil(2000, 3, 1) == 11_017);

/// A day of the calendar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CivilDate {
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
}

/// Days from 1970-01-01 to a date. Month and day must be valid; the year may be
/// any whose days an `i64` can count.
pub const fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month as i64 + 9) % 12;
    let era = year.div_euclid(YEARS_PER_ERA);
    let year_of_era = year.rem_euclid(YEARS_PER_ERA);
    let day_of_year = (153 * month_from_march + 2) / 5 + day as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_DAYS
}

/// The date so many days after 1970-01-01.
pub const fn civil_from_days(days: i64) -> CivilDate {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    // Take out the leap days of 4, 100 and 400 years before dividing by 365.
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8;
    let month = ((month_from_march + 2) % 12 + 1) as u8;
    let year = era * YEARS_PER_ERA + year_of_era + if month <= 2 { 1 } else { 0 };
    CivilDate { year, month, day }
}

/// Days of a month (1 to 12) of a year.
pub const fn days_in_month(year: i64, month: u8) -> u8 {
    match month {
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every day of 1 000 years, counted up one by one.
    #[test]
    fn days_follow_one_another() {
        let (mut year, mut month, mut day) = (1500, 1, 1);
        let first = days_from_civil(year, month, day);
        for days in first..first + 365_243 {
            assert_eq!(civil_from_days(days), CivilDate { year, month, day });
            assert_eq!(days_from_civil(year, month, day), days);
            day += 1;
            if day > days_in_month(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (2500, 1, 1));
    }

    #[test]
    fn far_days_round_trip() {
        for days in (i64::from(i32::MIN)..=i64::from(i32::MAX)).step_by(99_991) {
            let date = civil_from_days(days);
            assert_eq!(days_from_civil(date.year, date.month, date.day), days);
            assert!(date.day <= days_in_month(date.year, date.month));
        }
    }
}
