//! Access paths: the ways to find a table's rows for given tests, and the cheapest of them.

use std::sync::Arc;

use saki_exec::plan::{JoinKind, KeyRange};

use crate::access::alternatives::Alternatives;
use crate::access::chain::{Chain, ColumnRef, Link, LinkKey, Origin};
use crate::cost::{Costs, Estimate, distinct_pages};
use saki_catalog::{ColumnTest, KeyBounds, PlacedTest, Table, TableAccess, key_range};
use saki_settings::AccessPath;

/// A way to find rows: one tree, perhaps bounded, and perhaps a fetch of the rows from the primary tree.
#[derive(Clone, Debug)]
pub struct Path {
    pub access: Arc<TableAccess>,
    pub bounds: Option<KeyBounds>,
    /// The tree lacks columns that are needed.
    pub fetches_primary: bool,
    pub estimate: Estimate,
}

/// What is wanted of a table.
pub struct Wanted<'a> {
    pub table: &'a Arc<Table>,
    /// Table columns that leave the scan or are needed by conditions on top of it.
    pub columns: &'a [usize],
    pub tests: &'a [ColumnTest],
    /// Of conditions that are no tests of columns: what follows from them.
    pub alternatives: &'a [Alternatives],
    /// Rows that lie over the base: [`Snapshot::newer_rows`](saki_store::Snapshot::newer_rows).
    pub newer: f64,
    /// Share of rows that other conditions leave.
    pub other_selectivity: f64,
    pub limit: Option<usize>,
}

impl<'a> Wanted<'a> {
    /// All rows that pass the tests, of a table that is all in its base.
    pub fn new(table: &'a Arc<Table>, columns: &'a [usize], tests: &'a [ColumnTest]) -> Self {
        Self { table, columns, tests, alternatives: &[], newer: 0.0, other_selectivity: 1.0, limit: None }
    }

    /// Rows of the table, before any condition. How many of the newer ones replace others is not known.
    pub fn entries(&self) -> f64 {
        self.table.rows().max(self.newer)
    }
}

impl Path {
    /// The cheapest path, among those the setting allows.
    pub fn choose(wanted: &Wanted<'_>, costs: &dyn Costs, setting: AccessPath) -> Self {
        let mut paths: Vec<Self> =
            TableAccess::all(wanted.table).filter_map(|access| Self::through(access, wanted, costs, setting)).collect();
        if setting == AccessPath::Index && paths.iter().any(|path| path.bounds.is_some()) {
            paths.retain(|path| path.bounds.is_some());
        }
        paths
            .into_iter()
            .min_by(|a, b| a.estimate.seconds.total_cmp(&b.estimate.seconds))
            .expect("the full primary scan is always a path")
    }

    /// Whether there is at most one row to find.
    pub fn is_one_row(&self) -> bool {
        self.bounds.as_ref().is_some_and(|bounds| bounds.points && bounds.ranges.len() <= 1)
    }

