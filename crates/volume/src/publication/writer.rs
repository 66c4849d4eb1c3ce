//! Appending pages to a publication, each with others of its part.
//!
//! ```text
//!   part       pages so far       goes to
//!   small      less than a chunk  a chunk that it shares with other small parts; inner pages with inner pages
//!   large      more               chunks of its own
//! ```
//!
//! What a part has written into a chunk it shares stays there. A part whose own chunk is open since an earlier
//! publication goes on in that at once.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use saki_base::{AlignedBuffer, CHUNK_BYTES, ChunkId, DeviceId, PageAddress, PageRef, Part, checksum};

use super::ledger::{OpenChunk, Shared, Wanted, Written};
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

/// Appends pages to chunks, those of a part in order. Pages are gathered into 256 KiB pieces, of which up to 16 are
/// being filled and 32 (8 MiB) are on their way to the device while the caller goes on. Used by one thread from the
/// first page until it has settled; then another one may go on.
///
/// Ends with [`PageWriter::finish`]; a writer that is dropped has written nothing.
pub struct PageWriter {
    /// Before `shared`: its lane drains before the publication can give chunks back.
    pieces: PieceWriter,
    shared: Arc<Shared>,
    page_bytes: usize,
    pages_per_chunk: u32,
    /// Two that parts share, inner pages and all others; then those that parts have for themselves.
    lanes: Vec<Lane>,
    parts: Vec<Progress>,
    /// The part of the last page, in `parts`.
    last: usize,
    written: HashMap<ChunkId, Written>,
    content: Content,
    closed: bool,
}

/// How far a part has come.
struct Progress {
    part: Part,
    /// By this writer.
    pages: u64,
    lane: usize,
}

