//! The Arrow type of labels.

use arrow_schema::{DataType as ArrowType, TimeUnit};
use saki_base::Enumeration;

/// What the zone of the type of an enumeration's labels begins with; its state's number follows.
const ENUMERATION: &str = "enum ";

/// The Arrow type of an enumeration's labels. Arrow has one type that is ordered as an integer is and has room to say
/// which type it is: seconds of a zone. No other values are such; moments have microseconds. So no operator takes
/// labels for numbers, and those of two enumerations are not taken for one.
pub fn labels_type(of: Enumeration) -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Second, Some(format!("{ENUMERATION}{}", of.number()).into()))
}

/// The enumeration whose labels are of an Arrow type; `None`: it is that of other values.
pub fn enumeration(arrow: &ArrowType) -> Option<Enumeration> {
    match arrow {
        ArrowType::Timestamp(TimeUnit::Second, Some(zone)) => {
            Enumeration::numbered(zone.strip_prefix(ENUMERATION)?.parse().ok()?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use saki_base::types::enumeration::Labels;

    use super::*;

    #[test]
    fn a_type_leads_to_its_state() {
        let of = Enumeration::new(Labels { id: 5, labels: vec![("a".to_owned(), 1)], ..Labels::default() });
        assert!(enumeration(&labels_type(of)).is_some_and(|found| found.is_same_state(of)));
        for other in ["UTC", "enum", "enum x", "enum 4294967295"] {
            assert_eq!(enumeration(&ArrowType::Timestamp(TimeUnit::Second, Some(other.into()))), None, "{other}");
        }
        assert_eq!(enumeration(&ArrowType::Timestamp(TimeUnit::Second, None)), None);
    }
}
