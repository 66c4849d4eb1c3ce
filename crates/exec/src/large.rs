//! Rows too large for a leaf: their overflow pages are visits like all others, and the row is answered when its last piece has come.

use saki_base::row::ROW_BYTES_MAX;
use saki_page::{OverflowDataView, OverflowIndexView, OverflowLayout, OverflowRef, PageExpectation};

use crate::error::ExecError;
use crate::instance::Instance;
use crate::visit::malformed;
use crate::visits::{Visit, Work};

/// A row being put together.
struct LargeRow {
    /// Whom it answers: a single probe, or a range of the source.
    work: Work,
    key: Vec<u8>,
    bytes: Vec<u8>,
    layout: OverflowLayout,
    pages_missing: u64,
}

/// All large rows under way.
#[derive(Default)]
pub(crate) struct LargeRows {
    rows: Vec<Option<LargeRow>>,
}

impl Instance {
    /// Starts to fetch the row of the entry whose key is in `self.key`.
    pub(crate) fn fetch_large(&mut self, depth: usize, work: Work, place: OverflowRef) -> Result<(), String> {
        if place.length > ROW_BYTES_MAX as u64 {
            return Err(format!("a row of {} bytes, more than any row can have", place.length));
        }
        if let Work::Probes { batch, .. } = work {
            self.batches[batch as usize].as_mut().expect("alive while work waits").outstanding += 1;
        }
        let layout = OverflowLayout::for_length(place.length, self.run.page_size);
        let row =
            LargeRow { work, key: self.key.clone(), bytes: vec![0; place.length as usize], layout, pages_missing: 1 };
        self.live_bytes += row.bytes.len();
        let index = match self.large.rows.iter().position(Option::is_none) {
            Some(index) => {
                self.large.rows[index] = Some(row);
                index
            }
            None => {
                self.large.rows.push(Some(row));
                self.large.rows.len() - 1
            }
        };
        let piece = Work::Large { large: index as u32, offset: 0 };
        self.want(depth, place.root, u16::from(layout.depth), true, piece);
        Ok(())
    }

    /// An overflow page is there.
    pub(crate) fn overflow_page(
        &mut self,
        depth: usize,
        visit: Visit,
        bytes: &[u8],
        expected: PageExpectation,
        work: &[Work],
    ) -> Result<(), ExecError> {
        for &piece in work {
            let Work::Large { large, offset } = piece else {
                return Err(malformed(&self.run, depth, visit.page, "only pieces of rows wait for overflow pages"));
            };
            let taken = if visit.level > 0 {
                self.overflow_index(depth, visit, bytes, expected, large, offset)
            } else {
                self.overflow_data(bytes, expected, large, offset)
            };
            taken
                .and_then(|()| self.piece_done(depth, large))
                .map_err(|reason| malformed(&self.run, depth, visit.page, reason))?;
        }
        Ok(())
    }

    fn overflow_index(
        &mut self,
        depth: usize,
        visit: Visit,
        bytes: &[u8],
        expected: PageExpectation,
        large: u32,
        offset: u64,
    ) -> Result<(), String> {
        let view = OverflowIndexView::open(bytes, expected).map_err(|error| error.to_string())?;
        let page_size = expected.page_size;
        let below = u32::from(visit.level - 1);
        let span =
            OverflowLayout::data_bytes(page_size) as u64 * (OverflowLayout::fan_out(page_size) as u64).pow(below);
        let row = self.large.rows[large as usize].as_mut().expect("alive while pages are missing");
        let children = row.layout.length.saturating_sub(offset).div_ceil(span);
        if children.min(OverflowLayout::fan_out(page_size) as u64) != view.count() as u64 {
            return Err(format!("{} children where {children} were expected", view.count()));
        }
        row.pages_missing += view.count() as u64;
        for child in 0..view.count() {
            let piece = Work::Large { large, offset: offset + child as u64 * span };
            self.want(depth, view.child(child), visit.level - 1, true, piece);
        }
        Ok(())
    }

    fn overflow_data(
        &mut self,
        bytes: &[u8],
        expected: PageExpectation,
        large: u32,
        offset: u64,
    ) -> Result<(), String> {
        let view = OverflowDataView::open(bytes, expected).map_err(|error| error.to_string())?;
        let row = self.large.rows[large as usize].as_mut().expect("alive while pages are missing");
        let start = offset as usize;
        let length = row.bytes.len().saturating_sub(start).min(OverflowLayout::data_bytes(expected.page_size));
        if view.piece().len() != length {
            return Err(format!("a piece of {} bytes where {length} were expected", view.piece().len()));
        }
        row.bytes[start..start + length].copy_from_slice(view.piece());
        Ok(())
    }

    /// One page fewer is missing; with the last, the row is answered.
    fn piece_done(&mut self, depth: usize, large: u32) -> Result<(), String> {
        let slot = &mut self.large.rows[large as usize];
        let row = slot.as_mut().expect("alive while pages are missing");
        row.pages_missing -= 1;
        if row.pages_missing > 0 {
            return Ok(());
        }
        let row = slot.take().expect("just seen");
        self.live_bytes -= row.bytes.len();
        self.large_row(depth, row.work, &row.key, &row.bytes)?;
        self.work_done(depth, row.work);
        Ok(())
    }
}
