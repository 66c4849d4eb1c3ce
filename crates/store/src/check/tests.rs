use std::ops::Bound;
use std::sync::Arc;

use saki_base::{PageAddress, Part, PartKind};
use saki_catalog::{CATALOG_TREE, Result, Table};
use saki_columns::{SegmentsRoot, read_directory};
use saki_io::{Device, SimDevice};
use saki_page::IoShare;
use saki_tree::{Fetcher, TreeRoot, free_all};

use super::CheckFault;
use crate::fixture::logs::damage_logs;
use crate::fixture::{Bench, Shape, open_on, options, simulated};
use crate::reader::Entry;
use crate::writer::finish_tree;
use crate::{Database, OpenOptions, Writer};

/// A table of rows, after something was done to what the catalog says of it.
fn faults(spoil: impl FnOnce(&mut Table, TreeRoot)) -> Vec<CheckFault> {
    let bench = Bench::new(Shape::default());
    bench.load((0..2_000).map(|id| (id, id % 3))).expect("loaded");
    bench.check();
    let spoilt = bench.db().write(|writer| {
        let empty = TreeRoot::empty(writer.catalog.new_tree_id());
        let mut table = Table::clone(writer.catalog.table("t")?);
        spoil(&mut table, empty);
        writer.catalog.put(table);
        Ok(())
    });
    spoilt.expect("published");
    bench.db().check(&mut |_| {}).expect("checked").faults
}

#[test]
fn what_is_whole_is_counted() {
    let bench = Bench::new(Shape::default());
    bench.load((0..2_000).map(|id| (id, id % 3))).expect("loaded");
    let mut told = 0;
    let report = bench.db().check(&mut |_| told += 1).expect("checked");
    assert_eq!((report.tables, report.indexes, report.rows, report.segments), (1, 1, 2_000, 3));
    assert!(report.faults.is_empty() && report.pages > 0 && told > 0);
}

#[test]
fn an_index_without_its_entries_is_found() {
    let faults = faults(|table, empty| table.indexes[0].root = empty);
    assert!(faults.iter().any(|fault| fault.object == "t.t_v" && fault.what.contains("0 entries for 2000 rows")));
    assert!(faults.iter().any(|fault| fault.object == "volume"), "pages that nobody refers to: {faults:?}");
}

#[test]
fn segments_without_their_rows_are_found() {
    let faults = faults(|table, empty| table.root = empty);
    assert!(faults.iter().any(|fault| fault.object == "t"), "{faults:?}");
}

#[test]
fn a_wrong_count_is_found() {
    let faults = faults(|table, _| table.root.entries += 1);
    assert!(faults.iter().any(|fault| fault.object == "t"), "{faults:?}");
}

/// A table of rows on a simulated device.
fn on_device() -> (Arc<SimDevice>, Bench) {
    let device = simulated();
    let bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, Shape::default());
    bench.load((0..2_000).map(|id| (id, id % 3))).expect("loaded");
    bench.check();
    (device, bench)
}

fn faults_of(db: &Database) -> Vec<CheckFault> {
    db.drop_caches();
    db.check(&mut |_| {}).expect("checked").faults
}

/// Pages of a tree.
fn pages_of(db: &Database, root: &TreeRoot) -> Vec<PageAddress> {
    let mut fetcher = Fetcher::new(&db.cache, &db.store, &IoShare::new(u32::MAX)).expect("a lane");
    free_all(&mut fetcher, root).pages
}

/// Turns a bit of each page, one page after the other: each time `object` is said to be damaged.
fn each_is_found(device: &SimDevice, db: &Database, object: &str, pages: &[PageAddress]) {
    assert!(!pages.is_empty(), "{object} has pages");
    for (number, page) in pages.iter().enumerate() {
        let page_size = db.page_size();
        let place = db.volume.locate(*page).expect("mapped").offset() + page_size.offset_in_chunk(*page) as u64;
        // Within the first bytes: a run's last page is filled up with zeros, which nobody reads.
        let (at, bit) = (place + number as u64 * 7 % 40, number as u8 % 8);
        device.flip_bit(at, bit);
        let faults = faults_of(db);
        assert!(faults.iter().any(|fault| fault.object.starts_with(object)), "{object}, {page}: {faults:?}");
        device.flip_bit(at, bit);
    }
    assert_eq!(faults_of(db), [], "all bits are as they were");
}

#[test]
fn a_flipped_bit_is_found_in_every_page_of_a_table() {
    let (device, bench) = on_device();
    let (db, table) = (bench.db(), bench.table());
    each_is_found(&device, db, "t", &pages_of(db, &table.root));
    each_is_found(&device, db, "t.t_v", &pages_of(db, &table.indexes[0].root));
    let segments = table.segments.expect("columns are on");
    each_is_found(&device, db, "t", &pages_of(db, &segments.directory));
    let read = db.generation().segments(&table).expect("readable").expect("columns are on");
    let page_bytes = db.page_size().bytes();
    let runs: Vec<PageAddress> = read.segments.iter().flat_map(|segment| segment.pages(page_bytes)).collect();
    each_is_found(&device, db, "t", &runs);
}

#[test]
fn a_flipped_bit_is_found_in_the_catalog() {
    let (device, bench) = on_device();
    let db = bench.db();
    let root = TreeRoot::from_bytes(&db.volume.root()).expect("a catalog");
    assert_eq!(root.id, CATALOG_TREE);
    each_is_found(&device, db, "catalog", &pages_of(db, &root));
}

#[test]
fn a_damaged_superblock_is_told_and_mended_by_opening() {
    let (device, mut bench) = on_device();
    for place in [0, 512 << 10] {
        device.flip_bit(place + 100, 3);
        bench.reopen();
        let faults = faults_of(bench.db());
        assert!(faults.iter().all(|fault| fault.object == "volume") && faults.len() == 1, "{faults:?}");
        bench.reopen();
        assert_eq!(faults_of(bench.db()), []);
    }
}

