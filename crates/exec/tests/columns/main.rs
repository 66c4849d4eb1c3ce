//! Scans of segments against a naive filter over the same rows, under every way of running.

mod missing;
mod overlay;
mod table;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int64Array, StringViewArray};
use arrow_schema::DataType as ArrowType;
use proptest::prelude::*;
use saki_base::CHUNK_BYTES;
use saki_base::value::Value;
use saki_exec::{ColumnScan, ExecError, ExecutionOptions, ScanExecution, SegmentReader, VisitOrder};
use saki_vector::expr::{ArithmeticOp, CompareOp, LikePattern, ValueSet};
use saki_vector::{Batch, Column, Expr, KeyFilter, VectorError, form};
use table::{COMMENT, DAY, FLAG, Fixture, ID, NAME, NAMES, QUANTITY, Row, rows};

const MONEY: ArrowType = ArrowType::Decimal128(15, 2);

fn column(index: usize) -> Expr {
    let data_type = match index {
        ID => ArrowType::Int64,
        DAY => ArrowType::Date32,
        QUANTITY => MONEY,
        FLAG => ArrowType::Boolean,
        _ => ArrowType::Utf8,
    };
    Expr::Column { index, data_type }
}

fn literal(value: Value, data_type: ArrowType) -> Expr {
    Expr::Literal { value, data_type }
}

fn compare(op: CompareOp, index: usize, value: Value) -> Expr {
    let left = column(index);
    let right = literal(value, left.data_type());
    Expr::Compare { op, left: Box::new(left), right: Box::new(right) }
}

