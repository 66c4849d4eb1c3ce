//! How much of the device's bandwidth a cold scan of lineitem's numbers and dates gets. (Text is left out: the comments
//! alone are half of the bytes and four fifths of the time to decode.)

use std::sync::Arc;
use std::time::Instant;

use saki_sql::{Database, Session};
use tokio::runtime::Runtime;

use crate::data::tpch::{lines, rows_of, text};
use crate::ooo::counts::figures;
use saki_report::Report;

/// Scans; the fastest counts.
const REPEATS: usize = 3;

/// Reports `scan_share_of_device`: bytes of column segments read a second, over what long reads of the device come to.
///
/// # Errors
/// When a scan fails, or the device cannot be measured.
pub fn scan_share(
    database: &Arc<Database>,
    session: &Session,
    runtime: &Runtime,
    report: &mut Report,
) -> Result<(), String> {
    let generation = database.generation();
    let Some(lineitem) = generation.catalog.get("lineitem").filter(|table| table.segments.is_some()) else {
        return Ok(());
    };
    let fixed = lineitem.columns.iter().filter(|column| column.data_type.fixed_width().is_some());
    let maxima: Vec<String> = fixed.map(|column| format!("max({})", column.name)).collect();
    let scan = format!("EXPLAIN ANALYZE SELECT {} FROM lineitem", maxima.join(", "));
    let mut best = 0.0_f64;
    for _ in 0..REPEATS {
        database.drop_caches();
        let started = Instant::now();
        let plan = lines(&runtime.block_on(rows_of(session, &scan))?)?.join("\n");
        let bytes: f64 = figures(&plan, " bytes=").sum();
        best = best.max(bytes / started.elapsed().as_secs_f64());
    }
    // Measured now, because a shared disk's speed drifts.
    let bandwidth = database.calibrate(&mut |_| {}).map_err(text)?.sequential_bandwidth();
    report.configure("scan_mb_per_second", best / 1e6);
    report.configure("device_mb_per_second", bandwidth / 1e6);
    report.summarise("scan_share_of_device", best / bandwidth);
    Ok(())
}
