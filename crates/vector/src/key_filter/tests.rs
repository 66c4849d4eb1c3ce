//! Filters beside sets.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{Array, Int64Array};
use proptest::collection::vec;
use proptest::prelude::*;

use super::KeyFilter;
use crate::Column;
use crate::join::tests::{KINDS, Kind};

fn numbers(kind: Kind, numbers: &[Option<u8>]) -> Vec<Option<i64>> {
    numbers.iter().map(|number| number.map(|number| kind.number(number))).collect()
}

fn values() -> impl Strategy<Value = Vec<Option<u8>>> {
    vec(prop_oneof![1 => Just(None), 9 => (0..24_u8).prop_map(Some)], 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn values_of_the_build_side_pass(
        kind in proptest::sample::select(KINDS.to_vec()),
        build in vec((values(), 0..6_u8), 0..4),
        probe in (values(), 0..6_u8),
    ) {
        let columns: Vec<Column> =
            build.iter().map(|(values, shape)| kind.column(&numbers(kind, values), *shape)).collect();
        let set: BTreeSet<i64> = build.iter().flat_map(|(values, _)| numbers(kind, values)).flatten().collect();
        let Some(filter) = KeyFilter::of(&columns.iter().collect::<Vec<_>>()) else {
            prop_assert!(matches!(kind, Kind::Interval | Kind::WideDecimal));
            return Ok(());
        };
        prop_assert_eq!(filter.is_empty(), set.is_empty());
        let probe_numbers = numbers(kind, &probe.0);
        let selected = filter.select(&kind.column(&probe_numbers, probe.1)).unwrap();
        prop_assert_eq!(selected.null_count(), 0);
        for (number, passes) in probe_numbers.iter().zip(selected.values()) {
            let wanted = number.is_some_and(|number| set.contains(&number));
            prop_assert!(passes || !wanted, "{:?}", number);
            prop_assert!(passes == wanted || (!filter.is_exact() && number.is_some()));
        }
        if filter.is_exact() {
            prop_assert_eq!(filter.distinct(), set.len());
        }
    }

    #[test]
    fn integers_are_a_set(
        build in vec(0..2000_i64, 0..60),
        step in proptest::sample::select(vec![1, 3, 1 << 20, 1 << 50]),
        ranges in vec((-10..2100_i64, 0..100_i64), 20),
    ) {
        let set: BTreeSet<i64> = build.iter().map(|value| (value - 500) * step).collect();
        let values = Int64Array::from_iter_values(build.iter().map(|value| (value - 500) * step));
        let column = Column::new(Arc::new(values));
        let filter = KeyFilter::of(&[&column]).unwrap();
        let bounds = filter.bounds().unwrap();
        match (set.first(), set.last()) {
            (Some(min), Some(max)) => prop_assert_eq!((bounds.min, bounds.max), (*min, *max)),
            _ => prop_assert!(bounds.min > bounds.max),
        }
        prop_assert_eq!(filter.values(usize::MAX).unwrap(), set.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(filter.values(set.len().saturating_sub(1)).is_none(), !set.is_empty());
        for (start, width) in ranges {
            let (min, max) = ((start - 500) * step, (start - 500 + width) * step);
            prop_assert_eq!(filter.may_contain_range(min, max), set.range(min..=max).next().is_some());
            let (min, max) = (min + 1, max.max(min + 1));
            prop_assert_eq!(filter.may_contain_range(min, max), set.range(min..=max).next().is_some());
        }
        prop_assert_eq!(filter.may_contain_range(i64::MIN, i64::MAX), !set.is_empty());
    }
}

/// Many values far apart: the Bloom filter.
#[test]
fn foreign_values_seldom_pass() {
    const VALUES: i64 = 200_000;
    let column = |from: i64| {
        Column::new(Arc::new(Int64Array::from_iter_values((from..from + VALUES).map(|value| value * 1_000_000_007))))
    };
    let filter = KeyFilter::of(&[&column(0)]).unwrap();
    assert!(!filter.is_exact());
    assert!(filter.values(usize::MAX).is_none());
    assert!(
        (VALUES as usize * 95 / 100..VALUES as usize * 105 / 100).contains(&filter.distinct()),
        "{}",
        filter.distinct()
    );
    assert_eq!(filter.select(&column(0)).unwrap().true_count(), VALUES as usize);
    // Half of these are out of bounds.
    let foreign = filter
        .select(&Column::new(Arc::new(Int64Array::from_iter_values(
            (0..VALUES * 2).map(|value| value * 1_000_000_007 + 1),
        ))))
        .unwrap();
    assert!(foreign.true_count() < VALUES as usize / 50, "{}", foreign.true_count());
    assert!(filter.may_contain_range(1_000_000_007 * 5, 1_000_000_007 * 5));
    let narrow =
        (0..1000).filter(|value| filter.may_contain_range(value * 1_000_000_007 + 5, value * 1_000_000_007 + 8));
    assert!(narrow.count() < 100);
}
