//! How fast scattered changes go into a large tree: by leaf, beside what the device gives.
//!
//! `cargo run --release -p saki-tree --example apply -- FILE [million entries] [changes] [page bytes]`
//!
//! Entries are as long as those of TPC-H's lineitem. The file is removed at the end; the result is verified.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use saki_base::{PageSize, Random, TreeId};
use saki_io::{DeviceOptions, open_device};
use saki_page::{IoShare, PageCache, PageStore};
use saki_tree::{BulkLoader, Change, LivePages, NoInspection, TreeReader, apply, verify};
use saki_volume::{Volume, VolumeOptions};

/// Bytes of values: as many as a row of lineitem has, more or less.
const VALUE_BYTES: std::ops::Range<u64> = 70..110;

fn key(number: u64) -> [u8; 12] {
    let mut key = [0x80; 12];
    key[..8].copy_from_slice(&(number / 4 * 8).to_be_bytes());
    key[8..].copy_from_slice(&(number as u32 % 4).to_be_bytes());
    key
}

/// Seconds that this thread ran, and that it could have run had there been a processor.
fn scheduled() -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let mut nanoseconds = text.split_whitespace().map(str::parse::<f64>);
    let mut next = || nanoseconds.next().ok_or("schedstat has another form");
    Ok((next()?? / 1e9, next()?? / 1e9))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("usage: apply FILE [million entries] [changes] [page bytes]")?);
    let entries: u64 = arguments.next().map_or(Ok(5), |text| text.parse())? * 1_000_000;
    let count: usize = arguments.next().map_or(Ok(160_000), |text| text.parse())?;
    let page_size = PageSize::new(arguments.next().map_or(Ok(8192), |text| text.parse())?)?;

    let device = open_device(&path, DeviceOptions { create: true, ..DeviceOptions::default() })?;
    let volume = Volume::create(device, VolumeOptions::new(page_size))?;
    let mut random = Random::new(7);
    let value = vec![7; VALUE_BYTES.end as usize];
    let length = |random: &mut Random| random.range(VALUE_BYTES) as usize;
    let publication = volume.begin();
    let mut loader = BulkLoader::new(publication.writer(), page_size, TreeId(1));
    for number in 0..entries {
        loader.push(&key(number), &value[..length(&mut random)])?;
    }
    let (root, writer) = loader.finish()?;
    writer.finish()?;
    publication.commit(&root.to_bytes())?;

    let mut numbers: Vec<u64> = (0..count).map(|_| random.range(0..entries)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let changes: Vec<([u8; 12], usize)> = numbers.iter().map(|number| (key(*number), length(&mut random))).collect();
    // One in ten is a removal.
    let changes: Vec<Change<'_>> = changes
        .iter()
        .enumerate()
        .map(|(index, (key, length))| Change { key, value: (index % 10 != 0).then(|| &value[..*length]) })
        .collect();
    let cache = PageCache::new(page_size, ((256 << 20) / page_size.bytes()) as u32)?;
    let store: Arc<dyn PageStore> = Arc::clone(&volume) as Arc<dyn PageStore>;
    let mut reader = TreeReader::new(&cache, &store, &IoShare::new(u32::MAX))?;
    let start = Instant::now();
    let (ran, waited) = scheduled()?;
    let publication = volume.begin();
    let mut writer = publication.writer();
    let applied = apply(reader.fetcher(), &mut writer, &root, &changes)?;
    writer.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    publication.free(&applied.freed);
    publication.commit(&applied.root.to_bytes())?;
    let pages = applied.freed.len() as f64;
    let (ran, waited) = (scheduled()?.0 - ran, scheduled()?.1 - waited);
    println!(
        "{} changes, {} of {} leaves: {seconds:.3} s, {:.1} µs a leaf, {:.0} MB/s read and written",
        changes.len(),
        applied.freed.len(),
        root.leaf_pages,
        seconds * 1e6 / pages,
        pages * page_size.bytes() as f64 / seconds / 1e6
    );
    println!("  on a processor {ran:.3} s, waiting for one {waited:.3} s");
    let mut live = LivePages::new(page_size);
    let found = verify(reader.fetcher(), &applied.root, &mut live, &mut NoInspection);
    assert!(found.faults.is_empty() && found.entries == applied.root.entries, "{:?}", found.faults);
    println!("  {} leaves now; verified", applied.root.leaf_pages);
    drop((reader, store, volume));
    std::fs::remove_file(&path)?;
    Ok(())
}
