//! A device whose slots come when they are asked for: under the contract of all devices, with objects that fail, over a
//! device that loses power, and asked by many at once.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use saki_base::{AlignedBuffer, Buffer, Random};
use saki_io::{
    Completion, Device, DeviceError, DeviceOptions, Lane, Operation, SimDevice, SimOptions, Wait, open_device,
};
use saki_thin::{Piece, Pieces, SLOT_BYTES, Source, SourceFile, ThinDevice, path_of};
use tempfile::TempDir;

/// Pieces in memory, some of which cannot be read.
#[derive(Default)]
struct Shelf {
    bytes: HashMap<Piece, Vec<u8>>,
    refused: Mutex<HashSet<Piece>>,
    reads: AtomicU64,
}

impl Shelf {
    /// So many pieces, each of its own bytes, not all of a slot.
    fn new(pieces: usize) -> (Arc<Self>, Source) {
        let bytes = |number: usize| content(number)[..SLOT_BYTES as usize - number * 4096].to_vec();
        let all: Vec<Vec<u8>> = (0..pieces).map(bytes).collect();
        let names: Vec<Piece> = all.iter().map(|bytes| Piece::of(bytes)).collect();
        let shelf = Self { bytes: names.iter().copied().zip(all).collect(), ..Self::default() };
        (Arc::new(shelf), Source { target: "memory".to_owned(), pieces: names })
    }
}

impl Pieces for Shelf {
    fn read(&self, piece: &Piece) -> Result<Vec<u8>, String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.refused.lock().contains(piece) {
            return Err(format!("memory/{}: not today", piece.name()));
        }
        Ok(self.bytes[piece].clone())
    }
}

/// What the slot of a piece has.
fn content(piece: usize) -> Vec<u8> {
    let mut slot = vec![piece as u8 + 1; SLOT_BYTES as usize];
    let end = slot.len() - piece * 4096;
    slot[end..].fill(0);
    slot
}

fn offset(piece: usize) -> u64 {
    (piece as u64 + 1) * SLOT_BYTES
}

fn carry_out(lane: &mut dyn Lane, operation: Operation) -> Completion {
    let mut completions = Vec::new();
    lane.submit(operation);
    while completions.is_empty() {
        lane.poll(Wait::AtMost(std::time::Duration::from_secs(5)), &mut completions);
    }
    assert_eq!((completions.len(), lane.in_flight()), (1, 0));
    completions.pop().unwrap()
}

fn read(lane: &mut dyn Lane, offset: u64, length: usize) -> Result<Vec<u8>, DeviceError> {
    let completion = carry_out(lane, Operation::read(7, offset, Buffer::Aligned(AlignedBuffer::new(length))));
    completion.result.map(|()| completion.buffer.unwrap().to_vec())
}

fn write(lane: &mut dyn Lane, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
    let mut buffer = AlignedBuffer::new(bytes.len());
    buffer.copy_from_slice(bytes);
    carry_out(lane, Operation::write(8, offset, Buffer::Aligned(buffer))).result
}

/// A directory with a source, and a file with room for its slots and one more.
fn on_file(source: &Source) -> (TempDir, Arc<dyn Device>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    SourceFile::create(&path, source).unwrap();
    let device = open_device(&path, DeviceOptions { create: true, direct: false, ..DeviceOptions::default() }).unwrap();
    device.ensure_length((source.pieces.len() as u64 + 2) * SLOT_BYTES).unwrap();
    (directory, device)
}

fn file_of(directory: &TempDir) -> SourceFile {
    SourceFile::open(&directory.path().join("db")).unwrap().unwrap()
}

#[test]
fn it_keeps_the_contract_of_devices() {
    let pieces = (saki_io::contract::DEVICE_BYTES / SLOT_BYTES) as usize;
    let (shelf, source) = Shelf::new(pieces);
    let (directory, device) = on_file(&source);
    let thin = ThinDevice::new(device, file_of(&directory), shelf);
    saki_io::contract::run_all(&thin);
}

