//! What words mean in texts of times.

use std::collections::HashMap;
use std::sync::LazyLock;

use saki_base::civil::{MONTHS, WEEKDAYS};

use super::unit::Unit;

/// The meaning of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// 1 to 12.
    Month(u8),
    /// A day of the week, which says nothing.
    Weekday,
    Morning,
    Afternoon,
    /// Before our era, or in it.
    Era {
        before: bool,
    },
    /// Seconds east of Greenwich.
    Zone(i32),
    /// `t`: a time follows.
    Clock,
    /// `y`, `m`, `d`, `h`, `mm`, `s`: a number of it follows.
    Part(Unit),
    /// `j`: a number of days follows.
    Julian,
    Infinity,
    MinusInfinity,
    Epoch,
    Now,
    /// Days from today.
    Day(i8),
    /// Midnight in Greenwich.
    AllBalls,
    /// `on`, `at`.
    Nothing,
}

/// Words are known by so many letters.
const LETTERS_MAX: usize = 10;

static ABBREVIATIONS: LazyLock<HashMap<&'static str, i32>> = LazyLock::new(|| {
    let lines = include_str!("abbreviations.txt").lines();
    lines.filter_map(|line| line.split_once(' ')).filter_map(|(name, at)| Some((name, at.parse().ok()?))).collect()
});

/// Seconds east of Greenwich of an abbreviation in small letters: PostgreSQL's default set.
pub fn zone(abbreviation: &str) -> Option<i32> {
    ABBREVIATIONS.get(abbreviation).copied()
}

/// A word in small letters, in a date or a time.
pub fn word(text: &str) -> Option<Word> {
    if let Some(offset) = zone(text) {
        return Some(Word::Zone(offset));
    }
    let text = text.get(..LETTERS_MAX).unwrap_or(text);
    let named = |names: &'static [&str], more: &[(&str, usize)]| {
        let whole =
            names.iter().position(|name| name.eq_ignore_ascii_case(text) || name[..3].eq_ignore_ascii_case(text));
        whole.or_else(|| more.iter().find(|(name, _)| *name == text).map(|(_, position)| *position))
    };
    if let Some(month) = named(&MONTHS, &[("sept", 8)]) {
        return Some(Word::Month(month as u8 + 1));
    }
    let short = [("tues", 2), ("wednes", 3), ("weds", 3), ("thur", 4), ("thurs", 4)];
    if named(&WEEKDAYS, &short).is_some() {
        return Some(Word::Weekday);
    }
    Some(match text {
        "am" => Word::Morning,
        "pm" => Word::Afternoon,
        "ad" => Word::Era { before: false },
        "bc" => Word::Era { before: true },
        "t" => Word::Clock,
        "j" | "jd" | "julian" => Word::Julian,
        "infinity" | "+infinity" => Word::Infinity,
        "-infinity" => Word::MinusInfinity,
        "epoch" => Word::Epoch,
        "now" => Word::Now,
        "today" => Word::Day(0),
        "tomorrow" => Word::Day(1),
        "yesterday" => Word::Day(-1),
        "allballs" => Word::AllBalls,
        "on" | "at" => Word::Nothing,
        "y" => Word::Part(Unit::Year),
        "m" => Word::Part(Unit::Month),
        "d" => Word::Part(Unit::Day),
        "h" => Word::Part(Unit::Hour),
        "mm" => Word::Part(Unit::Minute),
        "s" => Word::Part(Unit::Second),
        _ => return None,
    })
}

/// Whether a word is one, so that digits that follow it are not part of a zone's name, as they are in `gmt+8`.
pub fn is_known(text: &str) -> bool {
    word(text).is_some_and(|word| !matches!(word, Word::Zone(_))) || unit(text).is_some()
}

/// Whether a text may say something else tomorrow.
pub fn is_relative(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["now", "today", "tomorrow", "yesterday"].iter().any(|word| lower.contains(word))
}

/// A unit of intervals, in small letters.
pub fn unit(text: &str) -> Option<Unit> {
    let text = text.get(..LETTERS_MAX).unwrap_or(text);
    Some(match text {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "qtr" | "quarter" => Unit::Quarter,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_mean_to_postgresql() {
        assert_eq!(word("sept"), Some(Word::Month(9)));
        assert_eq!(word("march"), Some(Word::Month(3)));
        assert_eq!(word("thurs"), Some(Word::Weekday));
        assert_eq!(word("est"), Some(Word::Zone(-18_000)));
        assert_eq!(word("z"), Some(Word::Zone(0)));
        assert_eq!(word("yesterday"), Some(Word::Day(-1)));
        assert_eq!(word("janu"), None);
        assert_eq!(unit("microseconds"), Some(Unit::Microsecond));
        assert_eq!(unit("fortnight"), None);
        assert!(is_relative("Tomorrow 10:00") && !is_relative("2024-01-01"));
    }
}