#[test]
fn damaged_logs_are_found() {
    let (device, bench) = on_device();
    (0..50).for_each(|id| bench.commit(&[(id, Some(9))]));
    let path = bench.path();
    let directory = bench.close();
    let device = device as Arc<dyn Device>;
    let look = || {
        let options = OpenOptions { read_only: true, base_only: true, ..options() };
        let db = open_on(&device, &path, options).expect("opens without its logs");
        db.check(&mut |_| {}).expect("checked")
    };
    let whole = look();
    assert!(whole.faults.is_empty() && whole.logged >= 50, "{whole:?}");
    damage_logs(&path);
    assert!(look().faults.iter().any(|fault| fault.object == "logs"));
    drop(directory);
}

/// The faults of a table after its primary tree, or its index, was written anew with other entries.
fn rewritten(of_index: bool, change: impl Fn(usize, &mut Entry)) -> Vec<CheckFault> {
    let bench = Bench::new(Shape::default());
    bench.load((0..2_000).map(|id| (id, id % 3))).expect("loaded");
    let written = bench.db().write(|writer| {
        let mut table = Table::clone(writer.catalog.table("t")?);
        let root = if of_index { &mut table.indexes[0].root } else { &mut table.root };
        *root = again(writer, root, &change)?;
        writer.catalog.put(table);
        Ok(())
    });
    written.expect("published");
    faults_of(bench.db())
}

/// A tree in the place of another, with its entries changed.
fn again(writer: &mut Writer<'_>, root: &TreeRoot, change: &impl Fn(usize, &mut Entry)) -> Result<TreeRoot> {
    let mut loader = writer.trees().loader(root.id);
    let mut base = writer.db.base_reader();
    let mut entries = base.range(root, Bound::Unbounded, Bound::Unbounded)?;
    let mut number = 0;
    while let Some((key, row)) = entries.next()? {
        let mut entry = (key.to_vec(), row.to_vec());
        change(number, &mut entry);
        loader.push(&entry.0, &entry.1)?;
        number += 1;
    }
    writer.free_tree(root)?;
    finish_tree(loader)
}

#[test]
fn what_is_written_anew_unchanged_is_whole() {
    assert_eq!(rewritten(false, |_, _| {}), []);
    assert_eq!(rewritten(true, |_, _| {}), []);
}

#[test]
fn an_index_entry_of_another_row_is_found() {
    let faults = rewritten(true, |number, (key, _)| {
        // The last: keys still ascend.
        if number == 1_999 {
            *key.last_mut().expect("a key") ^= 0x02;
        }
    });
    assert!(faults.iter().any(|fault| fault.object == "t.t_v" && fault.what.contains("differ")), "{faults:?}");
}

#[test]
fn a_row_that_its_index_and_segments_do_not_have_is_found() {
    let faults = rewritten(false, |number, (_, row)| {
        if number == 77 {
            *row.last_mut().expect("a row") ^= 1;
        }
    });
    assert!(faults.iter().any(|fault| fault.object == "t.t_v"), "{faults:?}");
    assert!(faults.iter().any(|fault| fault.object == "t"), "{faults:?}");
}

#[test]
fn a_row_that_is_none_is_found() {
    let faults = rewritten(false, |number, (_, row)| {
        if number == 77 {
            row.truncate(1);
        }
    });
    assert!(faults.iter().any(|fault| fault.object == "t" && fault.what.contains("row")), "{faults:?}");
}

/// Faults after a change of the books.
fn booked(change: impl FnOnce(&mut Writer<'_>, &Table) -> Result<()>) -> Vec<CheckFault> {
    let bench = Bench::new(Shape::default());
    bench.load((0..2_000).map(|id| (id, id % 3))).expect("loaded");
    let table = bench.table();
    bench.db().write(|writer| change(writer, &table)).expect("published");
    faults_of(bench.db())
}

#[test]
fn a_chunk_that_holds_what_it_is_not_said_to_is_found() {
    let faults = booked(|writer, table| {
        // The same runs under another directory: nobody has said that they are its.
        let before = table.segments.expect("columns are on");
        let segments = read_directory(writer.reader(), &before, &table.segment_columns())?;
        let mut after = Table::clone(table);
        let other = SegmentsRoot::empty(writer.catalog.new_tree_id());
        let mut builder = crate::segments::builder(writer.trees(), table, &other, 1);
        segments.into_iter().try_for_each(|segment| builder.keep(segment))?;
        after.segments = Some(crate::segments::finish(writer.trees(), builder)?);
        writer.discard_tree(&before.directory)?;
        writer.catalog.put(after);
        Ok(())
    });
    assert!(!faults.is_empty() && faults.iter().all(|fault| fault.object == "volume"), "{faults:?}");
    assert!(faults.iter().all(|fault| fault.what.contains("has column ")), "{faults:?}");
}

#[test]
fn books_that_differ_from_what_is_in_use_are_found() {
    let leaked = booked(|writer, _| {
        let mut pages = writer.trees().pages();
        let part = Part::new(writer.catalog.new_tree_id(), PartKind::Leaves);
        pages.append(part, &vec![7; writer.db.page_size().bytes()])?;
        Ok(pages.finish()?)
    });
    assert!(leaked.iter().all(|fault| fault.object == "volume") && leaked.len() == 1, "{leaked:?}");
    let freed = booked(|writer, table| {
        let pages = pages_of(writer.db, &table.root);
        writer.trees().free(&pages[..1]);
        Ok(())
    });
    assert!(freed.iter().all(|fault| fault.object == "volume") && freed.len() == 1, "{freed:?}");
}
