//! Work that takes several steps: rows put together from overflow pages, and batches looked up in what lies over a
//! tree.

use saki_page::OverflowLayout;

use super::visits::Work;
use crate::overlay::OverlayReader;

/// A row being put together.
pub(super) struct LargeRow {
    /// Whom it answers: a single probe, or a range of the source.
    pub work: Work,
    pub key: Vec<u8>,
    pub bytes: Vec<u8>,
    pub layout: OverflowLayout,
    pub pages_missing: u64,
}

/// All large rows under way.
#[derive(Default)]
pub(super) struct LargeRows {
    pub rows: Vec<Option<LargeRow>>,
}

/// A batch of probes being looked up in the overlay.
pub(super) struct OverlaidBatch {
    pub batch: u32,
    /// The probe that comes next, and the last of the overlay's entries that it has seen.
    pub probe: u32,
    pub after: Option<Vec<u8>>,
    /// Of probes by the whole key, which the overlay decides; empty until known, and for other probes.
    pub hidden: Vec<bool>,
}

impl OverlaidBatch {
    pub(super) fn new(batch: u32) -> Self {
        Self { batch, probe: 0, after: None, hidden: Vec::new() }
    }
}

/// A partition's readers of overlays, and memory reused from page to page.
#[derive(Default)]
pub(super) struct Overlaid {
    /// By step.
    pub readers: Vec<Option<Box<dyn OverlayReader>>>,
    /// The range of the source whose overlay entries this partition reads, and the last one read.
    pub range: Option<(u32, Option<Vec<u8>>)>,
    pub scratch: Scratch,
}

#[derive(Default)]
pub(super) struct Scratch {
    pub low: Vec<u8>,
    pub high: Vec<u8>,
    pub hidden: Vec<bool>,
    /// Entries of a leaf that match somebody, ascending.
    pub entries: Vec<u32>,
    /// Whom they match: a probe, and a position in `entries`. A source's entries match the source.
    pub matches: Vec<(u32, u32)>,
}
