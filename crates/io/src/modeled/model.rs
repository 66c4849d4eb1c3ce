//! When a device of a stated kind would complete a request.
//!
//! ```text
//!  arrival ──► IOPS pace ──► bandwidth ──► server of this address ──► completion
//!             (one every     (bytes pass    (one request at a time,
//!              1/iops)        in turn)       `latency` each; or, without
//!                                            servers, `latency` for all at once)
//! ```
//!
//! - With `servers`, addresses are dealt to the servers by stripes, as to the
//!   disks of an array. A server does one request at a time; one that starts
//!   where its last ended pays no latency (no seek), only its transfer at
//!   `bandwidth / servers`.
//! - Without, requests overlap freely and share one `bandwidth`.
//!
//! The model is pure: time comes in and goes out as durations since any start,
//! so it serves the modeled device and simulations alike.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use saki_base::Random;

/// The kind of device to resemble. Parsed from and printed as
/// `latency=1ms,iops=100000,servers=160,stripe=64KiB,bandwidth=2GB` or a preset's name.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelOptions {
    /// A preset's name, or "custom".
    pub name: String,
    pub latency_min: Duration,
    /// Latencies are uniform between the two.
    pub latency_max: Duration,
    /// Requests begun per second.
    pub iops: Option<f64>,
    /// Bytes per second, of the whole device.
    pub bandwidth: Option<f64>,
    /// Disks that do one request at a time.
    pub servers: Option<u32>,
    /// Consecutive bytes on one server.
    pub stripe_bytes: u64,
}

/// Why a model's text was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError(String);

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ModelError {}

const MICROSECOND: Duration = Duration::from_micros(1);
const STRIPE_BYTES_DEFAULT: u64 = 64 << 10;
const SERVERS_MAX: u32 = 1 << 20;

impl ModelOptions {
    /// Names that [`FromStr`] knows.
    pub const PRESETS: [&'static str; 4] = ["hdd", "cloud-volume", "disk-array", "object-store"];

    fn fixed(name: &str, latency_us: [u32; 2]) -> Self {
        Self {
            name: name.into(),
            latency_min: MICROSECOND * latency_us[0],
            latency_max: MICROSECOND * latency_us[1],
            iops: None,
            bandwidth: None,
            servers: None,
            stripe_bytes: STRIPE_BYTES_DEFAULT,
        }
    }

    fn preset(name: &str) -> Option<Self> {
        Some(match name {
            // One arm: seek and half a turn, 4 to 13 ms; 180 MB/s along a track.
            "hdd" => Self { servers: Some(1), bandwidth: Some(180e6), ..Self::fixed(name, [4000, 13_000]) },
            // Network block storage with provisioned IOPS.
            "cloud-volume" => Self { iops: Some(100e3), bandwidth: Some(4e9), ..Self::fixed(name, [1000, 1000]) },
            // 160 fast disks behind one controller: 29 k IOPS at best.
            "disk-array" => Self { servers: Some(160), bandwidth: Some(16e9), ..Self::fixed(name, [5500, 5500]) },
            // Ten prefixes of a bucket, 5500 requests a second each.
            "object-store" => Self { iops: Some(55e3), bandwidth: Some(3e9), ..Self::fixed(name, [15_000, 30_000]) },
            _ => return None,
        })
    }
}

impl FromStr for ModelOptions {
    type Err = ModelError;

    /// Accepts a preset's name or a list of settings, with or without `modeled:` before it. Settings
    /// after a preset's name change it: `disk-array,servers=16`.
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let text = text.strip_prefix("modeled:").unwrap_or(text).trim();
        let mut model = Self::fixed("custom", [0, 0]);
        let mut latency_given = false;
        for (position, part) in text.split(',').map(str::trim).enumerate() {
            let Some((key, value)) = part.split_once('=') else {
                match Self::preset(part).filter(|_| position == 0) {
                    Some(preset) => {
                        (model, latency_given) = (preset, true);
                        continue;
                    }
                    None => return Err(ModelError(unknown(part))),
                }
            };
            model.set(key.trim(), value.trim())?;
            latency_given |= key.trim() == "latency";
        }
        if !latency_given {
            return Err(ModelError(format!("model '{text}': states no latency, such as latency=1ms or 15ms..30ms")));
        }
        if position_of_change(text) {
            model.name = "custom".into();
        }
        Ok(model)
    }
}

/// A preset that settings follow is no longer the preset.
fn position_of_change(text: &str) -> bool {
    text.contains('=')
}