/// Where pages follow one another.
#[derive(Default)]
struct Lane {
    chunk: Option<OpenChunk>,
    /// Chunks to be filled next, for a run that needs neighbours.
    upcoming: VecDeque<OpenChunk>,
    /// The piece being filled: it ends where `chunk`'s next page begins.
    piece: Option<Piece>,
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

/// Of inner pages, and of all others.
const SHARED_LANES: usize = 2;
/// Pieces being filled: more would be memory for parts that come seldom.
const PIECES_OPEN_MAX: usize = 16;

impl PageWriter {
    pub(crate) fn new(shared: &Arc<Shared>, content: Content) -> Self {
        shared.writer_opened();
        let page_size = shared.volume.page_size();
        Self {
            pieces: PieceWriter::new(&shared.volume.members),
            shared: Arc::clone(shared),
            page_bytes: page_size.bytes(),
            pages_per_chunk: page_size.pages_per_chunk() as u32,
            lanes: (0..SHARED_LANES).map(|_| Lane::default()).collect(),
            parts: Vec::new(),
            last: 0,
            written: HashMap::new(),
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
        self.parts.iter().map(|progress| progress.pages).sum()
    }

    /// Appends one page of a part, whole. It can be read once [`settle`](Self::settle) or `finish` has returned.
    pub fn append(&mut self, part: Part, page: &[u8]) -> Result<PageRef, VolumeError> {
        if page.len() != self.page_bytes {
            let message = format!("a page of {} bytes in a volume of {}-byte pages", page.len(), self.page_bytes);
            return Err(VolumeError::misuse(message));
        }
        let lane = self.lane_of(part);
        let address = self.place(lane, page)?;
        Ok(PageRef { address, checksum: checksum(page) })
    }

    /// Appends bytes as pages of a part with consecutive addresses; the last page is filled up with zeros.
    pub fn append_run(&mut self, part: Part, bytes: &[u8]) -> Result<PageRun, VolumeError> {
        if bytes.is_empty() {
            return Err(VolumeError::misuse("an empty run of pages"));
        }
        let pages = bytes.len().div_ceil(self.page_bytes);
        let lane = self.lane_of(part);
        let room = self.lanes[lane].chunk.as_ref().map_or(0, |chunk| self.pages_per_chunk - chunk.next_page) as usize;
        if pages > room {
            self.make_room(lane, pages)?;
        }
        let (mut first, mut last) = (None, PageAddress::default());
        for page in bytes.chunks(self.page_bytes) {
            let address = if page.len() == self.page_bytes {
                self.place(lane, page)?
            } else {
                let mut filled_up = vec![0; self.page_bytes];
                filled_up[..page.len()].copy_from_slice(page);
                self.place(lane, &filled_up)?
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
        (0..self.lanes.len()).try_for_each(|lane| self.submit_piece(lane))?;
        Ok(self.pieces.settle()?)
    }

    /// Settles and hands the pages over to the publication.
    pub fn finish(mut self) -> Result<(), VolumeError> {
        self.settle()?;
        (0..self.lanes.len()).for_each(|lane| self.give_chunks_back(lane));
        self.shared.writer_closed(std::mem::take(&mut self.written));
        self.closed = true;
        Ok(())
    }

    /// Where the next page of a part goes. The part becomes the last.
    fn lane_of(&mut self, part: Part) -> usize {
        if self.parts.get(self.last).is_none_or(|last| last.part != part) {
            self.last = match self.parts.iter().position(|known| known.part == part) {
                Some(known) => known,
                None => self.meet(part),
            };
        }
        let progress = &mut self.parts[self.last];
        if progress.lane < SHARED_LANES && progress.pages >= u64::from(self.pages_per_chunk) {
            progress.lane = self.lanes.len();
            self.lanes.push(Lane::default());
        }
        progress.lane
    }

    #[cold]
    fn meet(&mut self, part: Part) -> usize {
        let own = Wanted { content: self.content, part, alone: true, pages: 1 };
        let lane = match self.shared.take_tail(own) {
            None => usize::from(!part.is_inner()),
            Some(chunk) => {
                self.lanes.push(Lane { chunk: Some(chunk), ..Lane::default() });
                self.lanes.len() - 1
            }
        };
        self.parts.push(Progress { part, pages: 0, lane });
        self.parts.len() - 1
    }

    /// A chunk for the last part, in which so many pages can follow one another.
    fn wanted(&self, lane: usize, pages: u32) -> Wanted {
        Wanted { content: self.content, part: self.parts[self.last].part, alone: lane >= SHARED_LANES, pages }
    }

    /// Goes on where a run of so many pages has room.
    fn make_room(&mut self, lane: usize, pages: usize) -> Result<(), VolumeError> {
        self.submit_piece(lane)?;
        self.give_chunks_back(lane);
        let chunks = match pages <= self.pages_per_chunk as usize {
            true => vec![self.shared.open_chunk(self.wanted(lane, pages as u32))?],
            false => self.shared.fresh_chunks(pages.div_ceil(self.pages_per_chunk as usize), self.content)?,
        };
        self.lanes[lane].upcoming = chunks.into();
        Ok(())
    }

    /// Puts a page of the last part behind the others of a lane.
    fn place(&mut self, lane: usize, page: &[u8]) -> Result<PageAddress, VolumeError> {
        let page_bytes = self.page_bytes;
        if self.lanes[lane].chunk.as_ref().is_none_or(|chunk| chunk.next_page == self.pages_per_chunk) {
            self.next_chunk(lane)?;
        }
        if self.lanes[lane].piece.is_none() {
            self.bound_pieces()?;
        }
        let Lane { chunk: Some(chunk), piece, .. } = &mut self.lanes[lane] else { unreachable!("just taken") };
        let piece = match piece {
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
        let progress = &mut self.parts[self.last];
        progress.pages += 1;
        chunk.parts.add(progress.part);
        let written = self.written.entry(chunk.chunk).or_default();
        written.pages += 1;
        written.parts.add(progress.part);
        if full {
            self.submit_piece(lane)?;
        }
        Ok(address)
    }

    fn next_chunk(&mut self, lane: usize) -> Result<(), VolumeError> {
        // A full chunk ended with a full piece, since chunks are whole pieces.
        assert!(self.lanes[lane].piece.is_none(), "a chunk ended within a piece");
        self.lanes[lane].chunk = None;
        let next = match self.lanes[lane].upcoming.pop_front() {
            Some(chunk) => chunk,
            None => self.shared.open_chunk(self.wanted(lane, 1))?,
        };
        self.lanes[lane].chunk = Some(next);
        Ok(())
    }

    /// Has no more pieces filled at once than there may be: the fullest goes.
    fn bound_pieces(&mut self) -> Result<(), VolumeError> {
        let filled = |lane: &Lane| lane.piece.as_ref().map_or(0, |piece| piece.filled);
        let open = self.lanes.iter().filter(|lane| filled(lane) > 0).count();
        let fullest = (0..self.lanes.len()).max_by_key(|lane| filled(&self.lanes[*lane]));
        match fullest {
            Some(lane) if open >= PIECES_OPEN_MAX => self.submit_piece(lane),
            _ => Ok(()),
        }
    }

    fn submit_piece(&mut self, lane: usize) -> Result<(), VolumeError> {
        let Some(piece) = self.lanes[lane].piece.take() else { return Ok(()) };
        Ok(self.pieces.write(piece.device, piece.offset, piece.buffer, piece.filled)?)
    }

    fn give_chunks_back(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        for chunk in lane.chunk.take().into_iter().chain(lane.upcoming.drain(..)) {
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
            (0..self.lanes.len()).for_each(|lane| self.give_chunks_back(lane));
            self.shared.writer_closed(HashMap::new());
        }
    }
}