/// A condition, and what it means of a row. NULL passes nothing.
#[derive(Clone, Debug)]
enum Condition {
    IdBelow(i64),
    DayBetween(i32, i32),
    DayIsNull,
    QuantityAbove(i64),
    NameIs(usize),
    NameIn(Vec<usize>),
    NameNotIn(Vec<usize>),
    NameLike(&'static str),
    NameNotLike(&'static str),
    CommentContains(&'static str),
    Flag,
    NotFlag,
    EitherEnd(i64, i64),
    DoubledAbove(i64),
}

impl Condition {
    fn expr(&self) -> Expr {
        let names = |names: &[usize]| {
            Arc::new(ValueSet::new(names.iter().map(|name| Value::Text(NAMES[*name].to_owned())).collect::<Vec<_>>()))
        };
        let like = |index, pattern, negated| Expr::Like {
            expr: Box::new(column(index)),
            pattern: Arc::new(LikePattern::new(pattern, false)),
            negated,
        };
        match self {
            Self::IdBelow(id) => compare(CompareOp::Less, ID, Value::Int8(*id)),
            Self::DayBetween(first, last) => Expr::And(vec![
                compare(CompareOp::GreaterOrEqual, DAY, Value::Date(*first)),
                compare(CompareOp::LessOrEqual, DAY, Value::Date(*last)),
            ]),
            Self::DayIsNull => Expr::IsNull(Box::new(column(DAY))),
            Self::QuantityAbove(least) => compare(CompareOp::Greater, QUANTITY, Value::Decimal((*least).into())),
            Self::NameIs(name) => compare(CompareOp::Equal, NAME, Value::Text(NAMES[*name].to_owned())),
            Self::NameIn(list) => Expr::InList { expr: Box::new(column(NAME)), values: names(list), negated: false },
            Self::NameNotIn(list) => Expr::InList { expr: Box::new(column(NAME)), values: names(list), negated: true },
            Self::NameLike(prefix) => like(NAME, &format!("{prefix}%"), false),
            Self::NameNotLike(prefix) => like(NAME, &format!("{prefix}%"), true),
            Self::CommentContains(part) => like(COMMENT, &format!("%{part}%"), false),
            Self::Flag => column(FLAG),
            Self::NotFlag => Expr::Not(Box::new(column(FLAG))),
            Self::EitherEnd(low, high) => Expr::Or(vec![
                compare(CompareOp::Less, ID, Value::Int8(*low)),
                Expr::Not(Box::new(compare(CompareOp::LessOrEqual, ID, Value::Int8(*high)))),
            ]),
            Self::DoubledAbove(least) => {
                let two = literal(Value::Int8(2), ArrowType::Int64);
                let doubled = Expr::Arithmetic {
                    op: ArithmeticOp::Multiply,
                    left: Box::new(column(ID)),
                    right: Box::new(two),
                    data_type: ArrowType::Int64,
                };
                let least = literal(Value::Int8(*least), ArrowType::Int64);
                Expr::Compare { op: CompareOp::Greater, left: Box::new(doubled), right: Box::new(least) }
            }
        }
    }

    fn passes(&self, row: &Row) -> bool {
        let name = row.name.as_deref();
        match self {
            Self::IdBelow(id) => row.id < *id,
            Self::DayBetween(first, last) => row.day.is_some_and(|day| (*first..=*last).contains(&day)),
            Self::DayIsNull => row.day.is_none(),
            Self::QuantityAbove(least) => row.quantity > *least,
            Self::NameIs(wanted) => name == Some(NAMES[*wanted]),
            Self::NameIn(list) => name.is_some_and(|name| list.iter().any(|wanted| NAMES[*wanted] == name)),
            Self::NameNotIn(list) => name.is_some_and(|name| list.iter().all(|wanted| NAMES[*wanted] != name)),
            Self::NameLike(prefix) => name.is_some_and(|name| name.starts_with(prefix)),
            Self::NameNotLike(prefix) => name.is_some_and(|name| !name.starts_with(prefix)),
            Self::CommentContains(part) => row.comment.contains(part),
            Self::Flag => row.flag == Some(true),
            Self::NotFlag => row.flag == Some(false),
            Self::EitherEnd(low, high) => row.id < *low || row.id > *high,
            Self::DoubledAbove(least) => row.id * 2 > *least,
        }
    }
}

/// Keys that rows have to have a partner among.
#[derive(Clone, Debug)]
enum Keys {
    Ids(Vec<i64>),
    Names(Vec<usize>),
}

impl Keys {
    fn filter(&self) -> (usize, Arc<KeyFilter>) {
        let (column, array): (usize, ArrayRef) = match self {
            Self::Ids(ids) => (ID, Arc::new(Int64Array::from(ids.clone()))),
            Self::Names(names) => {
                (NAME, Arc::new(names.iter().map(|name| Some(NAMES[*name])).collect::<StringViewArray>()))
            }
        };
        (column, Arc::new(KeyFilter::of(&[&Column::new(array)]).expect("integers and text have filters")))
    }

    fn passes(&self, row: &Row) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(&row.id),
            Self::Names(names) => row.name.as_ref().is_some_and(|name| names.iter().any(|key| NAMES[*key] == name)),
        }
    }
}

fn keys() -> impl Strategy<Value = Option<Keys>> {
    let ids = proptest::collection::vec(0..60_000i64, 0..200);
    let close = (0..60_000i64, 0..900i64).prop_map(|(first, count)| (first..first + count).collect());
    let names = proptest::collection::vec(0..6usize, 0..3);
    let one = prop_oneof![ids.prop_map(Keys::Ids), close.prop_map(Keys::Ids), names.prop_map(Keys::Names)];
    proptest::option::of(one)
}

fn scan(fixture: &Fixture, output: &[usize], filter: &[Condition], limit: Option<usize>) -> ColumnScan {
    ColumnScan {
        table: Arc::clone(&fixture.table),
        output: output.to_vec(),
        filter: filter.iter().map(Condition::expr).collect(),
        keys: Vec::new(),
        limit,
        snapshot: fixture.volume.hold(),
        overlay: None,
        overlay_apart: false,
    }
}

fn options(partitions: usize) -> ExecutionOptions {
    ExecutionOptions { partitions, ..ExecutionOptions::default() }
}

/// The rows of a batch as text.
fn texts(batch: &Batch, output: &[usize]) -> Vec<Vec<Option<String>>> {
    let columns: Vec<Vec<Option<String>>> = output
        .iter()
        .zip(&batch.columns)
        .map(|(index, column)| {
            let array = column.array();
            match *index {
                ID | QUANTITY => array.as_primitive::<Int64Type>().iter().map(|v| v.map(|v| v.to_string())).collect(),
                DAY => array.as_primitive::<Date32Type>().iter().map(|v| v.map(|v| v.to_string())).collect(),
                FLAG => array.as_boolean().iter().map(|v| v.map(|v| v.to_string())).collect(),
                _ => {
                    let views = form::text_views(column).unwrap();
                    views.as_string_view().iter().map(|v| v.map(str::to_owned)).collect()
                }
            }
        })
        .collect();
    (0..batch.rows).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

/// All rows of an execution, its partitions polled in threads of their own.
fn collect(execution: &Arc<ScanExecution>, output: &[usize]) -> Result<Vec<Vec<Option<String>>>, ExecError> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..execution.partitions())
            .map(|partition| {
                let mut stream = execution.open(partition);
                scope.spawn(move || {
                    let mut rows = Vec::new();
                    while let Some(batch) = stream.next_blocking() {
                        let batch = batch?;
                        assert!(batch.rows > 0 && batch.rows <= saki_vector::BATCH_ROWS);
                        for column in &batch.columns {
                            assert_eq!(column.len(), batch.rows);
                        }
                        rows.extend(texts(&batch, output));
                    }
                    Ok(rows)
                })
            })
            .collect();
        let mut rows = Vec::new();
        for thread in threads {
            rows.extend(thread.join().expect("no partition panics")?);
        }
        rows.sort();
        Ok(rows)
    })
}

