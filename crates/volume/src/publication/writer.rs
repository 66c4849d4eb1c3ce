//! Appending pages to a publication.

use std::collections::VecDeque;
use std::sync::Arc;

use saki_base::{AlignedBuffer, CHUNK_BYTES, ChunkId, DeviceId, PageAddress, PageRef, checksum};

use super::ledger::{OpenChunk, Shared};
use crate::blocking::{PIECE_BYTES, PieceWriter};
use crate::error::VolumeError;
use crate::space::Content;

/// Pages with consecutive addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    pub first: PageAddress,
    pub pages: u64,
    /// xxh3-64 of the bytes given, without the zeros that fill up the last page.
    pub checksum: u64,
}

/// Appends pages to chunks, in order. Pages are gathered into 256 KiB pieces, of which up to 32 (8 MiB) are on
/// their way to the device while the caller goes on. Used by one thread from the first page until it has settled;
/// then another one may go on.
///
/// Ends with [`PageWriter::finish`]; a writer that is dropped has written nothing.
pub struct PageWriter {
    /// Before `shared`: its lane drains before the publication can give chunks back.
    pieces: PieceWriter,
    shared: Arc<Shared>,
    page_bytes: usize,
    pages_per_chunk: u32,
    chunk: Option<OpenChunk>,
    /// Chunks to be filled next, for a run that needs neighbours.
    upcoming: VecDeque<OpenChunk>,
    /// The piece being filled: it ends where `chunk`'s next page begins.
    piece: Option<Piece>,
    /// Pages per chunk, in the order of writing.
    written: Vec<(ChunkId, u32)>,
    content: Content,
    closed: bool,
}

struct Piece {
    buffer: AlignedBuffer,
    /// Where the piece lies: its device, and where it begins there.
    device: DeviceId,
    offset: u64,
    filled: usize,
    /// Where it is full: at the next multiple of [`PIECE_BYTES`] in the chunk.
    capacity: usize,
}

impl PageWriter {
    pub(crate) fn new(shared: &Arc<Shared>, content: Content) -> Self {
        shared.writer_opened();
        let page_size = shared.volume.page_size();
        Self {
            pieces: PieceWriter::new(&shared.volume.members),
            shared: Arc::clone(shared),
            page_bytes: page_size.bytes(),
            pages_per_chunk: page_size.pages_per_chunk() as u32,
            chunk: None,
            upcoming: VecDeque::new(),
            piece: None,
            written: Vec::new(),
            content,
            closed: false,
        }
    }

    /// Page size, in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Pages appended so far.
    pub fn pages(&self) -> u64 {
        self.written.iter().map(|(_, pages)| u64::from(*pages)).sum()
    }

    /// Appends one page, whole. It can be read once [`settle`](Self::settle) or `finish` has returned.
    pub fn append(&mut self, page: &[u8]) -> Result<PageRef, VolumeError> {
        if page.len() != self.page_bytes {
            let message = format!("a page of {} bytes in a volume of {}-byte pages", page.len(), self.page_bytes);
            return Err(VolumeError::misuse(message));
        }
        let address = self.place(page)?;
        Ok(PageRef { address, checksum: checksum(page) })
    }

    /// Appends bytes as pages with consecutive addresses; the last page is filled up with zeros.
    pub fn append_run(&mut self, bytes: &[u8]) -> Result<PageRun, VolumeError> {
        if bytes.is_empty() {
            return Err(VolumeError::misuse("an empty run of pages"));
        }
        let pages = bytes.len().div_ceil(self.page_bytes);
        let room = self.chunk.map_or(0, |chunk| self.pages_per_chunk - chunk.next_page) as usize;
        if pages > room {
            self.close_chunk()?;
            let chunks = pages.div_ceil(self.pages_per_chunk as usize);
            assert!(self.upcoming.is_empty(), "chunks are waiting that nobody gave back");
            self.upcoming = self.shared.fresh_chunks(chunks, self.content)?.into();
        }
        let (mut first, mut last) = (None, PageAddress::default());
        for page in bytes.chunks(self.page_bytes) {
            let address = if page.len() == self.page_bytes {
                self.place(page)?
            } else {
                let mut filled_up = vec![0; self.page_bytes];
                filled_up[..page.len()].copy_from_slice(page);
                self.place(&filled_up)?
            };
            first.get_or_insert(address);
            last = address;
        }
        let first: PageAddress = first.expect("a run has a page");
        assert_eq!(last.0 - first.0 + 1, pages as u64, "a run's pages are not side by side");
        Ok(PageRun { first, pages: pages as u64, checksum: checksum(bytes) })
    }

