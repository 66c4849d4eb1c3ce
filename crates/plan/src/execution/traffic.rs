//! What was read while a plan ran, beside what it was expected to read.

use std::collections::HashMap;
use std::fmt::Write;

use saki_base::{ChunkId, DeviceId};
use saki_store::{Database, PolicyKind, TierStats};

use crate::cost::text::seconds;
use crate::node::Forecast;

/// What has been read of a database's chunks and devices up to a moment, by everybody.
pub struct Traffic {
    /// Name, requests and bytes.
    devices: Vec<(DeviceId, String, u64, u64)>,
    /// Pages, counted up to 2^32 and from there again.
    chunks: HashMap<ChunkId, u32>,
    moved: TierStats,
}

impl Traffic {
    pub fn of(database: &Database) -> Self {
        let devices = database.devices().into_iter();
        let devices = devices.map(|it| (it.entry.number, it.name, it.reads.requests, it.reads.bytes)).collect();
        let mut chunks = HashMap::new();
        database.volume().chunk_reads(|chunk, (_, pages)| {
            chunks.insert(chunk, pages);
        });
        Self { devices, chunks, moved: database.tier().stats() }
    }
}

impl Forecast {
    /// A line of EXPLAIN; `None` if there is nothing to say.
    pub fn text(&self) -> Option<String> {
        if self.policy()? != PolicyKind::Plan {
            return None;
        }
        let it = self.assess()?;
        let saved = seconds(it.seconds_saved);
        Some(format!(
            "tier: {} chunks predicted, {} on fast devices, {} to copy, which saves {saved}",
            it.chunks, it.copied, it.to_move
        ))
    }

    /// Lines of EXPLAIN ANALYZE, for what was read between two moments; none if there is nothing to say.
    pub fn measured(&self, before: &Traffic, after: &Traffic) -> Vec<String> {
        let Some(predicted) = self.by_chunk() else { return Vec::new() };
        let mut lines = Vec::new();
        for (number, name, requests, bytes) in &after.devices {
            let known = before.devices.iter().find(|(known, ..)| known == number);
            let (requests_before, bytes_before) = known.map_or((0, 0), |(.., requests, bytes)| (*requests, *bytes));
            let (requests, bytes) = (requests - requests_before, bytes - bytes_before);
            lines.push(format!("tier: {name}: {requests} reads, {bytes} bytes"));
        }
        let (mut all, mut hit) = (0.0, 0.0);
        for (chunk, pages) in &after.chunks {
            let pages = f64::from(pages.wrapping_sub(before.chunks.get(chunk).copied().unwrap_or(0)));
            all += pages;
            hit += predicted.get(chunk).map_or(0.0, |predicted| predicted.min(pages));
        }
        let sum: f64 = predicted.values().sum();
        let mut line = format!("tier: {sum:.0} pages predicted, {all:.0} read, {hit:.0} of them as predicted");
        let moved = after.moved.promoted - before.moved.promoted;
        let _ = write!(line, "; {moved} chunks copied");
        lines.push(line);
        lines
    }
}
