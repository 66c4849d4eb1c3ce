use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::fixture::{Bench, Shape};

fn sequence(catalog: &mut Catalog, max: i64, cycle: bool) -> Sequence {
    Sequence {
        id: catalog.new_table_id(),
        name: "s".to_owned(),
        schema: saki_catalog::PUBLIC.to_owned(),
        data_type: saki_base::DataType::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max,
        cycle,
        cache: 1,
        owner: None,
        position: SequencePosition { last_value: 1, is_called: false },
        version: 0,
        comment: None,
    }
}

fn bench(max: i64, cycle: bool) -> Bench {
    let bench = Bench::new(Shape::default());
    let made = bench.db().write(|writer| {
        let sequence = sequence(&mut writer.catalog, max, cycle);
        writer.catalog.put_sequence(sequence);
        Ok(())
    });
    made.expect("made");
    bench
}

fn next(bench: &Bench) -> Result<i64> {
    bench.db().sequences.next(&**bench.db(), "s").map(|(_, value)| value)
}

#[test]
fn values_follow_each_other_over_blocks() {
    let bench = bench(i64::MAX, false);
    let values: Vec<i64> = (0..200).map(|_| next(&bench).expect("a value")).collect();
    assert_eq!(values, (1..=200).collect::<Vec<_>>());
}

#[test]
fn no_value_is_given_again_after_the_process_has_ended() {
    let mut bench = bench(i64::MAX, false);
    let last = (0..40).fold(None, |_, _| Some(next(&bench).expect("a value")));
    bench.reopen();
    assert!(Some(next(&bench).expect("a value")) > last);
}

#[test]
fn a_sequence_ends_or_begins_anew() {
    let ends = bench(3, false);
    (0..3).for_each(|_| assert!(next(&ends).is_ok()));
    assert_eq!(next(&ends).expect_err("no more").sqlstate(), "2200H");
    let cycles = bench(3, true);
    let values: Vec<i64> = (0..5).map(|_| next(&cycles).expect("a value")).collect();
    assert_eq!(values, [1, 2, 3, 1, 2]);
}

#[test]
fn a_block_is_given_back_unless_others_took_values_behind_it() {
    let bench = bench(i64::MAX, false);
    let (sequences, mut block) = (&bench.db().sequences, None);
    assert_eq!(sequences.next_unpublished(&**bench.db(), "s", &mut block).expect("a value").1, 1);
    assert_eq!(sequences.next_unpublished(&**bench.db(), "s", &mut block).expect("a value").1, 2);
    sequences.give_back(block.take().expect("values are left"));
    assert_eq!(next(&bench).expect("a value"), 3);
    let mut block = None;
    sequences.next_unpublished(&**bench.db(), "s", &mut block).expect("a value");
    let behind = next(&bench).expect("a value");
    sequences.give_back(block.expect("values are left"));
    assert_eq!(next(&bench).expect("a value"), behind + 1);
}

#[test]
fn what_is_no_sequence_is_said_so() {
    let bench = bench(3, false);
    let of = |name: &str| bench.db().sequences.next(&**bench.db(), name).expect_err("none").sqlstate();
    assert_eq!((of("t"), of("nothing")), ("42809", "42P01"));
}

/// A database of nothing but a catalog, which may fail to publish.
struct Published {
    catalog: RefCell<Catalog>,
    fails: Cell<bool>,
}

/// The database as one process has it: what it has in memory, and what it publishes.
struct Running<'p> {
    published: &'p Published,
    sequences: Sequences,
}

impl Publisher for Running<'_> {
    fn sequence(&self, name: &str) -> Result<Arc<Sequence>> {
        find(&self.published.catalog.borrow(), name)
    }

    fn publish(&self, _: &Sequence) -> Result<()> {
        let before = self.published.catalog.borrow().clone();
        let mut after = before.clone();
        self.sequences.store(&mut after, &before, &Difference::default());
        if self.published.fails.take() {
            return Err(SqlError::storage("the device is away"));
        }
        self.published.catalog.replace(after);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A statement takes so many values.
    Next(u8),
    /// The statement that feeds a publication takes so many.
    Within(u8),
    /// Its publication commits, or fails.
    Commit,
    FailNext,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..60_u8).prop_map(Step::Next),
        4 => (1..60_u8).prop_map(Step::Within),
        3 => Just(Step::Commit),
        1 => Just(Step::FailNext),
        2 => Just(Step::Crash),
    ]
}

