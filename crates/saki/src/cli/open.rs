//! Opening and creating databases as asked on the command line.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use saki::{CreateOptions, Database, DeviceClass, DeviceSpec, OpenOptions, PageSize, PolicyKind};

use super::failure::{Failure, Outcome};
use super::size;

/// How to reach the database; shared by the commands that open one.
#[derive(Args, Clone, Debug)]
pub struct OpenArgs {
    /// Memory for pages; a sixteenth of what there is, up to 256MB, if not given
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub cache: Option<u64>,

    /// Memory for rows that are newer than what is stored; an eighth of what there is if not given
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub delta_memory: Option<u64>,

    /// Resemble another device: modeled:cloud-volume, modeled:disk-array, modeled:hdd, modeled:object-store,
    /// or settings as in modeled:latency=2ms,iops=20000
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,

    /// Threads that visit pages; one per core if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub reactors: Option<u16>,

    /// What chooses the chunks that have copies on fast devices: none, static, lru, heat or plan
    #[arg(long, value_name = "POLICY", default_value = "heat")]
    pub tier_policy: PolicyKind,
}

impl OpenArgs {
    pub fn options(&self, read_only: bool) -> OpenOptions {
        let defaults = OpenOptions::default();
        let cache_bytes = self.cache.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        OpenOptions {
            cache_bytes: cache_bytes.unwrap_or(defaults.cache_bytes),
            delta_limit_bytes: self.delta_memory.unwrap_or(defaults.delta_limit_bytes),
            model: self.model.clone(),
            reactors: self.reactors.map(usize::from),
            read_only,
            tier_policy: self.tier_policy,
            ..defaults
        }
    }
}

/// Opens the database at `path`.
pub fn open(path: &Path, options: OpenOptions) -> Outcome<Arc<Database>> {
    if !path.exists() {
        let path = path.display();
        return Err(Failure::new(format!(
            "{path}: no such file; `saki create {path}` makes an empty database, \
             `saki load tpch --db {path}` one with data"
        )));
    }
    Database::open(path, options).map_err(|error| Failure::at(path, &error))
}

/// Makes an empty database at `path`, which must not hold anything.
pub fn create(path: &Path, page_size: PageSize, options: OpenOptions) -> Outcome<Arc<Database>> {
    create_as(path, CreateOptions { page_size, open: options, ..CreateOptions::default() })
}

/// The same, with all that may be said of it.
pub fn create_as(path: &Path, options: CreateOptions) -> Outcome<Arc<Database>> {
    let occupied = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
    if occupied && !saki_backup::is_clone(path) && !looks_like_database(path) {
        return Err(Failure::new(format!(
            "{}: is there already and is not a database; choose another name",
            path.display()
        )));
    }
    let existed = path.exists();
    Database::create(path, options).map_err(|error| {
        // Leave no empty file behind that would be in the way of the next try.
        if !existed && std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
            let _ = std::fs::remove_file(path);
        }
        Failure::at(path, &error)
    })
}

/// The engine refuses to create over a database and says so better than a check here could.
fn looks_like_database(path: &Path) -> bool {
    Database::open(
        path,
        OpenOptions { read_only: true, base_only: true, cache_bytes: 1 << 20, ..OpenOptions::default() },
    )
    .is_ok()
}

/// `PATH[:SIZE][:CLASS]` from the command line. What comes after a colon and is neither belongs to the path.
pub fn parse_device(text: &str) -> Result<DeviceSpec, String> {
    let mut spec = DeviceSpec { path: text.into(), bytes: None, class: DeviceClass::Standard };
    let mut rest = text;
    if let Some((path, class)) = rest.rsplit_once(':')
        && let Ok(class) = class.parse()
    {
        (spec.class, rest) = (class, path);
    }
    if let Some((path, bytes)) = rest.rsplit_once(':')
        && let Ok(bytes) = size::parse(bytes)
    {
        (spec.bytes, rest) = (Some(bytes), path);
    }
    match rest {
        "" => Err(format!("{text:?} names no file or block device")),
        path => Ok(DeviceSpec { path: path.into(), ..spec }),
    }
}

/// A page size from the command line.
pub fn parse_page_size(text: &str) -> Result<PageSize, String> {
    let bytes = size::parse(text)?;
    let bytes = u32::try_from(bytes).map_err(|_| format!("{text} is too large for a page"))?;
    PageSize::new(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_written_with_size_and_class_or_without() {
        let parsed = |text| {
            let DeviceSpec { path, bytes, class } = parse_device(text).expect("a device");
            (path.display().to_string(), bytes, class.to_string())
        };
        let spec = |path: &str, bytes, class: &str| (path.to_owned(), bytes, class.to_owned());
        assert_eq!(parsed("/dev/sdb"), spec("/dev/sdb", None, "standard"));
        assert_eq!(parsed("/dev/sdb:fast"), spec("/dev/sdb", None, "fast"));
        assert_eq!(parsed("/a:b:10GB"), spec("/a:b", Some(10 << 30), "standard"));
        assert_eq!(parsed("a:64MB:slow"), spec("a", Some(64 << 20), "slow"));
        assert!(parse_device(":10GB:fast").is_err());
    }
}
