//! The files of the logs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_io::{Device, DeviceError, DeviceOptions};
use saki_log::{LogError, LogRecord, Logs, Range, RecoveryReport};

use crate::error::Error;

/// Opens the files of the logs in a directory, `log-0` and so on, and makes those that are missing.
///
/// # Errors
/// `Open`, naming the file.
pub fn open_log_devices(directory: &Path, logs: usize) -> Result<Vec<Arc<dyn Device>>, Error> {
    open_files(directory, logs, &DeviceOptions { create: true, ..Default::default() })
}

/// Opens the files of the logs in a directory for reading only.
///
/// # Errors
/// `Open`, naming the file.
pub fn open_log_devices_to_read(directory: &Path, logs: usize) -> Result<Vec<Arc<dyn Device>>, Error> {
    open_files(directory, logs, &DeviceOptions { read_only: true, ..Default::default() })
}

/// Reads logs as a recovery would, and changes nothing. `range` says what belongs to the base.
///
/// # Errors
/// `Log` with what a recovery would say.
pub fn check_logs(devices: Vec<Arc<dyn Device>>, database: u64, range: Range) -> Result<RecoveryReport, Error> {
    Ok(Logs::inspect(devices, &saki_log::Options::new(database), range, &|_| {})?)
}

/// Puts bytes of an extent that was copied into a slot of a log, from `offset` on.
///
/// # Errors
/// `Log`: of the device.
pub fn write_log_extent(
    device: &Arc<dyn Device>,
    log: usize,
    slot: u64,
    extent: (u64, u64),
    bytes: &[u8],
) -> Result<(), Error> {
    let (extent_bytes, offset) = extent;
    let written = saki_log::write_extent(device, slot, extent_bytes, offset, bytes);
    Ok(written.map_err(|error| LogError::Device { log, error })?)
}

/// Makes logs that were copied end where `range` says: what is later in them is void for ever, and all of the range is
/// there.
///
/// # Errors
/// `Log` with what is missing or damaged.
pub fn end_logs_at(devices: Vec<Arc<dyn Device>>, database: u64, range: Range) -> Result<RecoveryReport, Error> {
    let options = saki_log::Options::new(database);
    let (logs, report) =
        Logs::recover(devices, options, range, &|_| {}, &|_: usize, _: u64, _: &[u8]| Ok::<_, LogError>(()))?;
    logs.close()?;
    Ok(report)
}

/// Logs that are written anew, of records that were followed elsewhere.
pub struct NewLogs {
    logs: Logs,
    next: u64,
}

impl NewLogs {
    /// Begins logs on empty devices, behind `after`.
    ///
    /// # Errors
    /// `Log`: of a device, or if it is not empty.
    pub fn begin(devices: Vec<Arc<dyn Device>>, database: u64, after: u64) -> Result<Self, Error> {
        let options = saki_log::Options::new(database);
        let range = Range { after: Some(after), ..Range::default() };
        let nothing = |_: usize, timestamp: u64, _: &[u8]| {
            let message = format!("new logs have a record of timestamp {timestamp} already");
            Err::<(), _>(LogError::Options { message })
        };
        let (logs, report) = Logs::recover(devices, options, range, &|_| {}, &nothing)?;
        Ok(Self { logs, next: report.clock + 1 })
    }

    /// Adds the record of the next timestamp.
    ///
    /// # Errors
    /// `Log` if it is not the next, or too large; of the device.
    pub fn append(&mut self, record: &LogRecord) -> Result<(), Error> {
        let LogRecord { timestamp, payload } = record;
        if *timestamp != self.next {
            let message = format!("a record of timestamp {timestamp} where {} is next", self.next);
            return Err(LogError::Options { message }.into());
        }
        let reservation = self.logs.reserve(0, payload.as_ref().map_or(0, Vec::len))?;
        match payload {
            Some(payload) => reservation.commit(*timestamp, payload),
            None => reservation.void(*timestamp),
        }
        self.next += 1;
        Ok(())
    }

    /// Makes all of it durable. The last timestamp.
    ///
    /// # Errors
    /// `Log`: of a device.
    pub fn finish(self) -> Result<u64, Error> {
        self.logs.close()?;
        Ok(self.next - 1)
    }
}

fn open_files(directory: &Path, logs: usize, options: &DeviceOptions) -> Result<Vec<Arc<dyn Device>>, Error> {
    let device = |log: usize| {
        let path = directory.join(format!("log-{log}"));
        open_released(&path, options).map_err(|error| Error::Open { message: error.to_string() })
    };
    (0..logs).map(device).collect()
}

/// Opens a device. The system may take a moment to end what a killed process has left in flight, and its lock on the
/// file until then.
fn open_released(path: &Path, options: &DeviceOptions) -> Result<Arc<dyn Device>, DeviceError> {
    let started = Instant::now();
    loop {
        match saki_io::open_device(path, options.clone()) {
            Err(DeviceError::InUse { .. }) if started.elapsed() < RELEASE_PATIENCE => std::thread::sleep(RELEASE_PAUSE),
            opened => return opened,
        }
    }
}

/// How long a log may be in use before it is taken to be in use by a process that lives.
const RELEASE_PATIENCE: Duration = Duration::from_secs(2);
const RELEASE_PAUSE: Duration = Duration::from_millis(5);
