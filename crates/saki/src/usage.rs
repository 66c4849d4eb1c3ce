//! Processor time and memory of this process, as the system counts them.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// What the process has used since it began.
#[derive(Clone, Copy, Default, Debug)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    /// The most memory it ever had resident, in bytes.
    pub resident_max: u64,
}

impl Usage {
    /// Up to now, all threads together. Nothing where the system does not say.
    pub fn now() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Self::default() };
        let duration = |time: nix::sys::time::TimeVal| {
            Duration::new(time.tv_sec().unsigned_abs(), 0) + Duration::from_micros(time.tv_usec().unsigned_abs())
        };
        Self {
            user: duration(usage.user_time()),
            system: duration(usage.system_time()),
            resident_max: usage.max_rss().unsigned_abs() * 1024,
        }
    }

    /// What was used between `earlier` and this.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            resident_max: self.resident_max,
        }
    }
}
