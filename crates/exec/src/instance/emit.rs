//! From entries to rows: an entry that counts is appended to the rows that leave its step.

use saki_page::{LeafPage, LeafValue};

use super::probes::ProbeBatch;
use super::state::Step;
use crate::plan::{JoinKind, Stage};
use crate::rows::entry::EntryReader;

/// The value of an entry, as far as it is at hand.
pub(super) enum Row<'p> {
    Here(&'p [u8]),
    /// On overflow pages, and needed.
    Elsewhere(saki_page::OverflowRef),
}

pub(super) fn entry_row<'p>(leaf: &LeafPage<'p>, entry: usize, reader: &EntryReader) -> Row<'p> {
    if !reader.needs_row() {
        return Row::Here(&[]);
    }
    match leaf.value(entry) {
        LeafValue::Inline(bytes) => Row::Here(bytes),
        LeafValue::Overflow(place) => Row::Elsewhere(place),
    }
}

/// An entry of the source: tested, and its columns appended.
pub(super) fn read_into(
    reader: &EntryReader,
    key: &[u8],
    bytes: &[u8],
    step: &mut Step,
    text: &mut Vec<u8>,
) -> Result<(), String> {
    if reader.matches(key, bytes, text)? {
        reader.append(key, bytes, &mut step.forming.columns, text)?;
        step.forming.rows += 1;
    }
    Ok(())
}

/// An entry matches an outer row.
#[allow(clippy::too_many_arguments)]
pub(super) fn hit(
    stage: &Stage,
    reader: &EntryReader,
    batch: &mut ProbeBatch,
    row: usize,
    step: &mut Step,
    key: &[u8],
    bytes: &[u8],
    text: &mut Vec<u8>,
) -> Result<(), String> {
    match stage.kind {
        JoinKind::Inner => {}
        JoinKind::Left => batch.matched[row] = true,
        JoinKind::Anti => {
            batch.matched[row] = true;
            return Ok(());
        }
        JoinKind::Semi if batch.matched[row] => return Ok(()),
        JoinKind::Semi => batch.matched[row] = true,
    }
    keep(stage, batch, row, step);
    reader.append(key, bytes, &mut step.forming.columns[stage.keep.len()..], text)
}

/// Starts a row of the next step with the registers that the outer row keeps.
#[inline]
pub(super) fn keep(stage: &Stage, batch: &ProbeBatch, row: usize, step: &mut Step) {
    let forming = &mut step.forming;
    for (column, &register) in forming.columns.iter_mut().zip(&stage.keep) {
        column.push_from(&batch.rows.columns[register], row);
    }
    if let (Some(to), Some(from)) = (&mut forming.outer, &batch.rows.outer) {
        let (outer_batch, outer_row) = from.rows[row];
        to.push(&from.batches[outer_batch as usize], outer_row);
    }
    forming.rows += 1;
}