    fn through(access: Arc<TableAccess>, wanted: &Wanted<'_>, costs: &dyn Costs, setting: AccessPath) -> Option<Self> {
        let table = wanted.table;
        let tested = wanted.tests.iter().map(|test| test.column);
        let covering = access.covers(wanted.columns.iter().copied().chain(tested));
        let bounded = match setting {
            AccessPath::Scan => None,
            _ => narrowest(&access, wanted),
        };
        let (bounds, bounded_share) = bounded.unzip();
        let primary = access.index.is_none();
        if bounds.is_none() && !primary && (!covering || setting == AccessPath::Scan) {
            return None;
        }
        let entries = wanted.entries();
        let rows = entries * table.selectivity(wanted.tests) * wanted.other_selectivity;
        let leaves = access.tree.leaf_pages as f64;
        let here = costs.of_tree(access.tree.tree);
        let mut seconds = match &bounds {
            None => {
                let share = match wanted.limit {
                    Some(limit) if wanted.tests.is_empty() => (limit as f64 / entries.max(1.0)).min(1.0),
                    _ => 1.0,
                };
                here.sequential(leaves * share, entries * share) + here.newer_by_key(wanted.newer * share)
            }
            Some(bounds) => {
                let share = bounded_share.expect("where there are bounds");
                let pages = leaves * share + bounds.ranges.len() as f64;
                let descents = distinct_pages(bounds.ranges.len() as f64, leaves) + f64::from(access.tree.height);
                here.sequential(pages, entries * share)
                    + here.random(descents, bounds.ranges.len() as f64)
                    + here.newer_by_key(wanted.newer * share)
            }
        };
        let fetches_primary = !covering && !primary;
        if fetches_primary {
            let on_index = wanted.tests.iter().filter(|test| access.position(test.column).is_some());
            let fetched = entries * table.selectivity(on_index);
            seconds += costs.of_tree(table.root.id).lookups(fetched, 1.0, table.root.leaf_pages as f64);
        }
        Some(Self { access, bounds, fetches_primary, estimate: Estimate { rows, seconds } })
    }

    /// The chain that reads this path, and where each table column is found in it.
    pub fn chain(&self, wanted: &Wanted<'_>, snapshot: Arc<dyn std::any::Any + Send + Sync>) -> (Chain, ColumnMap) {
        let decided = |position: usize| self.bounds.as_ref().is_some_and(|b| b.decided.contains(&position));
        let mut here = Vec::new();
        let mut later = Vec::new();
        for (position, test) in wanted.tests.iter().enumerate() {
            match self.access.position(test.column) {
                _ if decided(position) => {}
                Some(column) => here.push(test.placed(column)),
                None => later.push(test),
            }
        }
        let ranges = match &self.bounds {
            Some(bounds) => bounds.ranges.clone(),
            None => vec![KeyRange::default()],
        };
        let is_open = self.bounds.is_some() && wanted.tests.iter().any(|test| test.parameter.is_some());
        let tests = if is_open { wanted.tests.into() } else { Arc::default() };
        let origin = Origin::Ranges { access: Arc::clone(&self.access), ranges, predicates: here, tests };
        let mut chain = Chain { origin, links: Vec::new(), filters: Vec::new(), limit: None, snapshot };
        let mut map = ColumnMap { accesses: vec![(0, Arc::clone(&self.access))] };
        if self.fetches_primary {
            let primary = TableAccess::primary(wanted.table);
            let predicates = later
                .iter()
                .map(|test| test.placed(primary.position(test.column).expect("the primary tree has every column")))
                .collect();
            chain.links.push(primary_fetch(&self.access, &primary, 0, JoinKind::Inner, predicates));
            map.accesses.push((1, primary));
        }
        (chain, map)
    }
}