fn unknown(part: &str) -> String {
    format!(
        "model: '{part}' is neither one of {} nor a setting (latency=1ms, iops=100000, bandwidth=2GB, servers=160, \
         stripe=64KiB)",
        ModelOptions::PRESETS.join(", ")
    )
}

impl ModelOptions {
    fn set(&mut self, key: &str, value: &str) -> Result<(), ModelError> {
        let refused = |wanted: &str| ModelError(format!("model: {key}={value}: {wanted}"));
        match key {
            "latency" => {
                let wanted = "wants a time such as 800us, 1ms or 15ms..30ms, up to a minute";
                let (low, high) = value.split_once("..").unwrap_or((value, value));
                let both = parse_time(low).zip(parse_time(high)).filter(|(low, high)| low <= high);
                (self.latency_min, self.latency_max) = both.ok_or_else(|| refused(wanted))?;
            }
            "iops" => {
                let number = parse_scaled(value, &[("k", 1e3), ("M", 1e6), ("", 1.0)]);
                self.iops = Some(number.ok_or_else(|| refused("wants a positive number of requests per second"))?);
            }
            "bandwidth" => {
                let number = parse_scaled(value.trim_end_matches("/s"), &BYTE_UNITS);
                self.bandwidth = Some(number.ok_or_else(|| refused("wants bytes per second such as 500MB or 2GB"))?);
            }
            "servers" => {
                let number = value.parse().ok().filter(|servers| (1..=SERVERS_MAX).contains(servers));
                self.servers = Some(number.ok_or_else(|| refused("wants a number of disks from 1 to 1048576"))?);
            }
            "stripe" => {
                let number = parse_scaled(value, &BYTE_UNITS).filter(|bytes| *bytes >= 512.0);
                self.stripe_bytes = number.ok_or_else(|| refused("wants bytes such as 64KiB, at least 512"))? as u64;
            }
            _ => return Err(ModelError(unknown(&format!("{key}={value}")))),
        }
        Ok(())
    }
}

/// Longer suffixes first, so that "KiB" is not taken for "B".
const BYTE_UNITS: [(&str, f64); 7] = [
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("B", 1.0),
];

fn parse_scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (digits, scale) = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    let number = digits.trim().parse::<f64>().ok()? * scale;
    (number.is_finite() && number > 0.0).then_some(number)
}

fn parse_time(text: &str) -> Option<Duration> {
    let (digits, scale) = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)]
        .iter()
        .find_map(|(unit, scale)| Some((text.trim().strip_suffix(unit)?, scale)))?;
    let seconds = digits.trim().parse::<f64>().ok()? * scale;
    (0.0..=60.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

impl fmt::Display for ModelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name != "custom" {
            return f.write_str(&self.name);
        }
        write!(f, "latency={}us", self.latency_min.as_micros())?;
        if self.latency_max != self.latency_min {
            write!(f, "..{}us", self.latency_max.as_micros())?;
        }
        if let Some(iops) = self.iops {
            write!(f, ",iops={iops}")?;
        }
        if let Some(servers) = self.servers {
            write!(f, ",servers={servers},stripe={}B", self.stripe_bytes)?;
        }
        if let Some(bandwidth) = self.bandwidth {
            write!(f, ",bandwidth={bandwidth}B")?;
        }
        Ok(())
    }
}

/// A device of that kind at work.
pub struct Model {
    options: ModelOptions,
    random: Random,
    /// When the next request may begin.
    pace: Duration,
    /// When the shared transfer is free.
    transfer: Duration,
    servers: Vec<Server>,
}

#[derive(Clone, Copy, Default)]
struct Server {
    free_at: Duration,
    /// Where its last transfer ended, in its own addresses.
    position: u64,
}

impl Model {
    pub fn new(options: ModelOptions, seed: u64) -> Self {
        let servers = vec![Server { position: u64::MAX, ..Server::default() }; options.servers.unwrap_or(0) as usize];
        Self { options, random: Random::new(seed), pace: Duration::ZERO, transfer: Duration::ZERO, servers }
    }

    pub fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// When a request that arrives at `now` completes. Calls come in the order of arrival.
    pub fn completes_at(&mut self, now: Duration, offset: u64, bytes: u64) -> Duration {
        let latency = self.latency();
        let mut begin = now;
        if let Some(iops) = self.options.iops {
            begin = begin.max(self.pace);
            self.pace = begin + Duration::from_secs_f64(1.0 / iops);
        }
        let bandwidth = self.options.bandwidth.unwrap_or(f64::INFINITY);
        if self.servers.is_empty() {
            begin = begin.max(self.transfer) + Duration::from_secs_f64(bytes as f64 / bandwidth);
            self.transfer = begin;
            return begin + latency;
        }
        // A request over several stripes is done when the last of its servers is.
        let (mut start, end) = (offset, offset.saturating_add(bytes.max(1)));
        let mut done = begin;
        while start < end {
            let piece = (self.options.stripe_bytes - start % self.options.stripe_bytes).min(end - start);
            done = done.max(self.serve(begin, start, piece, latency, bandwidth));
            start += piece;
        }
        done
    }