#[test]
fn what_is_asked_for_comes_once_and_stays() {
    let (shelf, source) = Shelf::new(4);
    let (directory, device) = on_file(&source);
    let thin = ThinDevice::new(Arc::clone(&device), file_of(&directory), Arc::clone(&shelf) as _);
    assert_eq!(thin.away(), (4, 4));
    let mut lane = thin.open_lane(None).unwrap();
    assert_eq!(read(&mut *lane, offset(2) + 4096, 8192).unwrap(), content(2)[4096..12288]);
    assert_eq!(read(&mut *lane, offset(2), SLOT_BYTES as usize).unwrap(), content(2));
    assert_eq!((shelf.reads.load(Ordering::Relaxed), thin.away().0), (1, 3));
    let both = read(&mut *lane, offset(1) - 4096, 8192).unwrap();
    assert_eq!(both, [&content(0)[SLOT_BYTES as usize - 4096..], &content(1)[..4096]].concat());
    write(&mut *lane, offset(0), &[99; 4096]).unwrap();
    assert_eq!(read(&mut *lane, 0, 4096).unwrap(), [0; 4096], "the first slot has no piece");
    drop((lane, thin));
    // What came is known after it was closed.
    let thin = ThinDevice::new(device, file_of(&directory), Arc::clone(&shelf) as _);
    assert_eq!(thin.away(), (1, 4));
    let mut lane = thin.open_lane(None).unwrap();
    assert_eq!(read(&mut *lane, offset(0), 8192).unwrap(), [&[99; 4096][..], &content(0)[4096..8192]].concat());
    assert_eq!(shelf.reads.load(Ordering::Relaxed), 3);
    thin.complete(|| Ok::<_, DeviceError>(()), |_| {}).unwrap();
    assert!(!path_of(&directory.path().join("db")).exists(), "the source has gone");
    assert_eq!(read(&mut *lane, offset(3), SLOT_BYTES as usize).unwrap(), content(3));
    write(&mut *lane, offset(3), &[98; 4096]).unwrap();
    assert_eq!(shelf.reads.load(Ordering::Relaxed), 4);
}

#[test]
fn an_object_that_cannot_be_read_fails_who_wants_it_by_name_and_may_come_later() {
    let (shelf, source) = Shelf::new(3);
    let (directory, device) = on_file(&source);
    let thin = ThinDevice::new(device, file_of(&directory), Arc::clone(&shelf) as _);
    let mut lane = thin.open_lane(None).unwrap();
    shelf.refused.lock().insert(source.pieces[1]);
    let refused = read(&mut *lane, offset(1), 4096).unwrap_err().to_string();
    assert!(refused.contains("not today") && refused.contains(&source.pieces[1].name()), "{refused}");
    assert!(write(&mut *lane, offset(1), &[1; 4096]).is_err(), "nor is it written over");
    assert!(read(&mut *lane, offset(1) - 4096, 8192).is_err(), "nor read in part");
    assert!(thin.complete(|| Ok::<_, DeviceError>(()), |_| {}).is_err());
    assert_eq!(read(&mut *lane, offset(0), 4096).unwrap(), content(0)[..4096]);
    shelf.refused.lock().clear();
    assert_eq!(read(&mut *lane, offset(1), 4096).unwrap(), content(1)[..4096]);
}

#[test]
fn many_lanes_ask_for_one_slot_once() {
    let (shelf, source) = Shelf::new(24);
    let (directory, device) = on_file(&source);
    let thin = ThinDevice::new(device, file_of(&directory), Arc::clone(&shelf) as _);
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let mut lane = thin.open_lane(None).unwrap();
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let (mut wanted, mut completions) = (HashMap::new(), Vec::new());
                for token in 0..200 {
                    let (piece, page) = (random.below(24) as usize, random.below(200));
                    wanted.insert(token, (piece, page as usize * 4096));
                    let buffer = Buffer::Aligned(AlignedBuffer::new(4096));
                    lane.submit(Operation::read(token, offset(piece) + page * 4096, buffer));
                }
                while !wanted.is_empty() {
                    lane.poll(Wait::AtMost(std::time::Duration::from_secs(5)), &mut completions);
                    for Completion { token, buffer, result } in completions.drain(..) {
                        result.unwrap();
                        let (piece, at) = wanted.remove(&token).expect("each completes once");
                        assert_eq!(buffer.unwrap().to_vec(), content(piece)[at..at + 4096], "piece {piece} at {at}");
                    }
                }
            });
        }
    });
    assert_eq!((shelf.reads.load(Ordering::Relaxed), thin.away().0), (24, 0));
}

