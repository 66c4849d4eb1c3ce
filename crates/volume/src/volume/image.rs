//! A published generation as its chunks, to be copied elsewhere while the database goes on.
//!
//! While the image is held its chunks keep their bytes: a chunk that is freed meanwhile waits with its slot, one that
//! moves has the same bytes where it comes to lie, and of one that is still open only the pages count that were written
//! by then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{AlignedBuffer, Buffer, CHUNK_BYTES, ChunkId, GenerationNumber, PageSize, Part};
use saki_io::{Completion, Operation, Wait};
use saki_page::IoShare;

use super::Volume;
use crate::device::DeviceLanes;
use crate::device::gates::Gates;
use crate::error::VolumeError;
use crate::map::MapReader;
use crate::space::HeldGeneration;

/// How long is waited before the governor is asked again.
const RETRY: Duration = Duration::from_micros(200);
const PATIENCE: Wait = Wait::AtMost(Duration::from_secs(1));

/// All that a volume says of a published generation, but for where it lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    pub page_size: PageSize,
    pub database_id: u128,
    pub generation: GenerationNumber,
    /// Chunk ids from here on have never been published.
    pub next_chunk: ChunkId,
    pub root: Vec<u8>,
    /// In the order of their ids.
    pub chunks: Vec<ImageChunk>,
}

/// A chunk of an [`Image`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageChunk {
    pub chunk: ChunkId,
    pub live_pages: u32,
    /// Pages that had been written into it, if it was open for more.
    pub written: Option<u32>,
    pub parts: Vec<Part>,
}

/// An image whose chunks can be read for as long as this lives.
pub struct HeldImage {
    volume: Arc<Volume>,
    image: Image,
    _held: Arc<HeldGeneration>,
}

impl Volume {
    /// Holds the newest published generation as its chunks.
    pub fn hold_image(self: &Arc<Self>) -> HeldImage {
        // Whoever publishes has this lock until books and current generation are those of the new one.
        let durable = self.durable.lock();
        let space = self.space.lock();
        let superblock = &durable.superblock;
        let written = |chunk| superblock.tails.iter().find(|tail| tail.chunk == chunk).map(|tail| tail.next_page);
        let mut chunks: Vec<_> = space
            .chunks
            .iter()
            .map(|(chunk, state)| ImageChunk {
                chunk: *chunk,
                live_pages: state.live_pages,
                written: written(*chunk),
                parts: state.parts.iter().collect(),
            })
            .collect();
        chunks.sort_unstable_by_key(|chunk| chunk.chunk);
        drop(space);
        let held = self.hold();
        assert_eq!(held.generation(), superblock.generation, "the current generation is not the one on the devices");
        let image = Image {
            page_size: self.page_size,
            database_id: self.database_id,
            generation: superblock.generation,
            next_chunk: superblock.next_chunk,
            root: superblock.root.clone(),
            chunks,
        };
        HeldImage { volume: Arc::clone(self), image, _held: held }
    }
}

impl HeldImage {
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// A reader for one thread.
    ///
    /// # Errors
    /// Of a device.
    pub fn reader(&self) -> Result<ImageReader<'_>, VolumeError> {
        let members = &self.volume.members;
        Ok(ImageReader {
            held: self,
            lanes: DeviceLanes::open(members, None)?,
            map: MapReader::new(&self.volume.map),
            gates: Gates::new(members),
            share: IoShare::new(1),
            completions: Vec::new(),
        })
    }
}

/// Reads chunks from their homes, one at a time; beside queries, as one share of many.
pub struct ImageReader<'a> {
    held: &'a HeldImage,
    /// Before `map`: no read is under way when its epoch is left.
    lanes: DeviceLanes,
    map: MapReader,
    gates: Gates,
    share: Arc<IoShare>,
    completions: Vec<Completion>,
}

impl ImageReader<'_> {
    /// The bytes of a chunk of the image: whole, and zeros where nothing had been written.
    ///
    /// # Errors
    /// Of its device; if that is missing.
    pub fn read(&mut self, chunk: &ImageChunk) -> Result<AlignedBuffer, VolumeError> {
        // The slot that a chunk leaves keeps its bytes until this epoch has passed.
        let epoch = self.map.enter();
        let read = self.read_home(chunk.chunk);
        self.map.leave(epoch);
        let mut bytes = read?;
        if let Some(written) = chunk.written {
            // What has been added since is not of this generation.
            bytes[written as usize * self.held.image.page_size.bytes()..].fill(0);
        }
        Ok(bytes)
    }

    fn read_home(&mut self, chunk: ChunkId) -> Result<AlignedBuffer, VolumeError> {
        let home = self.held.volume.space.lock().home_of(chunk);
        let home = home.ok_or_else(|| VolumeError::misuse(format!("{chunk} is read, and not of a held generation")))?;
        while self.gates.of(home.device).is_some_and(|gate| !gate.try_acquire(&self.share)) {
            std::thread::sleep(RETRY);
        }
        let started = Instant::now();
        let buffer = Buffer::Aligned(AlignedBuffer::new(CHUNK_BYTES));
        self.lanes.submit(home.device, Operation::read(0, home.offset(), buffer));
        self.lanes.flush_submissions();
        while self.completions.is_empty() {
            self.lanes.poll(PATIENCE, &mut self.completions);
        }
        if let Some(gate) = self.gates.of(home.device) {
            gate.release(&self.share, started.elapsed(), CHUNK_BYTES as u64);
        }
        let Completion { result, buffer, .. } = self.completions.pop().expect("just seen");
        result?;
        match buffer {
            Some(Buffer::Aligned(buffer)) => Ok(buffer),
            _ => unreachable!("a lane returns the buffer it was given"),
        }
    }
}