/// Values that somebody keeps: told to a client, or in rows that are durable. None comes twice.
#[derive(Default)]
struct Kept(BTreeSet<i64>);

impl Kept {
    fn keep(&mut self, value: i64) {
        assert!(self.0.insert(value), "{value} was given out before");
    }
}

fn run(steps: Vec<Step>, increment: i64) {
    let mut catalog = Catalog::default();
    let made = sequence(&mut catalog, i64::MAX, false);
    let (min, max, start) = if increment > 0 { (1, i64::MAX, 1) } else { (i64::MIN, -1, -1) };
    let position = SequencePosition { last_value: start, is_called: false };
    catalog.put_sequence(Sequence { increment, min, max, start, position, ..made });
    let published = Published { catalog: RefCell::new(catalog), fails: Cell::new(false) };
    let mut running = Running { published: &published, sequences: Sequences::default() };
    let (mut kept, mut block, mut waiting) = (Kept::default(), None, Vec::new());
    for step in steps {
        match step {
            Step::Next(count) => {
                for _ in 0..count {
                    if let Ok((_, value)) = running.sequences.next(&running, "s") {
                        assert!(!waiting.contains(&value), "{value} is somebody's already");
                        kept.keep(value);
                    }
                }
            }
            Step::Within(count) => {
                for _ in 0..count {
                    let next = running.sequences.next_unpublished(&running, "s", &mut block);
                    waiting.push(next.expect("there are more").1);
                }
            }
            Step::Commit => {
                let sequence = running.sequence("s").expect("made");
                let commits = running.publish(&sequence).is_ok();
                block.take().into_iter().for_each(|block| running.sequences.give_back(block));
                // What a failed publication had taken may come again: its rows are gone.
                waiting.drain(..).filter(|_| commits).for_each(|value| kept.keep(value));
            }
            Step::FailNext => published.fails.set(true),
            Step::Crash => {
                published.fails.set(false);
                (block, waiting) = (None, Vec::new());
                running = Running { published: &published, sequences: Sequences::default() };
            }
        }
    }
}

proptest! {
    #[test]
    fn no_value_comes_twice_over_crashes_and_failures(
        steps in prop::collection::vec(step(), 1..40),
        increment in prop::sample::select(vec![1_i64, 3, -1]),
    ) {
        run(steps, increment);
    }
}

#[test]
fn a_value_that_cannot_be_made_durable_is_not_given_out() {
    let mut catalog = Catalog::default();
    let made = sequence(&mut catalog, i64::MAX, false);
    catalog.put_sequence(made);
    let published = Published { catalog: RefCell::new(catalog), fails: Cell::new(true) };
    let running = Running { published: &published, sequences: Sequences::default() };
    assert!(running.sequences.next(&running, "s").is_err());
    assert_eq!(running.sequences.next(&running, "s").expect("it can now").1, 1);
}

#[test]
fn many_at_once_get_each_value_once() {
    let bench = bench(i64::MAX, false);
    let values = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..300).for_each(|_| values.lock().push(next(&bench).expect("a value"))));
        }
    });
    let mut values = values.into_inner();
    values.sort_unstable();
    assert_eq!(values, (1..=1_200).collect::<Vec<_>>());
}

#[test]
fn a_changed_sequence_goes_on_where_it_was_told_to() {
    let mut bench = bench(i64::MAX, false);
    (0..5).for_each(|_| drop(next(&bench)));
    let changed = bench.db().write(|writer| {
        let before = Arc::clone(writer.catalog.sequence("s").expect("made"));
        assert_eq!(writer.db.sequences.position(&before).last_value, 5);
        let position = writer.db.sequences.take(&before);
        assert_eq!(position.last_value, 5, "what is given out counts, not what is durable");
        let version = before.version + 1;
        writer.catalog.put_sequence(Sequence { increment: 10, version, position, ..Sequence::clone(&before) });
        Ok(())
    });
    changed.expect("published");
    assert_eq!(next(&bench).expect("a value"), 15);
    bench.reopen();
    assert!(next(&bench).expect("a value") >= 25);
}
