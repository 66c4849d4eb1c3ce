//! What lies over column segments: rows newer than theirs, and which of theirs they hide.

use std::fmt::Debug;
use std::sync::Arc;

use saki_vector::Batch;

use crate::error::ExecError;

/// Rows over those of a [`saki_columns::SegmentTable`]. It must not change while an execution reads it.
pub trait ColumnOverlay: Send + Sync + Debug {
    /// Positions of the rows of a segment that are no longer there or have been replaced: ascending, from 0.
    /// `None`: none of them. Asked once an execution for each segment that has a row left.
    fn hidden(&self, segment: usize) -> Result<Option<Arc<[u32]>>, ExecError>;

    /// Into how many parts the overlay's own rows are divided; each is one partition's work. A part should not have
    /// many more rows than a segment may.
    fn parts(&self) -> usize;

    /// The rows of a part: these columns of the table, in native forms ([`saki_vector::form`]). `columns` may be empty.
    fn rows(&self, part: usize, columns: &[usize]) -> Result<Batch, ExecError>;
}
