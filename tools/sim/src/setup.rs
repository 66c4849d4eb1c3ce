//! How a seed's database is made and opened, and how fast its devices are.

use saki_base::Random;

use crate::threads::Interruptions;

/// How late logs are that are late, at most, in nanoseconds.
pub const LATE_LOGS: u64 = 50_000_000;

/// How the database is made and opened.
#[derive(Clone, Debug)]
pub struct Setup {
    pub page_bytes: u32,
    pub logs: usize,
    pub log_extent_bytes: u64,
    pub segment_rows: u32,
    pub cache_bytes: usize,
    pub column_cache_bytes: usize,
    pub delta_bytes: u64,
    pub log_bytes: u64,
    pub bulk_rows: usize,
    pub columns: bool,
    pub indexes: bool,
    /// The longest that devices make wait for a transfer when nothing is wrong, in nanoseconds.
    pub latency: u64,
    /// The same of the logs' devices: while they are late, much is committed and not durable.
    pub log_latency: u64,
    pub interruptions: Interruptions,
}

impl Setup {
    pub fn draw(random: &mut Random) -> Self {
        let latency = [0, 10_000, 100_000, 1_000_000][random.below(4) as usize];
        Self {
            page_bytes: 4096 << random.below(3),
            logs: random.range(1..4) as usize,
            log_extent_bytes: 32 << 10 << random.below(3),
            segment_rows: random.range(3..60) as u32,
            cache_bytes: [0, 64 << 10, 1 << 20][random.below(3) as usize],
            column_cache_bytes: [0, 256 << 10][random.below(2) as usize],
            // Now and then merges come by themselves.
            delta_bytes: if random.chance(0.5) { 4 << 10 << random.below(4) } else { 64 << 20 },
            log_bytes: if random.chance(0.3) { 64 << 10 } else { 1 << 20 },
            bulk_rows: [8, 40, 100, 32_768][random.below(4) as usize],
            columns: random.chance(0.8),
            indexes: random.chance(0.7),
            latency,
            log_latency: if random.chance(0.4) { LATE_LOGS } else { latency },
            interruptions: Interruptions {
                allocations: [0, 100, 1_000, 10_000][random.below(4) as usize],
                seams: [0, 0, 20, 200][random.below(4) as usize],
            },
        }
    }
}
