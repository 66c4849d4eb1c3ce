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

    /// Of so many pages that follow one another.
    pub fn of_run(pages: f64) -> Self {
        Self { requests: pages.min(1.0), pages }
    }

    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.pages += other.pages;
    }

    /// Takes so many pages away, if there are as many, and their share of the requests; returns what that was.
    pub fn take_pages(&mut self, pages: f64) -> Self {
        let pages = pages.min(self.pages);
        let share = if self.pages > 0.0 { pages / self.pages } else { 0.0 };
        let taken = Self { requests: self.requests * share, pages };
        self.take(taken)
    }

    /// Takes away what is in both, and returns that.
    pub fn take(&mut self, other: Self) -> Self {
        let taken = Self { requests: self.requests.min(other.requests), pages: self.pages.min(other.pages) };
        self.requests -= taken.requests;
        self.pages -= taken.pages;
        taken
    }
}

/// How fast a device is when it is busy, but for the latency.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Seconds of one read by itself.
    pub latency: f64,
    /// Of one page each.
    pub reads_per_second: f64,
    pub read_bytes_per_second: f64,
    pub write_bytes_per_second: f64,
}

/// How much faster than homes a fast device is taken for that has not been measured, if that is faster than an assumed
/// disk.
const FASTER_ASSUMED: f64 = 10.0;

impl Speed {
    pub fn of_profile(profile: &DeviceProfile, page_size: PageSize) -> Self {
        Self {
            latency: profile.depth_one_latency(page_size.into()),
            reads_per_second: profile.best_iops(page_size.into()),
            read_bytes_per_second: profile.sequential_bandwidth(),
            write_bytes_per_second: profile.write_bandwidth(),
        }
    }

    fn times(self, factor: f64) -> Self {
        let Self { latency, reads_per_second, read_bytes_per_second, write_bytes_per_second } = self;
        Self {
            latency: latency / factor,
            reads_per_second: reads_per_second * factor,
            read_bytes_per_second: read_bytes_per_second * factor,
            write_bytes_per_second: write_bytes_per_second * factor,
        }
    }

    /// The better of both in each respect.
    fn or_faster(self, other: Self) -> Self {
        Self {
            latency: self.latency.min(other.latency),
            reads_per_second: self.reads_per_second.max(other.reads_per_second),
            read_bytes_per_second: self.read_bytes_per_second.max(other.read_bytes_per_second),
            write_bytes_per_second: self.write_bytes_per_second.max(other.write_bytes_per_second),
        }
    }

    /// Seconds of so many requests for so many pages together. A request's first page is sought, the others follow.
    pub fn seconds(&self, reads: Reads, page_bytes: usize) -> f64 {
        let following = (reads.pages - reads.requests).max(0.0) * page_bytes as f64;
        reads.requests / self.reads_per_second + following / self.read_bytes_per_second
    }

    /// Of devices that each have a share of what is read, all at once: the one that takes longest for its share is
    /// waited for. `None` if there is nothing to read.
    fn together(shares: impl Iterator<Item = (Self, f64)>) -> Option<Self> {
        let mut seconds = [0.0_f64; 3];
        let (mut latency, mut all) = (0.0, 0.0);
        for (speed, share) in shares {
            latency += speed.latency * share;
            all += share;
            let rates = [speed.reads_per_second, speed.read_bytes_per_second, speed.write_bytes_per_second];
            for (seconds, rate) in seconds.iter_mut().zip(rates) {
                *seconds = seconds.max(share / rate);
            }
        }
        let [reads_per_second, read_bytes_per_second, write_bytes_per_second] = seconds.map(|longest| all / longest);
        let speed = Self { latency: latency / all, reads_per_second, read_bytes_per_second, write_bytes_per_second };
        (all > 0.0).then_some(speed)
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
    /// By the profiles that are stored on them. A fast device without one is taken for ten times as fast as the first,
    /// and for a middling solid-state disk at least.
    /// `homes`: what all others are taken for, whatever their profiles say.
    pub fn of(volume: &Volume, homes: Option<Speed>) -> Self {
        let page_size = volume.page_size();
        let measured = |number: DeviceId| {
            let stored = volume.profile_of(number).ok().flatten()?;
            let profile = DeviceProfile::from_json(std::str::from_utf8(&stored).ok()?)?;
            Some(Speed::of_profile(&profile, page_size))
        };
        let devices = volume.devices();
        let assumed = Speed::of_profile(&DeviceProfile::assumed(), page_size);
        let of_first = || devices.first().and_then(|device| measured(device.entry.number));
        let first = homes.or_else(of_first).unwrap_or(assumed);
        let mut speeds = Self::default();
        for device in devices {
            let number = device.entry.number;
            let speed = match (device.entry.class, homes) {
                (Class::Fast, _) => measured(number).unwrap_or_else(|| first.times(FASTER_ASSUMED).or_faster(assumed)),
                (_, Some(homes)) => homes,
                (_, None) => measured(number).unwrap_or(first),
            };
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

    /// Of the first device.
    pub fn first(&self) -> Option<Speed> {
        self.speeds.iter().flatten().next().copied()
    }

    /// Whether all that is read is read from one device.
    pub fn is_one(&self) -> bool {
        self.speeds.iter().flatten().count() <= 1
    }

    /// Of what lies on several devices, so much on each; `None` if nothing does.
    pub fn of_shares(&self, shares: impl Iterator<Item = (DeviceId, f64)>) -> Option<Speed> {
        Speed::together(shares.filter_map(|(number, share)| Some((self.home(number)?, share))))
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
        Speed { latency: 0.01, reads_per_second: 100.0, read_bytes_per_second: 1e6, write_bytes_per_second: 1e6 }
            .times(factor)
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
    #[test]
    fn devices_that_are_read_at_once_wait_for_the_one_with_most_to_do() {
        let mut speeds = Speeds::default();
        assert_eq!((speeds.first(), speeds.is_one()), (None, true));
        speeds.put(DeviceId(0), speed(1.0), false);
        assert!(speeds.is_one());
        speeds.put(DeviceId(1), speed(1.0), false);
        speeds.put(DeviceId(2), speed(10.0), true);
        assert!(!speeds.is_one() && speeds.first() == Some(speed(1.0)));
        let mixed =
            |shares: &[(u16, f64)]| speeds.of_shares(shares.iter().map(|(number, share)| (DeviceId(*number), *share)));
        assert_eq!(mixed(&[]), None);
        assert_eq!(mixed(&[(2, 7.0)]), Some(speed(10.0)));
        let both = mixed(&[(0, 5.0), (1, 5.0)]).expect("two");
        assert_eq!((both.reads_per_second, both.latency), (200.0, 0.01), "two do twice as much, no sooner");
        let half = mixed(&[(0, 5.0), (2, 5.0)]).expect("two");
        assert_eq!(half.reads_per_second, 200.0, "the slow one has half as much to do");
        assert!((half.latency - 0.0055).abs() < 1e-12, "{}", half.latency);
        let most = mixed(&[(0, 1.0), (2, 99.0)]).expect("two");
        assert!((most.reads_per_second - 1000.0 / 0.99).abs() < 1e-6, "{}", most.reads_per_second);
    }
}
