//! What a scan of segments did. Partitions count in their own memory and add here once per segment.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a scan, over all partitions.
        #[derive(Default, Debug)]
        pub struct ScanMetrics {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// The same counters, in one partition's memory.
        #[derive(Default, Clone, Copy)]
        pub(super) struct ScanCounts {
            $(pub $name: u64,)*
        }

        impl ScanMetrics {
            pub(super) fn add(&self, counts: &mut ScanCounts) {
                let counts = std::mem::take(counts);
                $(if counts.$name > 0 {
                    self.$name.fetch_add(counts.$name, Ordering::Relaxed);
                })*
            }
        }
    };
}

metrics! {
    /// Segments looked at, in zone maps at least.
    segments,
    /// Of these, ruled out by the zone maps and the filter.
    segments_pruned,
    /// Of these, ruled out by the zone maps and the keys of joins above.
    segments_pruned_by_keys,
    /// Of these, read in part: no row passed, and the other columns were not wanted.
    segments_skipped,
    /// Runs that this scan had read.
    runs_read,
    /// Runs on their way for others already.
    runs_shared,
    /// Runs found in memory.
    runs_cached,
    /// Bytes of the runs read.
    bytes_read,
    /// Rows of the segments that were not ruled out, and of what lies over them.
    rows_in,
    /// Of these, rows that lie over the segments.
    overlay_rows,
    /// Rows of segments that what lies over them hides, as far as that was asked.
    hidden,
    /// Rows handed on.
    rows,
    /// Nanoseconds spent decoding.
    decode_nanos,
    /// Nanoseconds that partitions had nothing to do but wait for runs.
    wait_nanos,
}

impl fmt::Display for ScanMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let milliseconds = |nanos: &AtomicU64| get(nanos) as f64 / 1e6;
        write!(
            f,
            "segments={} (pruned={} by_keys={} skipped={}) runs read={} cached={} shared={} bytes={} \
             rows_in={} rows={} \
             decode={:.1}ms io_wait={:.1}ms",
            get(&self.segments),
            get(&self.segments_pruned),
            get(&self.segments_pruned_by_keys),
            get(&self.segments_skipped),
            get(&self.runs_read),
            get(&self.runs_cached),
            get(&self.runs_shared),
            get(&self.bytes_read),
            get(&self.rows_in),
            get(&self.rows),
            milliseconds(&self.decode_nanos),
            milliseconds(&self.wait_nanos),
        )?;
        match (get(&self.overlay_rows), get(&self.hidden)) {
            (0, 0) => Ok(()),
            (rows, hidden) => write!(f, " newer={rows} hidden={hidden}"),
        }
    }
}
