//! Loads are shared, decodes are shared, and nothing that is damaged stays.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use arrow_array::Int64Array;
use saki_base::value::Value;
use saki_base::{DataType, checksum};
use saki_vector::expr::CompareOp;

use super::*;
use crate::codec::{EncodedColumn, Encodings};
use crate::segment::ColumnRun;
use crate::{Codec, Zone};

/// Eight bytes a value, and a count of what it was asked for.
#[derive(Default)]
struct Plain {
    decodes: AtomicUsize,
    selects: AtomicUsize,
}

fn values(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(8).map(|value| i64::from_le_bytes(value.try_into().unwrap())).collect()
}

impl Codec for Plain {
    fn encode_among(&self, _: &Column, _: DataType, _: Option<Encodings>) -> Result<EncodedColumn, ColumnsError> {
        Err(ColumnsError::Unsupported("only read here".into()))
    }

    fn decode(&self, bytes: &Buffer, _: DataType, _: usize) -> Result<Column, ColumnsError> {
        self.decodes.fetch_add(1, Ordering::Relaxed);
        Ok(Column::new(Arc::new(Int64Array::from(values(bytes)))))
    }

    fn select(&self, bytes: &Buffer, _: DataType, _: usize, test: &Test) -> Result<Option<BooleanArray>, ColumnsError> {
        self.selects.fetch_add(1, Ordering::Relaxed);
        let passes = |value| Some(test.passes(Value::Int8(value).as_ref()));
        Ok(Some(values(bytes).into_iter().map(passes).collect()))
    }
}

const ROWS: usize = 1000;

fn blob(seed: i64) -> Vec<u8> {
    (0..ROWS as i64).flat_map(|row| (row * seed).to_le_bytes()).collect()
}

fn column_run(page: u64, blob: &[u8]) -> ColumnRun {
    let zone = Zone { min: Value::Int8(0), max: Value::Int8(1 << 40), ..Zone::default() };
    ColumnRun { first_page: PageAddress(page), bytes: blob.len() as u32, checksum: checksum(blob), zone }
}

fn content<'a>(run: &'a ColumnRun, codec: &'a Plain) -> RunContent<'a> {
    RunContent { run, data_type: DataType::Int8, rows: ROWS, codec }
}

/// As read: the blob and the zeros that fill up its last page.
fn pages(blob: &[u8]) -> Buffer {
    let mut bytes = blob.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    Buffer::from_vec(bytes)
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_load_and_a_decode_are_shared() {
    let (cache, codec) = (ColumnCache::new(1 << 20), Plain::default());
    let bytes = blob(3);
    let run = column_run(7, &bytes);
    let Fetch::Begun(first) = cache.fetch(run.first_page) else { panic!("nobody has read it") };
    let Fetch::Joined(second) = cache.fetch(run.first_page) else { panic!("it is on its way") };
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    assert!(first.poll(&mut context).is_pending() && second.poll(&mut context).is_pending());
    assert!(!first.has_ended());
    cache.finish(run.first_page, Ok(pages(&bytes)));
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "one who waits twice is woken once");
    let Poll::Ready(Ok(resident)) = second.poll(&mut context) else { panic!("it has come") };
    let column = cache.column(&resident, &content(&run, &codec)).unwrap();
    assert_eq!(column.known_bounds().unwrap().max, 1 << 40);
    assert!(!resident.is_decoded(), "one use is not worth the memory");
    for _ in 0..2 {
        let Fetch::Resident(again) = cache.fetch(run.first_page) else { panic!("it stays") };
        cache.column(&again, &content(&run, &codec)).unwrap();
        assert!(again.is_decoded());
    }
    assert_eq!(codec.decodes.load(Ordering::Relaxed), 2, "once for the first use, once for all others");
    assert!(cache.bytes() >= 8 * ROWS && cache.bytes() < 9 * ROWS, "{} bytes", cache.bytes());
    cache.clear();
    assert!(!cache.contains(run.first_page));
    assert_eq!(resident.page(), run.first_page, "who holds it keeps it");
}

