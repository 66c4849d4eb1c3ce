//! `saki create`

use std::path::{Path, PathBuf};

use saki::{CreateOptions, DeviceSpec, OpenOptions, PageSize, VolumeNumber};
use saki_io::DeviceOptions;

use crate::cli::failure::{Failure, Outcome};
use crate::cli::open::{create_as, parse_device, parse_page_size};
use crate::cli::size;

/// Make an empty database in a file or on a block device
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where: a file that does not exist yet, or a block device
    #[arg(value_name = "DB")]
    path: PathBuf,

    /// Bytes of a page, a power of two from 4k to 128k; fixed for the life of the database
    #[arg(long, value_name = "SIZE", value_parser = parse_page_size)]
    page_size: Option<PageSize>,

    /// With what the addresses of all pages begin, 0 to 65535; fixed for the life of the database. Databases whose
    /// pages are to be read by one another need different ones
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    volume_number: u16,

    /// Reserve so much of the disk now; without it the file grows as needed
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,

    /// One more file or block device for the database, as often as there are any. SIZE is reserved, and all that is
    /// used of it. CLASS is standard (if not given), slow, or fast: a fast device holds copies of what lies on others
    #[arg(long = "device", value_name = "PATH[:SIZE][:CLASS]", value_parser = parse_device)]
    devices: Vec<DeviceSpec>,
}

pub fn run(args: &Args) -> Outcome {
    let page_size = args.page_size.unwrap_or(CreateOptions::default().page_size);
    let options = CreateOptions {
        page_size,
        volume_number: VolumeNumber(args.volume_number),
        devices: args.devices.clone(),
        open: OpenOptions { cache_bytes: 1 << 20, ..OpenOptions::default() },
    };
    let existed = args.path.exists();
    drop(create_as(&args.path, options)?);
    if let Some(bytes) = args.size
        && let Err(failure) = reserve(&args.path, bytes)
    {
        if !existed {
            let _ = std::fs::remove_file(&args.path);
        }
        return Err(failure);
    }
    say!("created {} with pages of {}", args.path.display(), size::display(page_size.bytes() as u64));
    Ok(())
}

/// Takes room on the disk ahead of need.
fn reserve(path: &Path, bytes: u64) -> Outcome {
    let device = saki_io::open_device(path, DeviceOptions::default()).map_err(|error| Failure::at(path, &error))?;
    device
        .ensure_length(bytes)
        .map_err(|error| Failure::at(path, &format!("cannot reserve {}: {error}", size::display(bytes))))
}
