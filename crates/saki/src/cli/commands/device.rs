//! `saki device`

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use saki::{Database, DeviceSpec, DeviceStatus};

use crate::cli::failure::{Failure, Outcome};
use crate::cli::open::{OpenArgs, open, parse_device};
use crate::cli::output::{Align, Grid};
use crate::cli::size;

/// Add devices to a database, or take them away
///
/// While a server has the database open, the same is done there: CALL saki.add_device(...), saki.drain_device(...),
/// saki.remove_device(...), and SELECT * FROM saki.devices.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Make a file or block device part of the database
    Add {
        #[command(flatten)]
        db: Db,

        /// SIZE is reserved, and all that is used of it. CLASS is standard (if not given), slow, or fast: a fast device
        /// holds copies of what lies on others
        #[arg(value_name = "PATH[:SIZE][:CLASS]", value_parser = parse_device)]
        device: DeviceSpec,
    },
    /// Move what lies on a device to the others; it takes nothing more
    Drain {
        #[command(flatten)]
        db: Db,

        /// Path or number of the device
        #[arg(value_name = "DEVICE")]
        device: String,
    },
    /// Take a device out of the database that has been drained, or that holds copies only
    Remove {
        #[command(flatten)]
        db: Db,

        /// Path or number of the device
        #[arg(value_name = "DEVICE")]
        device: String,
    },
    /// Print the devices
    List {
        #[command(flatten)]
        db: Db,
    },
}

#[derive(clap::Args, Debug)]
struct Db {
    /// The database
    #[arg(long, value_name = "DB")]
    db: PathBuf,

    #[command(flatten)]
    open: OpenArgs,
}

impl Db {
    fn open(&self) -> Outcome<Arc<Database>> {
        open(&self.db, self.open.options(false))
    }

    fn failure(&self, error: impl std::fmt::Display) -> Failure {
        Failure::at(&self.db, &error)
    }
}

pub fn run(args: &Args) -> Outcome {
    match &args.what {
        What::Add { db, device } => {
            let number = db.open()?.add_device(device).map_err(|error| db.failure(error))?;
            say!("{} is device {} of {}", device.path.display(), number.0, db.db.display());
        }
        What::Drain { db, device } => {
            let moved = db.open()?.drain_device(device).map_err(|error| db.failure(error))?;
            say!("{device}: {} moved to other devices", size::display(moved));
        }
        What::Remove { db, device } => {
            db.open()?.remove_device(device).map_err(|error| db.failure(error))?;
            say!("{device} is no longer part of {}", db.db.display());
        }
        What::List { db } => {
            let options = saki::OpenOptions { base_only: true, ..db.open.options(true) };
            print(&open(&db.db, options)?.devices())?;
        }
    }
    Ok(())
}

fn print(devices: &[DeviceStatus]) -> Outcome {
    let columns = [
        ("number", Align::Right),
        ("device", Align::Left),
        ("class", Align::Left),
        ("role", Align::Left),
        ("size", Align::Right),
        ("homes", Align::Right),
        ("copies", Align::Right),
        ("free", Align::Right),
    ];
    let mut grid = Grid::new(columns);
    for device in devices {
        let role = match &device.missing {
            Some(_) => format!("{}, missing", device.entry.role),
            None => device.entry.role.to_string(),
        };
        let slots = |slots: u64| size::display(slots << 20);
        let DeviceStatus { entry, slots: all, .. } = device;
        grid.row([
            entry.number.0.to_string(),
            entry.label.clone(),
            entry.class.to_string(),
            role,
            slots(all.total),
            slots(all.homes),
            slots(all.copies),
            slots(all.free),
        ]);
    }
    grid.write(&mut io::stdout()).map_err(|error| Failure::new(format!("cannot write: {error}")))
}
