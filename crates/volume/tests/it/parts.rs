//! Which parts lie in which chunks, and copies of chunks that are still being written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, DeviceId, PageRef, Part, PartKind, Random, TreeId};
use saki_io::Device;
use saki_page::{IoShare, PageStore};
use saki_volume::{Class, NewDevice, Publication, Role, Volume};

use crate::support::{create, device, open, page};

const LEAVES: Part = Part::new(TreeId(1), PartKind::Leaves);
const INNER: Part = Part::new(TreeId(1), PartKind::Inner);
const OTHER_INNER: Part = Part::new(TreeId(2), PartKind::Inner);
const COLUMN: Part = Part::new(TreeId(3), PartKind::Column(4));

/// Pages of 8 KiB in a chunk.
const FULL: u64 = 128;

/// Appends so many pages of each part, one of each in turn as long as it has some.
fn append(publication: &Publication, counts: &[(Part, u64)]) -> Vec<(Part, PageRef)> {
    let (mut writer, mut random) = (publication.writer(), Random::new(counts.len() as u64));
    let page_size = publication.volume().page_size();
    let mut pages = Vec::new();
    for round in 0..counts.iter().map(|(_, count)| *count).max().unwrap_or(0) {
        for (part, _) in counts.iter().filter(|(_, count)| round < *count) {
            pages.push((*part, writer.append(*part, &page(&mut random, page_size)).expect("appended")));
        }
    }
    writer.finish().expect("finished");
    pages
}

fn publish(volume: &Arc<Volume>, counts: &[(Part, u64)]) -> Vec<(Part, PageRef)> {
    let publication = volume.begin();
    let pages = append(&publication, counts);
    publication.commit(b"root").expect("committed");
    pages
}

/// The parts of each chunk, and how many chunks are so.
fn shapes(volume: &Volume) -> BTreeMap<Vec<Part>, usize> {
    let mut shapes = BTreeMap::new();
    for mut chunk in volume.published_chunks() {
        chunk.parts.sort_unstable();
        *shapes.entry(chunk.parts).or_default() += 1;
    }
    shapes
}

#[test]
fn large_parts_lie_apart_and_small_ones_together() {
    let device = device(1);
    let volume = create(&device, 8192);
    publish(&volume, &[(LEAVES, 3 * FULL + 5), (INNER, 7), (COLUMN, 2 * FULL), (OTHER_INNER, 3)]);
    let mut before = vec![LEAVES, COLUMN];
    before.sort_unstable();
    let expected = [(vec![INNER, OTHER_INNER], 1), (vec![LEAVES], 3), (before, 2), (vec![COLUMN], 1)];
    let expected = expected.into_iter().collect();
    assert_eq!(shapes(&volume), expected);
    drop(volume);
    let volume = open(&device).expect("opens");
    assert_eq!(shapes(&volume), expected, "the journal knows");
    // The part's own chunk has room left, and takes what follows.
    let pages = publish(&volume, &[(LEAVES, 1), (COLUMN, 1)]);
    let of_page = |page: &PageRef| {
        let chunk = volume.page_size().chunk_of(page.address);
        volume.published_chunks().into_iter().find(|it| it.chunk == chunk).expect("published").parts
    };
    assert_eq!(of_page(&pages[0].1), [LEAVES]);
    assert!(of_page(&pages[1].1).contains(&COLUMN));
}

#[test]
fn the_copy_of_an_open_chunk_goes_before_more_is_written() {
    let (first, fast) = (device(1), device(2));
    let volume = create(&first, 8192);
    let new = NewDevice { class: Class::Fast, role: Role::COPIES, ..NewDevice::new(fast as Arc<dyn Device>, "fast") };
    volume.add_device(new).expect("added");
    let pages = publish(&volume, &[(LEAVES, 5)]);
    let chunk = volume.page_size().chunk_of(pages[0].1.address);
    assert_eq!(volume.promote(&[chunk], DeviceId(1)).expect("copied"), 1);
    // Begun and given up: the copy may stay.
    drop(volume.begin());
    assert_eq!(volume.copies().len(), 1);
    let publication = volume.begin();
    append(&publication, &[(LEAVES, 1)]);
    assert!(volume.copies().is_empty(), "what has been written is not in the copy");
    assert_eq!(volume.promote(&[chunk], DeviceId(1)).expect("nothing to do"), 0, "it is being written");
    publication.commit(b"root").expect("committed");
    assert_eq!(volume.promote(&[chunk], DeviceId(1)).expect("copied"), 1);
    volume.check_devices(|fault| panic!("{fault}")).expect("checked");
    volume.remove_device(DeviceId(1)).expect("what was written there is nobody's");
}

#[test]
fn pages_read_one_behind_another_are_one_request_of_each_chunk() {
    let device = device(1);
    let volume = create(&device, 8192);
    let pages = publish(&volume, &[(LEAVES, 2 * FULL)]);
    let (arena, mut frames) = Arena::new(1, 8192).expect("mapped");
    let mut lane = PageStore::open_lane(&*volume, &arena).expect("opened");
    let (share, mut frame, mut finished) = (IoShare::new(1), frames.pop(), Vec::new());
    for (_, page) in &pages {
        assert!(lane.try_read(&share, page.address, frame.take().expect("given back"), 0).is_ok());
        while finished.is_empty() {
            lane.poll(Some(Duration::from_secs(1)), &mut finished);
        }
        frame = finished.pop().map(|read| read.memory);
    }
    let mut counted = Vec::new();
    volume.chunk_reads(|_, reads| counted.push(reads));
    assert_eq!(counted, [(1, FULL as u32); 2]);
}
