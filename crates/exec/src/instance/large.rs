//! Rows too large for a leaf: their overflow pages are visits like all others, and the row is answered when its last
//! piece has come.

use saki_base::row::ROW_BYTES_MAX;
use saki_page::{OverflowDataPage, OverflowIndexPage, OverflowLayout, OverflowRef, PageExpectation};

use super::state::Instance;
use super::under_way::LargeRow;
use super::visits::{Visit, Work};
use crate::error::ExecError;

impl Instance {
    /// Starts to fetch the row of the entry whose key is in `self.key`.
    pub(super) fn fetch_large(&mut self, step: usize, work: Work, place: OverflowRef) -> Result<(), String> {
        if place.length > ROW_BYTES_MAX as u64 {
            return Err(format!("a row of {} bytes, more than any row can have", place.length));
        }
        if let Work::Probes { batch, .. } = work {
            self.batches[batch as usize].as_mut().expect("alive while work waits").outstanding += 1;
        }
        let layout = OverflowLayout::for_length(place.length, self.execution.page_size);
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
        self.want(step, place.root, u16::from(layout.root_level), true, piece);
        Ok(())
    }

    /// An overflow page is there.
    pub(super) fn overflow_page(
        &mut self,
        step: usize,
        visit: Visit,
        bytes: &[u8],
        expected: PageExpectation,
        work: &[Work],
    ) -> Result<(), ExecError> {
        for &piece in work {
            let Work::Large { large, offset } = piece else {
                return Err(self.execution.malformed(step, visit.page, "only pieces of rows wait for overflow pages"));
            };
            let taken = if visit.level > 0 {
                self.overflow_index(step, visit, bytes, expected, large, offset)
            } else {
                self.overflow_data(bytes, expected, large, offset)
            };
            taken
                .and_then(|()| self.piece_done(step, large))
                .map_err(|reason| self.execution.malformed(step, visit.page, reason))?;
        }
        Ok(())
    }

    fn overflow_index(
        &mut self,
        step: usize,
        visit: Visit,
        bytes: &[u8],
        expected: PageExpectation,
        large: u32,
        offset: u64,
    ) -> Result<(), String> {
        let view = OverflowIndexPage::open(bytes, expected).map_err(|error| error.to_string())?;
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
            self.want(step, view.child(child), visit.level - 1, true, piece);
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
        let view = OverflowDataPage::open(bytes, expected).map_err(|error| error.to_string())?;
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
    fn piece_done(&mut self, step: usize, large: u32) -> Result<(), String> {
        let place = &mut self.large.rows[large as usize];
        let row = place.as_mut().expect("alive while pages are missing");
        row.pages_missing -= 1;
        if row.pages_missing > 0 {
            return Ok(());
        }
        let row = place.take().expect("just seen");
        self.live_bytes -= row.bytes.len();
        self.large_row(step, row.work, &row.key, &row.bytes)?;
        self.work_done(step, row.work);
        Ok(())
    }
}