/// The bounds that leave the smallest share of a tree, and that share.
fn narrowest(access: &TableAccess, wanted: &Wanted<'_>) -> Option<(KeyBounds, f64)> {
    let table = wanted.table;
    let by_tests = key_range::bounds(access, wanted.tests).map(|bounds| {
        let share = table.selectivity(bounds.used.iter().map(|i| &wanted.tests[*i]));
        (bounds, share)
    });
    // Bounds of a plan that is kept are those of its tests, for other values.
    if wanted.tests.iter().any(|test| test.parameter.is_some()) {
        return by_tests;
    }
    let keys = access.key_columns();
    let on_key = |test: &&ColumnTest| keys.contains(&test.column);
    let by_alternatives = wanted.alternatives.iter().filter_map(|alternatives| {
        let bounds = key_range::bounds_of_any(access, wanted.tests, alternatives)?;
        let share = |tests: &Vec<ColumnTest>| table.selectivity(wanted.tests.iter().chain(tests).filter(on_key));
        Some((bounds, alternatives.iter().map(share).sum::<f64>().min(1.0)))
    });
    by_tests.into_iter().chain(by_alternatives).min_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// The link that fetches the rows of entries found in an index at `step`.
pub fn primary_fetch(
    index: &TableAccess,
    primary: &Arc<TableAccess>,
    step: usize,
    kind: JoinKind,
    predicates: Vec<PlacedTest>,
) -> Link {
    let key = primary
        .key_columns()
        .iter()
        .map(|column| {
            let position = index.position(*column).expect("index entries carry the primary key");
            LinkKey::Column(ColumnRef { step, column: position })
        })
        .collect();
    Link { access: Arc::clone(primary), kind, key, unique: true, predicates, completes_previous: true }
}

/// Where a table's columns are found in a chain.
#[derive(Clone)]
pub struct ColumnMap {
    /// Step and tree, in the order in which they are asked.
    pub accesses: Vec<(usize, Arc<TableAccess>)>,
}

impl ColumnMap {
    pub fn find(&self, table_column: usize) -> Option<ColumnRef> {
        self.accesses
            .iter()
            .find_map(|(step, access)| access.position(table_column).map(|column| ColumnRef { step: *step, column }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use saki_base::DataType;
    use saki_base::value::Value;
    use saki_catalog::Test;
    use saki_exec::predicate::CompareOp;
    use saki_store::DeviceSpeed;

    use crate::cost::CostModel;

    use super::*;
    use crate::access::text::path_text;
    use crate::fixture::TableBuilder;
    use saki_settings::Settings;

    const CLOUD: DeviceSpeed = DeviceSpeed { latency: 700e-6, reads_per_second: 64_000.0, bytes_per_second: 1e9 };
    const DISK: DeviceSpeed = DeviceSpeed { latency: 8e-3, reads_per_second: 200.0, bytes_per_second: 2e8 };

    /// A million orders of 10 000 customers in 20 states.
    fn orders() -> Arc<Table> {
        TableBuilder::new("orders")
            .column("o", DataType::Int4)
            .column("customer", DataType::Int4)
            .column("state", DataType::Int4)
            .column("total", DataType::Int8)
            .key(&["o"])
            .index("by_customer", &["customer"])
            .covering("by_state", &["state"], &["total"])
            .with_rows(1_000_000)
            .with_distinct(&[1e6, 1e4, 20.0, 1e5])
            .build()
    }

    fn compare(column: usize, op: CompareOp, value: i32) -> ColumnTest {
        ColumnTest::new(column, Test::Compare(op, Value::Int4(value)))
    }

    fn equal(column: usize, value: i32) -> ColumnTest {
        compare(column, CompareOp::Equal, value)
    }

    fn costs(speed: DeviceSpeed) -> CostModel {
        CostModel::new(speed, 8192, &Settings { partitions: 2, ..Settings::default() })
    }

    fn chosen(columns: &[usize], tests: &[ColumnTest], speed: DeviceSpeed, setting: AccessPath) -> Path {
        Path::choose(&Wanted::new(&orders(), columns, tests), &costs(speed), setting)
    }

    #[test]
    fn the_cheapest_tree_is_read() {
        let all = [0, 1, 2, 3];
        let cases: [(&str, &[usize], Vec<ColumnTest>, &str); 8] = [
            ("no condition", &all, vec![], "orders, all 10000 leaf pages"),
            ("a key", &all, vec![equal(0, 7)], "orders by primary key, 1 key: o = 7"),
            (
                "a narrow range of keys",
                &all,
                vec![compare(0, CompareOp::Less, 100)],
                "orders by primary key, 1 range: o < 100",
            ),
            ("a rare value", &all, vec![equal(1, 7)], "orders by index by_customer, 1 range: customer = 7"),
            ("a common value", &all, vec![equal(2, 7)], "orders, all 10000 leaf pages"),
            (
                "a common value of a covering index",
                &[2, 3],
                vec![equal(2, 7)],
                "orders by index by_state, index only, 1 range: state = 7",
            ),
            (
                "what an index has without a condition",
                &[2, 3],
                vec![],
                "orders by index by_state, index only, all 2500 leaf pages",
            ),
            (
                "the rarer of two",
                &all,
                vec![equal(2, 7), equal(1, 3)],
                "orders by index by_customer, 1 range: customer = 3",
            ),
        ];
        for (what, columns, tests, path) in cases {
            assert_eq!(path_text(&chosen(columns, &tests, CLOUD, AccessPath::Auto)), path, "{what}");
        }
    }

    #[test]
    fn alternatives_bound_keys_that_no_test_does() {
        let table = orders();
        let alternatives = [vec![vec![equal(0, 70)], vec![equal(0, 7), equal(2, 3)]]];
        let wanted = |tests| Wanted {
            alternatives: &alternatives,
            other_selectivity: 2e-6,
            ..Wanted::new(&table, &[0, 1, 2, 3], tests)
        };
        let path = Path::choose(&wanted(&[]), &costs(CLOUD), AccessPath::Auto);
        assert_eq!(path_text(&path), "orders by primary key, 2 keys: o = 70 or o = 7");
        let tests = [compare(0, CompareOp::Less, 50)];
        let path = Path::choose(&wanted(&tests), &costs(CLOUD), AccessPath::Auto);
        assert_eq!(path.bounds.expect("bounded").ranges.len(), 2, "a key is one whatever else is said of it");
        let mut open = [equal(1, 9)];
        open[0].parameter = Some(1);
        let path = Path::choose(&wanted(&open), &costs(CLOUD), AccessPath::Auto);
        assert!(path.access.index.is_some(), "a plan that is kept finds its bounds again by its tests");
    }

    #[test]
    fn a_device_that_seeks_slowly_looks_fewer_rows_up() {
        let some = [ColumnTest::new(1, Test::OneOf { values: (0..30).map(Value::Int4).collect(), negated: false })];
        let all = [0, 1, 2, 3];
        assert!(chosen(&all, &some, CLOUD, AccessPath::Auto).access.index.is_some());
        assert!(chosen(&all, &some, DISK, AccessPath::Auto).access.index.is_none());
    }

    #[test]
    fn a_setting_overrides_the_costs() {
        let all = [0, 1, 2, 3];
        let scan = chosen(&all, &[equal(0, 7)], CLOUD, AccessPath::Scan);
        assert!(scan.bounds.is_none() && scan.access.index.is_none());
        let index = chosen(&all, &[equal(2, 7)], DISK, AccessPath::Index);
        assert_eq!(path_text(&index), "orders by index by_state, 1 range: state = 7");
        let nothing_to_bound = chosen(&all, &[equal(3, 7)], CLOUD, AccessPath::Index);
        assert!(nothing_to_bound.bounds.is_none());
    }

    #[test]
    fn only_a_whole_unique_key_is_one_row() {
        let all = [0, 1];
        let cases = [
            (vec![equal(0, 7)], true),
            (
                vec![ColumnTest::new(0, Test::OneOf { values: vec![Value::Int4(1), Value::Int4(2)], negated: false })],
                false,
            ),
            (vec![compare(0, CompareOp::Less, 2)], false),
            (vec![equal(1, 7)], false),
            (vec![], false),
        ];
        for (tests, is_one) in cases {
            assert_eq!(chosen(&all, &tests, CLOUD, AccessPath::Auto).is_one_row(), is_one, "{tests:?}");
        }
    }

    #[test]
    fn a_limit_without_conditions_reads_a_part() {
        let table = orders();
        let seconds = |tests: &[ColumnTest], limit| {
            let wanted = Wanted { limit, ..Wanted::new(&table, &[0, 1, 2, 3], tests) };
            Path::choose(&wanted, &costs(CLOUD), AccessPath::Scan).estimate.seconds
        };
        assert!(seconds(&[], Some(10)) < seconds(&[], None) / 10.0);
        assert_eq!(seconds(&[equal(2, 7)], Some(10)), seconds(&[equal(2, 7)], None), "who knows where the rows lie");
    }

    #[test]
    fn rows_are_what_all_conditions_leave() {
        let table = orders();
        let wanted = |tests, other_selectivity| Wanted { other_selectivity, ..Wanted::new(&table, &[0], tests) };
        let rows = |wanted: Wanted<'_>| Path::choose(&wanted, &costs(CLOUD), AccessPath::Auto).estimate.rows;
        assert_eq!(rows(wanted(&[], 1.0)), 1e6);
        assert!((rows(wanted(&[], 0.5)) - 5e5).abs() < 1.0);
        let by_state = [equal(2, 7)];
        assert!((rows(wanted(&by_state, 1.0)) - 5e4).abs() < 1.0);
    }

    #[test]
    fn rows_found_in_an_index_are_completed_from_the_primary_tree() {
        let tests = [equal(1, 7), equal(3, 9)];
        let table = orders();
        let wanted = Wanted::new(&table, &[0, 2], &tests);
        let path = Path::choose(&wanted, &costs(CLOUD), AccessPath::Auto);
        assert!(path.fetches_primary);
        let (chain, map) = path.chain(&wanted, Arc::new(()));
        let [link] = &chain.links[..] else { panic!("one fetch") };
        assert!(link.completes_previous && link.unique);
        assert_eq!(link.predicates.iter().map(|placed| placed.test.column).collect::<Vec<_>>(), [3]);
        assert_eq!(map.find(0).unwrap().step, 0, "the index has the key");
        assert_eq!(map.find(2).unwrap().step, 1);
    }

    const SETTINGS: &[AccessPath] = &[AccessPath::Auto, AccessPath::Scan, AccessPath::Index, AccessPath::Rows];

    fn any_test() -> impl Strategy<Value = ColumnTest> {
        let op = prop::sample::select(
            &[CompareOp::Equal, CompareOp::Less, CompareOp::GreaterOrEqual, CompareOp::NotEqual][..],
        );
        (0..3_usize, op, 0..1000_i32).prop_map(|(column, op, value)| compare(column, op, value))
    }

    proptest! {
        #[test]
        fn every_test_is_decided_by_the_bounds_or_placed_once(
            tests in prop::collection::vec(any_test(), 0..5),
            columns in prop::sample::subsequence(vec![0_usize, 1, 2, 3], 1..=4),
            setting in prop::sample::select(SETTINGS),
        ) {
            let table = orders();
            let (columns, tests) = (&columns[..], &tests[..]);
            let wanted = Wanted::new(&table, columns, tests);
            let path = Path::choose(&wanted, &costs(CLOUD), setting);
            let (chain, map) = path.chain(&wanted, Arc::new(()));
            let Origin::Ranges { predicates, .. } = &chain.origin else { panic!("a path begins in a tree") };
            let placed = predicates.len() + chain.links.iter().map(|link| link.predicates.len()).sum::<usize>();
            let decided = path.bounds.as_ref().map_or(0, |bounds| bounds.decided.len());
            prop_assert_eq!(placed + decided, tests.len());
            for column in columns {
                prop_assert!(map.find(*column).is_some());
            }
            prop_assert!(path.estimate.rows >= 0.0 && path.estimate.rows <= 1e6);
        }

        #[test]
        fn no_setting_finds_a_cheaper_path_than_auto(tests in prop::collection::vec(any_test(), 0..4)) {
            let seconds = |setting| chosen(&[0, 1, 2, 3], &tests, CLOUD, setting).estimate.seconds;
            for setting in [AccessPath::Index, AccessPath::Rows] {
                prop_assert!(seconds(AccessPath::Auto) <= seconds(setting));
            }
            // A range that turns out to be everything is descended to all the same.
            let descents = costs(CLOUD).random(20.0, 20.0) + costs(CLOUD).sequential(20.0, 0.0);
            prop_assert!(seconds(AccessPath::Auto) <= seconds(AccessPath::Scan) + descents);
        }
    }
}