/// A device that loses power again and again, and what its slots have.
struct Lives {
    path: PathBuf,
    shelf: Arc<Shelf>,
    device: Arc<SimDevice>,
    expected: Vec<Vec<u8>>,
    /// Written last and not flushed: piece, where, and what.
    unsure: Option<(usize, usize, Vec<u8>)>,
    random: Random,
}

impl Lives {
    fn thin(&self) -> ThinDevice {
        let file = SourceFile::open(&self.path).unwrap().unwrap();
        ThinDevice::new(Arc::clone(&self.device) as _, file, Arc::clone(&self.shelf) as _)
    }

    /// Reads a slot, and finds what was flushed, or by block what was written last.
    fn look(&mut self, lane: &mut dyn Lane, piece: usize) {
        let found = read(lane, offset(piece), SLOT_BYTES as usize).unwrap();
        let slot = &mut self.expected[piece];
        if let Some((_, at, bytes)) = self.unsure.take_if(|unsure| unsure.0 == piece) {
            for (block, new) in bytes.chunks(512).enumerate() {
                let range = at + block * 512..at + (block + 1) * 512;
                if found[range.clone()] == *new {
                    slot[range].copy_from_slice(new);
                }
            }
        }
        assert!(found == *slot, "slot {}", piece + 1);
    }

    fn write(&mut self, lane: &mut dyn Lane) -> (usize, usize, Vec<u8>) {
        let (piece, at) = (self.random.below(5) as usize, self.random.below(200) as usize * 4096);
        let bytes = vec![self.random.below(256) as u8; 4096];
        write(lane, offset(piece) + at as u64, &bytes).unwrap();
        (piece, at, bytes)
    }

    /// One life.
    fn live(&mut self) {
        let thin = self.thin();
        let mut lane = thin.open_lane(None).unwrap();
        if let Some((piece, ..)) = self.unsure {
            self.look(&mut *lane, piece);
        }
        for piece in 0..5 {
            if self.random.below(3) == 0 {
                self.look(&mut *lane, piece);
            }
        }
        if self.random.chance(0.7) {
            for _ in 0..self.random.below(6) {
                let (piece, at, bytes) = self.write(&mut *lane);
                self.expected[piece][at..at + 4096].copy_from_slice(&bytes);
            }
            assert!(carry_out(&mut *lane, Operation::flush(1)).result.is_ok());
        }
        // Fetched, and perhaps lost.
        let late = self.random.below(5) as usize;
        self.look(&mut *lane, late);
        if self.random.chance(0.5) {
            // What that notes as settled is there, whatever becomes of what is written.
            self.unsure = Some(self.write(&mut *lane));
        }
        let crashed = self.device.crash(self.random.next_u64());
        let kept = std::fs::read(path_of(&self.path)).unwrap();
        drop((lane, thin));
        // What closing notes is not there after a crash.
        std::fs::write(path_of(&self.path), kept).unwrap();
        self.device = crashed;
    }
}

#[test]
fn what_was_flushed_survives_any_loss_of_power() {
    for seed in 0..40 {
        let (shelf, source) = Shelf::new(5);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        SourceFile::create(&path, &source).unwrap();
        let device = SimDevice::new(SimOptions { seed, length_bytes: 8 * SLOT_BYTES, ..SimOptions::default() });
        let expected = (0..5).map(content).collect();
        let mut lives = Lives { path, shelf, device, expected, unsure: None, random: Random::new(seed) };
        for _ in 0..5 {
            lives.live();
        }
        let thin = lives.thin();
        let mut lane = thin.open_lane(None).unwrap();
        (0..5).for_each(|piece| lives.look(&mut *lane, piece));
    }
}
