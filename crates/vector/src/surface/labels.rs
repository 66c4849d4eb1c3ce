//! The Arrow type of labels.

use arrow_schema::{DataType as ArrowType, TimeUnit};
use saki_base::Enumeration;

/// States whose types have zones that Arrow can read. It reads them where it shows NULL of a type of arrays or rows, be
/// it in the name of a column that the planner makes up, and must not find any that it cannot.
pub const STATES_MAX: u32 = SIGNS * FORMS * HOURS * MINUTES;

/// What zones of labels are made of: offsets with minutes that no clock has, so that no zone of moments is such.
const SIGNS: u32 = 2;
/// With a colon, or without.
const FORMS: u32 = 2;
const HOURS: u32 = 23;
const FIRST_MINUTE: u32 = 60;
const MINUTES: u32 = 40;

/// What the zones of other states begin with; the state's number follows.
const OTHER: &str = "enum ";

/// The Arrow type of an enumeration's labels. Arrow has one type that is ordered as an integer is and has room to say
/// which type it is: seconds of a zone. No other values are such; moments have microseconds. So no operator takes
/// labels for numbers, and those of two enumerations are not taken for one.
pub fn labels_type(of: Enumeration) -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Second, Some(zone(of.number()).into()))
}

/// The enumeration whose labels are of an Arrow type; `None`: it is that of other values.
pub fn enumeration(arrow: &ArrowType) -> Option<Enumeration> {
    match arrow {
        ArrowType::Timestamp(TimeUnit::Second, Some(zone)) => Enumeration::numbered(number(zone)?),
        _ => None,
    }
}

fn zone(number: u32) -> String {
    if number >= STATES_MAX {
        return format!("{OTHER}{number}");
    }
    let (sign, rest) = (number % SIGNS, number / SIGNS);
    let (form, rest) = (rest % FORMS, rest / FORMS);
    let (minute, hour) = (FIRST_MINUTE + rest % MINUTES, rest / MINUTES);
    let (sign, colon) = (if sign == 0 { '+' } else { '-' }, if form == 0 { ":" } else { "" });
    format!("{sign}{hour:02}{colon}{minute:02}")
}

/// The inverse.
fn number(zone: &str) -> Option<u32> {
    if let Some(number) = zone.strip_prefix(OTHER) {
        return number.parse().ok().filter(|number| *number >= STATES_MAX);
    }
    let (sign, offset) = match (zone.strip_prefix('+'), zone.strip_prefix('-')) {
        (Some(offset), _) => (0, offset),
        (_, offset) => (1, offset?),
    };
    let (form, hour, minute) = match (offset.split_once(':'), offset.split_at_checked(2)) {
        (Some((hour, minute)), _) => (0, hour, minute),
        (None, split) => split.map(|(hour, minute)| (1, hour, minute))?,
    };
    let two = |digits: &str| digits.parse::<u32>().ok().filter(|_| digits.len() == 2);
    let (hour, minute) = (two(hour)?, two(minute)?.checked_sub(FIRST_MINUTE)?);
    (hour < HOURS && minute < MINUTES).then_some(((hour * MINUTES + minute) * FORMS + form) * SIGNS + sign)
}

#[cfg(test)]
mod tests {
    use saki_base::types::enumeration::Labels;

    use super::*;

    #[test]
    fn a_type_leads_to_its_state() {
        let of = Enumeration::new(Labels { id: 5, labels: vec![("a".to_owned(), 1)], ..Labels::default() });
        assert!(enumeration(&labels_type(of)).is_some_and(|found| found.is_same_state(of)));
        for other in ["UTC", "+02:00", "-0330", "+23", "enum", "enum x", "enum 0", "enum 4294967295", "+ab:cd", "+é160"]
        {
            assert_eq!(enumeration(&ArrowType::Timestamp(TimeUnit::Second, Some(other.into()))), None, "{other}");
        }
        assert_eq!(enumeration(&ArrowType::Timestamp(TimeUnit::Second, None)), None);
    }

    #[test]
    fn every_number_has_a_zone() {
        for number in (0..STATES_MAX + 10).chain([u32::MAX]) {
            assert_eq!(super::number(&zone(number)), Some(number));
            let is_readable = zone(number).parse::<arrow_array::timezone::Tz>().is_ok();
            assert_eq!(is_readable, number < STATES_MAX, "{}", zone(number));
        }
    }
}
