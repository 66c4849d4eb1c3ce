//! Reads of neighbouring pages that are handed to a device together: it makes one request of them, so they are let in
//! as one.
//!
//! The kernel's block layer merges them for a disk, and network block storage counts them as one operation. Were each
//! let in by itself, a scan on a device that shall have few requests in flight would read a page at a time, and an arm
//! that two scanning threads share would seek for each.

use std::sync::Arc;

use saki_base::DeviceId;
use saki_io::MERGED_BYTES_MAX;
use saki_page::IoShare;

/// The last reads that a lane has queued and not handed over, if they lie one behind the other.
#[derive(Default)]
pub(super) struct Run(Option<Last>);

struct Last {
    device: DeviceId,
    share: Arc<IoShare>,
    end: u64,
    bytes: usize,
}

impl Run {
    /// Whether a read at `offset` would go on where the last one ends, on the same behalf, and both be one request.
    #[inline]
    pub fn takes(&self, device: DeviceId, share: &Arc<IoShare>, offset: u64, bytes: usize) -> bool {
        let goes_on = |last: &Last| last.end == offset && last.device == device && Arc::ptr_eq(&last.share, share);
        self.0.as_ref().is_some_and(|last| goes_on(last) && last.bytes + bytes <= MERGED_BYTES_MAX)
    }

    /// Notes a read that has been queued: `rides` if the run takes it, else it begins one.
    #[inline]
    pub fn queued(&mut self, device: DeviceId, share: &Arc<IoShare>, offset: u64, bytes: usize, rides: bool) {
        let end = offset + bytes as u64;
        match &mut self.0 {
            Some(last) if rides => (last.end, last.bytes) = (end, last.bytes + bytes),
            _ => self.0 = Some(Last { device, share: Arc::clone(share), end, bytes }),
        }
    }

    /// What was queued is with the device: nothing can join it any more.
    #[inline]
    pub fn end(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_takes_what_goes_on_until_it_is_long_enough() {
        let (device, page, share) = (DeviceId(0), 64 << 10, IoShare::new(u32::MAX));
        let mut run = Run::default();
        assert!(!run.takes(device, &share, 0, page));
        run.queued(device, &share, 0, page, false);
        let second = page as u64;
        assert!(!run.takes(device, &share, second + 1, page) && !run.takes(DeviceId(1), &share, second, page));
        assert!(!run.takes(device, &IoShare::new(1), second, page), "somebody else's");
        for at in 1..4 {
            assert!(run.takes(device, &share, at * second, page));
            run.queued(device, &share, at * second, page, true);
        }
        assert!(!run.takes(device, &share, 4 * second, page), "that is {MERGED_BYTES_MAX} bytes");
        run.queued(device, &share, 4 * second, page, false);
        assert!(run.takes(device, &share, 5 * second, page));
        run.end();
        assert!(!run.takes(device, &share, 5 * second, page));
    }
}
