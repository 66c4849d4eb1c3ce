//! How fast trees are sorted, loaded, changed, scanned and verified on a real file.
//!
//! `cargo run --release -p saki-tree --example throughput -- FILE [million entries] [page bytes] [model]`
//!
//! With a model (such as `cloud-volume`) the file is given the latency, parallelism and bandwidth of another
//! device. Every step checks its own result; the file is removed at the end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use saki_base::{PageSize, Random, TreeId};
use saki_io::{DeviceOptions, ModelError, ModeledDevice, open_device};
use saki_page::{IoShare, PageCache, PageStore};
use saki_tree::{BulkLoader, Change, LivePages, NoInspection, SORT_MEMORY_BYTES, Sorter, TreeReader, apply, verify};
use saki_volume::{Volume, VolumeOptions};

const VALUE: [u8; 16] = [7; 16];

fn report(what: &str, entries: u64, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    println!("{what:<44} {:>8.3} s  {:>7.2} M entries/s", seconds, entries as f64 / seconds / 1e6);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("usage: throughput FILE [million entries] [page bytes] [model]")?);
    let entries: u64 = arguments.next().map_or(Ok(10), |text| text.parse())? * 1_000_000;
    let page_size = arguments.next().map_or(Ok(8192), |text| text.parse())?;
    let page_size = PageSize::new(page_size).map_err(|error| error.to_string())?;

    let device = open_device(&path, DeviceOptions { create: true, ..DeviceOptions::default() })?;
    let device = match arguments.next() {
        None => device,
        Some(model) => ModeledDevice::new(device, model.parse().map_err(|error: ModelError| error.to_string())?),
    };
    println!("{}, {entries} entries of 8 + {} bytes, pages of {} bytes", device.name(), VALUE.len(), page_size.bytes());
    let volume = Volume::create(device, VolumeOptions::new(page_size))?;
    let tree = TreeId(1);

    // Keys in an order without pattern: multiplication by an odd number permutes them.
    let start = Instant::now();
    let mut sorter = Sorter::new(volume.scratch(), SORT_MEMORY_BYTES);
    for number in 0..entries {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        sorter.push(&key, &VALUE)?;
    }
    let runs = sorter.runs();
    let mut sorted = sorter.finish()?;
    let mut previous = 0;
    let mut count = 0;
    while let Some((key, _)) = sorted.next()? {
        let key = u64::from_be_bytes(key.try_into()?);
        assert!(count == 0 || key > previous);
        (previous, count) = (key, count + 1);
    }
    assert_eq!(count, entries);
    drop(sorted);
    report(&format!("sort, {} MiB, {runs} runs spilled", SORT_MEMORY_BYTES >> 20), entries, start);

    let start = Instant::now();
    let mut sorter = Sorter::new(volume.scratch(), SORT_MEMORY_BYTES);
    for number in 0..entries {
        sorter.push(&(number * 2).to_be_bytes(), &VALUE)?;
    }
    let mut sorted = sorter.finish()?;
    while sorted.next()?.is_some() {}
    drop(sorted);
    report("sort what is sorted", entries, start);

    let start = Instant::now();
    let publication = volume.begin();
    let mut loader = BulkLoader::new(publication.writer(), page_size, tree);
    for number in 0..entries {
        loader.push(&(number * 2).to_be_bytes(), &VALUE)?;
    }
    let (root, writer) = loader.finish()?;
    writer.finish()?;
    publication.commit(&root.to_bytes())?;
    report("bulk load and publish", entries, start);
    println!("  {} leaves, {} inner pages, height {}", root.leaf_pages, root.inner_pages, root.height);

    let cache = PageCache::new(page_size, ((256 << 20) / page_size.bytes()) as u32)?;
    let store: Arc<dyn PageStore> = Arc::clone(&volume) as Arc<dyn PageStore>;
    let mut reader = TreeReader::new(&cache, &store, &IoShare::new(u32::MAX))?;

    let start = Instant::now();
    let mut scan = reader.scan(&root);
    let mut count = 0;
    while let Some((key, _)) = scan.next()? {
        assert_eq!(key, (count * 2u64).to_be_bytes());
        count += 1;
    }
    assert_eq!(count, entries);
    report("scan in order, cold", entries, start);

    cache.clear();
    let start = Instant::now();
    let mut live = LivePages::new(page_size);
    let found = verify(reader.fetcher(), &root, &mut live, &mut NoInspection);
    assert!(found.faults.is_empty() && found.entries == entries);
    report("verify, cold", entries, start);

    cache.clear();
    let mut random = Random::new(1);
    let mut keys: Vec<[u8; 8]> = (0..100_000).map(|_| (random.range(0..entries) * 2 + 1).to_be_bytes()).collect();
    keys.sort_unstable();
    keys.dedup();
    let changes: Vec<Change<'_>> = keys.iter().map(|key| Change { key, value: Some(&VALUE) }).collect();
    let start = Instant::now();
    let publication = volume.begin();
    let mut writer = publication.writer();
    let applied = apply(reader.fetcher(), &mut writer, &root, &changes)?;
    writer.finish()?;
    publication.free(&applied.freed);
    publication.commit(&applied.root.to_bytes())?;
    assert_eq!(applied.inserted, keys.len() as u64);
    report("apply 100 k scattered inserts, cold, publish", keys.len() as u64, start);
    println!("  {} pages replaced", applied.freed.len());

    cache.clear();
    let mut live = LivePages::new(page_size);
    let found = verify(reader.fetcher(), &applied.root, &mut live, &mut NoInspection);
    assert!(found.faults.is_empty());
    let recorded: Vec<_> = volume.live_pages().into_iter().filter(|(_, pages)| *pages > 0).collect();
    assert!(live.differences(&recorded).is_empty());

    let start = Instant::now();
    for round in 0..100u8 {
        volume.begin().commit(&[round])?;
    }
    println!("an empty publish                             {:>8.3} ms", start.elapsed().as_secs_f64() * 10.0);
    drop((reader, store, volume));
    std::fs::remove_file(&path)?;
    Ok(())
}
