//! What reads cost, in seconds of a device's time.

use saki_base::{CHUNK_BYTES, DeviceId, PageSize};
use saki_io::DeviceProfile;
use saki_volume::{Class, Volume};

/// Requests, and the pages that they are for: halves and thirds where they are expected.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reads {
    pub requests: f64,
    pub pages: f64,
}

impl Reads {
    /// Of so many pages, each by itself.
    pub fn of_pages(pages: f64) -> Self {
        Self { requests: pages, pages }
    }

    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.pages += other.pages;
    }

    /// Takes away what is in both, and returns that.
    pub fn take(&mut self, other: Self) -> Self {
        let taken = Self { requests: self.requests.min(other.requests), pages: self.pages.min(other.pages) };
        self.requests -= taken.requests;
        self.pages -= taken.pages;
        taken
    }
}

/// How fast a device is when it is busy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Of one page each.
    pub reads_per_second: f64,
    pub read_bytes_per_second: f64,
    pub write_bytes_per_second: f64,
}

/// How much faster than homes a fast device is taken for that has not been measured.
const FASTER_ASSUMED: f64 = 10.0;

impl Speed {
    pub fn of_profile(profile: &DeviceProfile, page_size: PageSize) -> Self {
        Self {
            reads_per_second: profile.best_iops(page_size.into()),
            read_bytes_per_second: profile.sequential_bandwidth(),
            write_bytes_per_second: profile.write_bandwidth(),
        }
    }

    fn times(self, factor: f64) -> Self {
        let Self { reads_per_second, read_bytes_per_second, write_bytes_per_second } = self;
        Self {
            reads_per_second: reads_per_second * factor,
            read_bytes_per_second: read_bytes_per_second * factor,
            write_bytes_per_second: write_bytes_per_second * factor,
        }
    }

    /// Seconds of so many requests for so many pages together. A request's first page is sought, the others follow.
    pub fn seconds(&self, reads: Reads, page_bytes: usize) -> f64 {
        let following = (reads.pages - reads.requests).max(0.0) * page_bytes as f64;
        reads.requests / self.reads_per_second + following / self.read_bytes_per_second
    }

    /// Seconds of reading a whole chunk.
    pub fn seconds_of_chunk(&self) -> f64 {
        1.0 / self.reads_per_second + CHUNK_BYTES as f64 / self.read_bytes_per_second
    }
}

/// The devices of a volume, by number.
#[derive(Clone, Debug, Default)]
pub struct Speeds {
    speeds: Vec<Option<Speed>>,
    /// The fast device that is least fast, if there is one.
    copies: Option<Speed>,
}

impl Speeds {
    /// By the profiles that are stored on them. A fast device without one is taken for ten times as fast as the first.
    pub fn of(volume: &Volume) -> Self {
        let page_size = volume.page_size();
        let measured = |number: DeviceId| {
            let stored = volume.profile_of(number).ok().flatten()?;
            let profile = DeviceProfile::from_json(std::str::from_utf8(&stored).ok()?)?;
            Some(Speed::of_profile(&profile, page_size))
        };
        let devices = volume.devices();
        let assumed = Speed::of_profile(&DeviceProfile::assumed(), page_size);
        let first = devices.first().and_then(|device| measured(device.entry.number)).unwrap_or(assumed);
        let mut speeds = Self::default();
        for device in devices {
            let number = device.entry.number;
            let factor = if device.entry.class == Class::Fast { FASTER_ASSUMED } else { 1.0 };
            let speed = measured(number).unwrap_or_else(|| first.times(factor));
            speeds.put(number, speed, device.entry.role.copies);
        }
        speeds
    }

    pub fn put(&mut self, number: DeviceId, speed: Speed, takes_copies: bool) {
        let place = usize::from(number.0);
        if self.speeds.len() <= place {
            self.speeds.resize(place + 1, None);
        }
        self.speeds[place] = Some(speed);
        let is_slower = |known: &Speed| speed.reads_per_second < known.reads_per_second;
        if takes_copies && self.copies.as_ref().is_none_or(is_slower) {
            self.copies = Some(speed);
        }
    }

    /// Seconds that copies save where reads would be at `home`; 0 if there is no fast device.
    pub fn saved(&self, home: DeviceId, reads: Reads, page_bytes: usize) -> f64 {
        let (Some(home), Some(copy)) = (self.home(home), self.copies) else { return 0.0 };
        (home.seconds(reads, page_bytes) - copy.seconds(reads, page_bytes)).max(0.0)
    }

    /// Seconds that making a copy takes: of its home, and of the fast device.
    pub fn copying(&self, home: DeviceId) -> f64 {
        let (Some(home), Some(copy)) = (self.home(home), self.copies) else { return f64::INFINITY };
        home.seconds_of_chunk() + CHUNK_BYTES as f64 / copy.write_bytes_per_second
    }

    fn home(&self, number: DeviceId) -> Option<Speed> {
        self.speeds.get(usize::from(number.0)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(factor: f64) -> Speed {
        Speed { reads_per_second: 100.0, read_bytes_per_second: 1e6, write_bytes_per_second: 1e6 }.times(factor)
    }

    #[test]
    fn reads_cost_what_the_device_takes_for_them() {
        let mut speeds = Speeds::default();
        speeds.put(DeviceId(0), speed(1.0), false);
        let five = Reads::of_pages(5.0);
        assert_eq!(speeds.saved(DeviceId(0), five, 8192), 0.0, "there is nothing faster");
        speeds.put(DeviceId(1), speed(10.0), true);
        let saved = speeds.saved(DeviceId(0), five, 8192);
        assert!((saved - 0.9 * 0.05).abs() < 1e-9, "{saved}");
        // Pages that follow one another are not sought.
        let run = speeds.saved(DeviceId(0), Reads { requests: 1.0, pages: 101.0 }, 1000);
        assert!((run - 0.9 * (0.01 + 0.1)).abs() < 1e-9, "{run}");
        let copying = speeds.copying(DeviceId(0));
        assert!((copying - (0.01 + 1.048_576 + 0.104_857_6)).abs() < 1e-9, "{copying}");
        assert_eq!(speeds.saved(DeviceId(7), five, 8192), 0.0, "nothing is known of it");
    }
}
