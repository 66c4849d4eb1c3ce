//! What an owner may have its pages in: a volume on a device, read as the database does or in the two ways that block
//! a thread for each read; and memory.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use saki_base::{Arena, ArenaFrame, PageAddress, PageRef, PageSize, Part, PartKind, TreeId, checksum};
use saki_io::{Backend, DeviceOptions, open_device};
use saki_page::{IoShare, PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError};
use saki_volume::{Volume, VolumeOptions};

use crate::world::fill;

/// How an owner reads its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// As the database does: completions of one ring, on the thread that answers.
    Reactor,
    /// The paper's static way: so many threads for all connections, each blocked by one read.
    Pool(usize),
    /// The paper's dynamic way: a thread for each read.
    ThreadPerRead,
    /// No device: pages lie in memory.
    Memory,
}

impl FromStr for Reading {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "reactor" => Ok(Self::Reactor),
            None if text == "thread-per-read" => Ok(Self::ThreadPerRead),
            None if text == "memory" => Ok(Self::Memory),
            Some(("pool", threads)) => threads.parse().map(Self::Pool).map_err(|_| format!("no number in {text}")),
            _ => Err(format!("{text}: reactor, pool:THREADS, thread-per-read or memory")),
        }
    }
}

/// The volume in `file`, to be read by a backend.
pub fn volume(file: &Path, backend: Backend) -> Result<Arc<Volume>, String> {
    let options = DeviceOptions { backend, read_only: true, ..DeviceOptions::default() };
    let device = open_device(file, options).map_err(|error| error.to_string())?;
    Volume::open(device).map_err(|error| error.to_string())
}

/// The store over `file`, or in memory with so many pages.
pub fn open(reading: Reading, file: &Path, page_size: PageSize, pages: u64) -> Result<Arc<dyn PageStore>, String> {
    Ok(match reading {
        Reading::Reactor => volume(file, Backend::Auto)?,
        Reading::Pool(threads) => volume(file, Backend::Threads(threads))?,
        Reading::ThreadPerRead => {
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(file);
            let opened = opened.map_err(|error| format!("{}: {error}", file.display()))?;
            Arc::new(ThreadPerRead { volume: volume(file, Backend::Auto)?, file: Arc::new(opened) })
        }
        Reading::Memory => Arc::new(Memory::new(page_size, pages)),
    })
}

/// Makes a volume of so many pages, and gives what they should be.
pub fn create(file: &Path, page_size: PageSize, pages: u64) -> Result<Vec<PageRef>, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    if file.exists() {
        std::fs::remove_file(file).map_err(|error| said(&error))?;
    }
    let options = DeviceOptions { create: true, ..DeviceOptions::default() };
    let device = open_device(file, options).map_err(|error| said(&error))?;
    let volume = Volume::create(device, VolumeOptions::new(page_size)).map_err(|error| said(&error))?;
    let publication = volume.begin();
    let mut writer = publication.writer();
    let part = Part::new(TreeId(1), PartKind::Leaves);
    let mut page = vec![0; page_size.bytes()];
    let mut made = Vec::with_capacity(pages as usize);
    for number in 0..pages {
        fill(&mut page, number * page_size.bytes() as u64);
        made.push(writer.append(part, &page).map_err(|error| said(&error))?);
    }
    writer.finish().map_err(|error| said(&error))?;
    publication.commit(b"pages").map_err(|error| said(&error))?;
    Ok(made)
}

/// Pages in memory: what serving them costs without a device.
struct Memory {
    page_size: PageSize,
    bytes: Arc<Vec<u8>>,
}

impl Memory {
    fn new(page_size: PageSize, pages: u64) -> Self {
        let mut bytes = vec![0; pages as usize * page_size.bytes()];
        fill(&mut bytes, 0);
        Self { page_size, bytes: Arc::new(bytes) }
    }
}

/// What the pages of [`Reading::Memory`] are.
pub fn in_memory(page_size: PageSize, pages: u64) -> Vec<PageRef> {
    let mut page = vec![0; page_size.bytes()];
    let mut of = |number: u64| {
        fill(&mut page, number * page_size.bytes() as u64);
        PageRef { address: PageAddress(number), checksum: checksum(&page) }
    };
    (0..pages).map(&mut of).collect()
}

impl PageStore for Memory {
    fn page_size(&self) -> PageSize {
        self.page_size
    }

    fn open_lane(&self, _: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        Ok(Box::new(MemoryLane { page_size: self.page_size, bytes: Arc::clone(&self.bytes), done: Vec::new() }))
    }

    fn describe(&self, _: PageAddress) -> String {
        "memory".into()
    }
}

struct MemoryLane {
    page_size: PageSize,
    bytes: Arc<Vec<u8>>,
    done: Vec<PageRead>,
}

struct Nobody;

impl PageWaker for Nobody {
    fn wake(&self) {}
}

impl PageLane for MemoryLane {
    fn try_read(
        &mut self,
        _: &Arc<IoShare>,
        address: PageAddress,
        mut memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)> {
        let bytes = self.page_size.bytes();
        let from = (address.0 as usize).saturating_mul(bytes);
        let Some(page) = self.bytes.get(from..from.saturating_add(bytes)) else {
            return Err((memory, Refusal::Unmapped));
        };
        memory.copy_from_slice(page);
        self.done.push(PageRead { token, memory, result: Ok(()), from_copy: false });
        Ok(())
    }

    fn poll(&mut self, _: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        let count = self.done.len();
        finished.append(&mut self.done);
        count
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::new(Nobody)
    }
}

/// A volume whose pages are read by a thread each.
struct ThreadPerRead {
    volume: Arc<Volume>,
    file: Arc<File>,
}

impl PageStore for ThreadPerRead {
    fn page_size(&self) -> PageSize {
        PageStore::page_size(&*self.volume)
    }

    fn open_lane(&self, _: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        let (volume, file) = (Arc::clone(&self.volume), Arc::clone(&self.file));
        Ok(Box::new(ThreadsLane { volume, file, ended: Arc::default(), in_flight: 0 }))
    }

    fn describe(&self, address: PageAddress) -> String {
        self.volume.describe(address)
    }
}

/// Where threads leave what they have read.
#[derive(Default)]
struct Ended {
    reads: Mutex<Vec<PageRead>>,
    some: Condvar,
}

struct ThreadsLane {
    volume: Arc<Volume>,
    file: Arc<File>,
    ended: Arc<Ended>,
    in_flight: usize,
}

impl PageLane for ThreadsLane {
    fn try_read(
        &mut self,
        _: &Arc<IoShare>,
        address: PageAddress,
        mut memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)> {
        let Some(location) = self.volume.locate(address) else { return Err((memory, Refusal::Unmapped)) };
        let offset = location.offset() + PageStore::page_size(&*self.volume).offset_in_chunk(address) as u64;
        let (file, ended) = (Arc::clone(&self.file), Arc::clone(&self.ended));
        self.in_flight += 1;
        std::thread::spawn(move || {
            let read = file.read_exact_at(&mut memory, offset);
            let result = read.map_err(|error| StoreError { device: "file".into(), message: error.to_string() });
            ended.reads.lock().push(PageRead { token, memory, result, from_copy: false });
            ended.some.notify_one();
        });
        Ok(())
    }

    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        let mut reads = self.ended.reads.lock();
        if let Some(time) = wait.filter(|_| reads.is_empty()) {
            self.ended.some.wait_for(&mut reads, time);
        }
        let count = reads.len();
        self.in_flight -= count;
        finished.append(&mut reads);
        count
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::new(Nobody)
    }
}