fn expected(rows: &[Row], output: &[usize], filter: &[Condition]) -> Vec<Vec<Option<String>>> {
    let passing = rows.iter().filter(|row| filter.iter().all(|condition| condition.passes(row)));
    let mut rows: Vec<Vec<_>> = passing.map(|row| output.iter().map(|column| row.text(*column)).collect()).collect();
    rows.sort();
    rows
}

/// Whether each row of `part` is one of `all`, and no more often. Both ascend.
fn is_part(part: &[Vec<Option<String>>], all: &[Vec<Option<String>>]) -> bool {
    let mut left = all.iter();
    part.iter().all(|row| left.any(|other| other == row))
}

fn run(reader: &Arc<SegmentReader>, scan: ColumnScan, options: &ExecutionOptions) -> Arc<ScanExecution> {
    reader.run(scan, options)
}

fn conditions() -> impl Strategy<Value = Vec<Condition>> {
    let one = prop_oneof![
        (0..60_000i64).prop_map(Condition::IdBelow),
        (8990..9400i32, 0..200i32).prop_map(|(first, days)| Condition::DayBetween(first, first + days)),
        Just(Condition::DayIsNull),
        (0..5000i64).prop_map(Condition::QuantityAbove),
        (0..6usize).prop_map(Condition::NameIs),
        proptest::collection::vec(0..6usize, 1..4).prop_map(Condition::NameIn),
        proptest::collection::vec(0..6usize, 1..4).prop_map(Condition::NameNotIn),
        prop_oneof![Just("am"), Just("amberl"), Just("z"), Just("b")].prop_map(Condition::NameLike),
        prop_oneof![Just("am"), Just("c")].prop_map(Condition::NameNotLike),
        prop_oneof![Just("abc"), Just("1"), Just("various")].prop_map(Condition::CommentContains),
        Just(Condition::Flag),
        Just(Condition::NotFlag),
        (0..20_000i64, 0..60_000i64).prop_map(|(low, high)| Condition::EitherEnd(low, high)),
        (0..90_000i64).prop_map(Condition::DoubledAbove),
    ];
    proptest::collection::vec(one, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_scan_is_a_naive_filter(
        seed in 0..1000u64,
        count in prop_oneof![0..300usize, 0..20_000usize],
        segment_rows in prop_oneof![Just(97usize), Just(1000), Just(9000), Just(20_000)],
        filters in proptest::collection::vec(conditions(), 1..4),
        output in proptest::sample::subsequence(vec![ID, DAY, QUANTITY, NAME, COMMENT, FLAG], 0..=6),
        partitions in 1..4usize,
        in_order in any::<bool>(),
        by_pages in any::<bool>(),
        cache_bytes in prop_oneof![Just(0usize), Just(30_000), Just(64 << 20)],
        memory_bytes in prop_oneof![Just(1usize), Just(64 << 20)],
        limit in proptest::option::of(0..5000usize),
        keys in keys(),
    ) {
        let rows = rows(seed, count);
        let fixture = Fixture::new(seed, &rows, segment_rows);
        let reader = if by_pages { fixture.reader_by_pages(cache_bytes) } else { fixture.reader(cache_bytes) };
        let order = if in_order { VisitOrder::InOrder } else { VisitOrder::OutOfOrder };
        let options = ExecutionOptions { order, memory_bytes, ..options(partitions) };
        for filter in &filters {
            let everything = expected(&rows, &output, filter);
            if let Some(keys) = &keys {
                // A filter of keys may let more through than have a partner, and no fewer.
                let keyed = ColumnScan { keys: vec![keys.filter()], ..scan(&fixture, &output, filter, None) };
                let found = collect(&run(&reader, keyed, &options), &output).unwrap();
                let passing: Vec<Row> = rows.iter().filter(|row| keys.passes(row)).cloned().collect();
                prop_assert!(is_part(&expected(&passing, &output, filter), &found));
                prop_assert!(is_part(&found, &everything));
            }
            // The second time, what the cache has kept is used.
            for _ in 0..2 {
                let execution = run(&reader, scan(&fixture, &output, filter, None), &options);
                prop_assert_eq!(&collect(&execution, &output).unwrap(), &everything);
                prop_assert_eq!(execution.metrics().rows.load(Ordering::Relaxed), everything.len() as u64);
            }
            let found = collect(&run(&reader, scan(&fixture, &output, filter, limit), &options), &output).unwrap();
            prop_assert_eq!(found.len(), limit.unwrap_or(usize::MAX).min(everything.len()));
            prop_assert!(is_part(&found, &everything));
            prop_assert!(reader.cache().bytes() <= cache_bytes);
        }
    }
}

#[test]
fn zones_rule_segments_out_and_the_rest_is_read_late() {
    let rows = rows(1, 20_000);
    let fixture = Fixture::new(1, &rows, 1000);
    let reader = fixture.reader(64 << 20);
    let filter = [Condition::IdBelow(3 * 1500)];
    let execution = run(&reader, scan(&fixture, &[COMMENT], &filter, None), &options(2));
    assert_eq!(collect(&execution, &[COMMENT]).unwrap().len(), 1500);
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let metrics = execution.metrics();
    assert_eq!((get(&metrics.segments), get(&metrics.segments_pruned)), (20, 18));
    // The first segment passes as a whole by its zone: its ids are not read.
    assert_eq!(get(&metrics.runs_read), 3, "{metrics}");

    // A value between those of every segment's zones, and of no row: no other column is read.
    let filter = [Condition::NameNotLike("am"), Condition::NameLike("am")];
    let execution = run(&reader, scan(&fixture, &[ID, COMMENT], &filter, None), &options(2));
    assert_eq!(collect(&execution, &[ID, COMMENT]).unwrap().len(), 0);
    let metrics = execution.metrics();
    assert_eq!(get(&metrics.runs_read) + get(&metrics.runs_cached), 20, "{metrics}");
    assert_eq!(get(&metrics.segments_skipped), 20);
}

#[test]
fn keys_rule_segments_and_rows_out() {
    let rows = rows(10, 20_000);
    let fixture = Fixture::new(10, &rows, 1000);
    let reader = fixture.reader(64 << 20);
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let scan_with = |keys: Keys| {
        let scan = ColumnScan { keys: vec![keys.filter()], ..scan(&fixture, &[ID], &[], None) };
        let execution = run(&reader, scan, &options(2));
        (collect(&execution, &[ID]).unwrap(), execution)
    };
    let (found, scanned) = scan_with(Keys::Ids(vec![3, 6, 30_003, -5]));
    assert_eq!(found.len(), 3, "few integers are known exactly");
    assert_eq!(get(&scanned.metrics().segments_pruned_by_keys), 18, "{}", scanned.metrics());
    let (found, scanned) = scan_with(Keys::Ids(Vec::new()));
    assert_eq!((found.len(), get(&scanned.metrics().runs_read)), (0, 0));
}

#[test]
fn nothing_is_read_to_count_rows() {
    let rows = rows(2, 5000);
    let fixture = Fixture::new(2, &rows, 700);
    let reader = fixture.reader(64 << 20);
    let execution = run(&reader, scan(&fixture, &[], &[], None), &options(1));
    assert_eq!(collect(&execution, &[]).unwrap().len(), 5000);
    assert_eq!(execution.metrics().runs_read.load(Ordering::Relaxed), 0);
}

#[test]
fn queries_at_once_share_reads_and_what_was_decoded() {
    let rows = rows(3, 20_000);
    let fixture = Fixture::new(3, &rows, 500);
    let reader = fixture.reader(64 << 20);
    let output = [ID, NAME, COMMENT];
    let all = expected(&rows, &output, &[]);
    let executions: Vec<_> = (0..3).map(|_| run(&reader, scan(&fixture, &output, &[], None), &options(2))).collect();
    std::thread::scope(|scope| {
        for execution in &executions {
            scope.spawn(|| assert_eq!(collect(execution, &output).unwrap(), all));
        }
    });
    let read: u64 = executions.iter().map(|execution| execution.metrics().runs_read.load(Ordering::Relaxed)).sum();
    assert_eq!(read, 3 * 40, "each run once");
    reader.cache().clear();
    assert_eq!(reader.cache().bytes(), 0);
}

#[test]
fn a_flipped_byte_is_an_error_that_names_table_and_column() {
    let rows = rows(4, 3000);
    let fixture = Fixture::new(4, &rows, 1000);
    let damaged = &fixture.table.segments[1].columns[NAME];
    let location = fixture.volume.locate(damaged.first_page).unwrap();
    let offset = location.offset() + fixture.volume.page_size().offset_in_chunk(damaged.first_page) as u64;
    let mut page = vec![0; 4096];
    fixture.device.peek(offset, &mut page);
    page[damaged.bytes as usize / 2 % 4096] ^= 0x10;
    fixture.overwrite(offset, &page);
    let reader = fixture.reader(64 << 20);
    for _ in 0..2 {
        let execution = run(&reader, scan(&fixture, &[NAME], &[], None), &options(2));
        let error = collect(&execution, &[NAME]).unwrap_err();
        assert!(matches!(&error, ExecError::Segment { segment: 1, column, .. } if column == "name"), "{error}");
        assert!(error.to_string().contains("things") && error.to_string().contains("checksum"), "{error}");
    }
    let execution = run(&reader, scan(&fixture, &[ID, DAY], &[], None), &options(2));
    assert_eq!(collect(&execution, &[ID, DAY]).unwrap().len(), 3000, "other columns are not affected");
    // What was damaged has not stayed: the bytes are read again.
    page[damaged.bytes as usize / 2 % 4096] ^= 0x10;
    fixture.overwrite(offset, &page);
    let execution = run(&reader, scan(&fixture, &[NAME], &[], None), &options(2));
    assert_eq!(collect(&execution, &[NAME]).unwrap().len(), 3000);
}

#[test]
fn a_device_that_fails_ends_the_scan_and_not_the_reader() {
    let rows = rows(5, 3000);
    let fixture = Fixture::new(5, &rows, 500);
    let reader = fixture.reader(64 << 20);
    let location = fixture.volume.locate(fixture.table.segments[2].columns[ID].first_page).unwrap();
    fixture.device.faults().fail_range(location.offset()..location.offset() + CHUNK_BYTES as u64);
    let error = collect(&run(&reader, scan(&fixture, &[ID], &[], None), &options(2)), &[ID]).unwrap_err();
    assert!(matches!(&error, ExecError::Segment { column, .. } if column == "id"), "{error}");
    fixture.device.faults().heal();
    let all = collect(&run(&reader, scan(&fixture, &[ID], &[], None), &options(2)), &[ID]).unwrap();
    assert_eq!(all.len(), 3000);
}

#[test]
fn errors_of_values_reach_the_consumer_unless_other_conditions_rule_them_out() {
    let rows = rows(6, 2000);
    let fixture = Fixture::new(6, &rows, 500);
    let reader = fixture.reader(64 << 20);
    let one = || Box::new(literal(Value::Int8(1), ArrowType::Int64));
    let ratio = Expr::Arithmetic {
        op: ArithmeticOp::Divide,
        left: one(),
        right: Box::new(column(ID)),
        data_type: ArrowType::Int64,
    };
    let divides = Expr::Compare { op: CompareOp::Less, left: Box::new(ratio), right: one() };
    let mut failing = scan(&fixture, &[ID], &[], None);
    failing.filter = vec![divides.clone()];
    let error = collect(&run(&reader, failing.clone(), &options(1)), &[ID]).unwrap_err();
    assert!(matches!(error, ExecError::Vector(VectorError::DivisionByZero)), "{error}");
    failing.filter = vec![divides, compare(CompareOp::Greater, ID, Value::Int8(3))];
    assert_eq!(collect(&run(&reader, failing, &options(1)), &[ID]).unwrap().len(), 1998);
}

#[test]
fn a_dropped_scan_stops_reading_and_leaves_nothing_behind() {
    let rows = rows(7, 20_000);
    let fixture = Fixture::new(7, &rows, 100);
    let reader = fixture.reader(64 << 20);
    fixture.device.faults().hold(true);
    let scanned = run(&reader, scan(&fixture, &[ID, COMMENT], &[], None), &options(1));
    let mut stream = scanned.open(0);
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(stream.poll_next(&mut context), Poll::Pending));
    let asked = scanned.metrics();
    drop(stream);
    let read = asked.runs_read.load(Ordering::Relaxed);
    assert!(read > 0 && read < 2 * 200, "it has asked for {read} runs of 400");
    fixture.device.faults().hold(false);
    // The reader is there for others, and its counts come down again.
    let again = run(&reader, scan(&fixture, &[ID], &[], None), &options(1));
    assert_eq!(collect(&again, &[ID]).unwrap().len(), 20_000);
    for _ in 0..500 {
        if fixture.volume.governor().in_flight() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(fixture.volume.governor().in_flight(), 0);
}

#[test]
fn a_limit_stops_reading() {
    let rows = rows(8, 20_000);
    let fixture = Fixture::new(8, &rows, 100);
    let reader = fixture.reader(64 << 20);
    let execution = run(&reader, scan(&fixture, &[ID], &[], Some(150)), &options(2));
    assert_eq!(collect(&execution, &[ID]).unwrap().len(), 150);
    let read = execution.metrics().runs_read.load(Ordering::Relaxed);
    assert!(read <= 8, "{read} segments were read for two");
}

#[test]
fn bounds_come_from_zones() {
    let rows = rows(9, 4000);
    let fixture = Fixture::new(9, &rows, 4000);
    let reader = fixture.reader(64 << 20);
    let mut stream = run(&reader, scan(&fixture, &[QUANTITY, NAME], &[], None), &options(1)).open(0);
    let batch = stream.next_blocking().unwrap().unwrap();
    let bounds = batch.columns[0].known_bounds().expect("a decimal that fits in 8 bytes");
    let quantities = || rows.iter().map(|row| row.quantity);
    assert_eq!((Some(bounds.min), Some(bounds.max)), (quantities().min(), quantities().max()));
    assert!(batch.columns[1].known_bounds().is_none());
    assert!(batch.columns[0].array().nulls().is_none());
}