    /// When the server of `offset` has transferred a piece of one stripe that it may begin at `begin`.
    fn serve(&mut self, begin: Duration, offset: u64, bytes: u64, latency: Duration, bandwidth: f64) -> Duration {
        let count = self.servers.len() as u64;
        let stripe = offset / self.options.stripe_bytes;
        let position = stripe / count * self.options.stripe_bytes + offset % self.options.stripe_bytes;
        let server = &mut self.servers[(stripe % count) as usize];
        let seek = if server.position == position { Duration::ZERO } else { latency };
        let transfer = Duration::from_secs_f64(bytes as f64 * count as f64 / bandwidth);
        server.free_at = server.free_at.max(begin) + seek + transfer;
        server.position = position + bytes;
        server.free_at
    }

    /// When a flush that arrives at `now` completes: one latency, beside everything else.
    pub fn flushes_at(&mut self, now: Duration) -> Duration {
        now + self.latency()
    }

    fn latency(&mut self) -> Duration {
        let (low, high) = (self.options.latency_min.as_nanos() as u64, self.options.latency_max.as_nanos() as u64);
        Duration::from_nanos(self.random.range(low..high + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_understood() {
        for preset in ModelOptions::PRESETS {
            let model: ModelOptions = format!("modeled:{preset}").parse().unwrap();
            assert_eq!(model.to_string(), preset);
        }
        let model: ModelOptions =
            "modeled:latency=1ms,iops=100k,servers=160,bandwidth=2GB/s,stripe=128KiB".parse().unwrap();
        assert_eq!(model.latency_min, Duration::from_millis(1));
        assert_eq!((model.iops, model.servers, model.bandwidth), (Some(1e5), Some(160), Some(2e9)));
        assert_eq!(model.stripe_bytes, 128 << 10);
        assert_eq!(model, model.to_string().parse().unwrap());
        let model: ModelOptions = "disk-array, servers=16, latency=2ms..4ms".parse().unwrap();
        assert_eq!((model.servers, model.latency_max), (Some(16), Duration::from_millis(4)));
        assert_eq!(model, model.to_string().parse().unwrap());
    }

    #[test]
    fn refusals_say_what_is_wanted() {
        for (text, part) in [
            ("floppy", "neither one of"),
            ("", "neither one of"),
            ("iops=5", "no latency"),
            ("latency=5", "wants a time"),
            ("latency=9ms..3ms", "wants a time"),
            ("latency=1ms,iops=0", "positive number"),
            ("latency=1ms,servers=0", "number of disks"),
            ("latency=1ms,bandwidth=lots", "bytes per second"),
            ("latency=1ms,colour=red", "neither one of"),
            ("latency=1ms,hdd", "neither one of"),
        ] {
            let error = text.parse::<ModelOptions>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_disk_serves_one_at_a_time_and_neighbours_without_a_seek() {
        let mut model = Model::new("latency=5ms,servers=1,bandwidth=100MB".parse().unwrap(), 1);
        let first = model.completes_at(Duration::ZERO, 4096, 100_000);
        assert_eq!(first, Duration::from_millis(6));
        let far = model.completes_at(Duration::ZERO, 1 << 30, 4096);
        assert!(far > first + Duration::from_millis(5));
        let next = model.completes_at(Duration::ZERO, (1 << 30) + 4096, 4096);
        assert!(next < far + Duration::from_millis(1), "a sequential read pays no seek");
    }

    #[test]
    fn a_long_request_is_shared_by_its_stripes_servers() {
        let mut model = Model::new("latency=5ms,servers=16,bandwidth=1600MB,stripe=64KiB".parse().unwrap(), 1);
        let done = model.completes_at(Duration::ZERO, 0, 1 << 20);
        assert_eq!(done.as_micros(), 5655);
    }

    #[test]
    fn a_volume_overlaps_latency_but_keeps_its_pace() {
        let mut model = Model::new("cloud-volume".parse().unwrap(), 1);
        let last = (0..1000).map(|page| model.completes_at(Duration::ZERO, page * 4096, 4096)).max().unwrap();
        // 999 paces of 10 µs, 4 KiB at 4 GB/s, and one latency.
        assert!((last.as_secs_f64() - 0.010_991).abs() < 1e-5, "{last:?}");
    }
}