    /// Waits until every page appended so far can be read.
    pub fn settle(&mut self) -> Result<(), VolumeError> {
        self.submit_piece()?;
        Ok(self.pieces.settle()?)
    }

    /// Settles and hands the pages over to the publication.
    pub fn finish(mut self) -> Result<(), VolumeError> {
        self.settle()?;
        self.give_chunks_back();
        self.shared.writer_closed(&self.written);
        self.closed = true;
        Ok(())
    }

    fn place(&mut self, page: &[u8]) -> Result<PageAddress, VolumeError> {
        let page_bytes = self.page_bytes;
        let mut chunk = match self.chunk {
            Some(chunk) if chunk.next_page < self.pages_per_chunk => chunk,
            _ => self.next_chunk()?,
        };
        let piece = match &mut self.piece {
            Some(piece) => piece,
            none => {
                let start = chunk.next_page as usize * page_bytes;
                let capacity = PIECE_BYTES - start % PIECE_BYTES;
                let offset = chunk.location.offset() + start as u64;
                let device = chunk.location.device;
                none.insert(Piece { buffer: self.pieces.piece(), device, offset, filled: 0, capacity })
            }
        };
        assert!(piece.filled + page_bytes <= piece.capacity, "a page would cross its piece's end");
        piece.buffer[piece.filled..piece.filled + page_bytes].copy_from_slice(page);
        piece.filled += page_bytes;
        let full = piece.filled == piece.capacity;
        let address = PageAddress(chunk.chunk.0 * u64::from(self.pages_per_chunk) + u64::from(chunk.next_page));
        chunk.next_page += 1;
        self.chunk = Some(chunk);
        match self.written.last_mut() {
            Some((last, pages)) if *last == chunk.chunk => *pages += 1,
            _ => self.written.push((chunk.chunk, 1)),
        }
        if full {
            self.submit_piece()?;
        }
        Ok(address)
    }

    fn next_chunk(&mut self) -> Result<OpenChunk, VolumeError> {
        // A full chunk ended with a full piece, since chunks are whole pieces.
        assert!(self.piece.is_none(), "a chunk ended within a piece");
        self.chunk = None;
        match self.upcoming.pop_front() {
            Some(chunk) => Ok(chunk),
            None => self.shared.open_chunk(self.content),
        }
    }

    fn submit_piece(&mut self) -> Result<(), VolumeError> {
        let Some(piece) = self.piece.take() else { return Ok(()) };
        Ok(self.pieces.write(piece.device, piece.offset, piece.buffer, piece.filled)?)
    }

    fn close_chunk(&mut self) -> Result<(), VolumeError> {
        self.submit_piece()?;
        self.give_chunks_back();
        Ok(())
    }

    fn give_chunks_back(&mut self) {
        for chunk in self.chunk.take().into_iter().chain(self.upcoming.drain(..)) {
            self.shared.give_back(chunk);
        }
    }
}

const _: () = assert!(CHUNK_BYTES.is_multiple_of(PIECE_BYTES));
const _: () = assert!(PIECE_BYTES >= saki_base::PAGE_BYTES_MAX as usize);

impl Drop for PageWriter {
    fn drop(&mut self) {
        if !self.closed {
            // Nothing may be written behind the addresses given out so far once the chunk is another writer's.
            let _ = self.pieces.settle();
            self.give_chunks_back();
            self.shared.writer_closed(&[]);
        }
    }
}