#[test]
fn a_load_that_nobody_waits_for_is_forgotten() {
    let cache = ColumnCache::new(1 << 20);
    let page = PageAddress(1);
    drop(cache.fetch(page));
    cache.abandon(page);
    let Fetch::Begun(load) = cache.fetch(page) else { panic!("it begins anew") };
    // The first load's read comes late, and is as good as the second's.
    cache.finish(page, Ok(pages(&blob(1))));
    assert!(load.has_ended() && cache.contains(page));
    cache.finish(page, Ok(pages(&blob(1))));
    assert_eq!(cache.bytes(), 8192);
    // Somebody waits: there is nothing to abandon.
    let other = PageAddress(2);
    let Fetch::Begun(_load) = cache.fetch(other) else { panic!("new") };
    cache.abandon(other);
    assert!(matches!(cache.fetch(other), Fetch::Joined(_)));
}

#[test]
fn what_is_damaged_or_fails_does_not_stay() {
    let (cache, codec) = (ColumnCache::new(1 << 20), Plain::default());
    let bytes = blob(5);
    let run = column_run(3, &bytes);
    let mut flipped = bytes.clone();
    flipped[100] ^= 1;
    let Fetch::Begun(load) = cache.fetch(run.first_page) else { panic!("new") };
    cache.finish(run.first_page, Ok(pages(&flipped)));
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(resident)) = load.poll(&mut context) else { panic!("it has come") };
    let error = cache.column(&resident, &content(&run, &codec)).unwrap_err();
    assert!(matches!(&error, ColumnsError::Corrupt(what) if what.contains("checksum")), "{error}");
    assert_eq!(codec.decodes.load(Ordering::Relaxed), 0, "the library never sees damaged bytes");
    let Fetch::Begun(load) = cache.fetch(run.first_page) else { panic!("it is read again") };
    cache.finish(run.first_page, Err(ColumnsError::Storage("the device is gone".into())));
    assert!(matches!(load.poll(&mut context), Poll::Ready(Err(ColumnsError::Storage(_)))));
    assert!(matches!(cache.fetch(run.first_page), Fetch::Begun(_)));
    // Fewer rows than the segment has.
    cache.finish(run.first_page, Ok(pages(&bytes)));
    let Fetch::Resident(resident) = cache.fetch(run.first_page) else { panic!("it has come") };
    let wrong = RunContent { rows: ROWS + 1, ..content(&run, &codec) };
    assert!(matches!(cache.column(&resident, &wrong), Err(ColumnsError::Corrupt(_))));
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn a_run_is_tested_encoded_once_and_then_decoded() {
    let (cache, codec) = (ColumnCache::new(1 << 20), Plain::default());
    let bytes = blob(2);
    let run = column_run(9, &bytes);
    let Fetch::Begun(load) = cache.fetch(run.first_page) else { panic!("new") };
    cache.finish(run.first_page, Ok(pages(&bytes)));
    let Poll::Ready(Ok(resident)) = load.poll(&mut Context::from_waker(Waker::noop())) else { panic!("it has come") };
    let test = Test::Compare(CompareOp::Less, Value::Int8(20));
    let rows = cache.select(&resident, &content(&run, &codec), &test).unwrap().expect("the codec can");
    assert_eq!((rows.len(), rows.true_count()), (ROWS, 10));
    let Fetch::Resident(resident) = cache.fetch(run.first_page) else { panic!("it stays") };
    assert!(cache.select(&resident, &content(&run, &codec), &test).unwrap().is_none());
    cache.column(&resident, &content(&run, &codec)).unwrap();
    assert!(cache.select(&resident, &content(&run, &codec), &test).unwrap().is_none());
    assert_eq!((codec.selects.load(Ordering::Relaxed), codec.decodes.load(Ordering::Relaxed)), (1, 1));
}

#[test]
fn the_bound_holds_whatever_is_loaded_and_decoded() {
    let (cache, codec) = (ColumnCache::new(50_000), Plain::default());
    for round in 0..3 {
        for page in 0..40 {
            let bytes = blob(page + 1);
            let run = column_run(page as u64, &bytes);
            let resident = match cache.fetch(run.first_page) {
                Fetch::Resident(resident) => resident,
                Fetch::Begun(load) => {
                    cache.finish(run.first_page, Ok(pages(&bytes)));
                    match load.poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(Ok(resident)) => resident,
                        _ => panic!("it has come"),
                    }
                }
                Fetch::Joined(_) => panic!("nobody else is here"),
            };
            let column = cache.column(&resident, &content(&run, &codec)).unwrap();
            assert_eq!(column.len(), ROWS, "round {round}");
            assert!(cache.bytes() <= cache.capacity());
        }
    }
    assert!(cache.bytes() > 20_000, "{} bytes kept", cache.bytes());
}
