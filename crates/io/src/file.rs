//! The file or block device under the `uring` and `threads` backends:
//! opening, locking, length, growth.
//!
//! - Opened with O_DIRECT, so that the page cache of the engine is the only
//!   one; a file system that refuses it is used buffered, with a warning.
//! - Locked while open: exclusively for writing, shared for reading. A second
//!   writer would overwrite pages that the first believes published. The lock
//!   is advisory (`flock`) and dies with the process.
//! - Never grown by a write: a write that extends a file makes the file system
//!   journal its new length each time (about 2 k writes a second instead of
//!   100 k). `ensure_length` reserves extents ahead.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::device::{DeviceError, Limits, Operation};
use crate::system;

/// Which way to the kernel a device takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// io_uring, or threads where the host forbids it.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// A pool of so many threads that read and write blockingly.
    Threads(usize),
}

/// How to open a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceOptions {
    pub backend: Backend,
    /// Open for reading, under a shared lock.
    pub read_only: bool,
    /// Bypass the system's page cache where the file system can.
    pub direct: bool,
    /// Create the file, empty, if it does not exist.
    pub create: bool,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self { backend: Backend::Auto, read_only: false, direct: true, create: false }
    }
}

/// An open, locked file or block device.
pub(crate) struct DeviceFile {
    file: File,
    /// Backend and path.
    name: String,
    /// Usable length, in whole blocks. Only grows. Relaxed everywhere: it is a
    /// bound checked before the system checks again, and publishes nothing.
    length_bytes: AtomicU64,
    /// Held while growing, so that taking a failed growth back cannot cut off another's.
    growing: Mutex<()>,
    block_bytes: usize,
    read_only: bool,
    is_block_device: bool,
}

impl Drop for DeviceFile {
    /// Unlocks at once: a ring keeps its registered file open until the kernel has torn it down, which happens later.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::debug!("{}: cannot be unlocked: {error}", self.name);
        }
    }
}

impl DeviceFile {
    pub fn open(path: &Path, backend: &str, options: &DeviceOptions) -> Result<Self, DeviceError> {
        let name = format!("{backend}:{}", path.display());
        let failed = |error: &io::Error| DeviceError::from_system(&name, "open", 0, error);
        let created = options.create && !options.read_only && !path.exists();
        let (mut file, direct) = open_for(path, options).map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES) if !options.read_only => DeviceError::ReadOnly { device: name.clone() },
            _ => failed(&error),
        })?;
        let locked = if options.read_only { file.try_lock_shared() } else { file.try_lock() };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DeviceError::InUse { device: name }),
            // File systems without locks (some network ones) are used without one.
            Err(TryLockError::Error(error)) => tracing::warn!("{name}: cannot be locked: {error}"),
        }
        if created {
            sync_directory_of(path).map_err(|error| failed(&error))?;
        }
        let kind = file.metadata().map_err(|error| failed(&error))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(failed(&io::Error::other("is neither a file nor a block device")));
        }
        // The metadata of a block device says 0; its end is found by seeking.
        let length = file.seek(SeekFrom::End(0)).map_err(|error| failed(&error))?;
        let block_bytes = if direct { system::direct_alignment(&file).unwrap_or(512).max(512) } else { 512 };
        let whole_blocks = length - length % block_bytes as u64;
        Ok(Self {
            file,
            name,
            length_bytes: AtomicU64::new(whole_blocks),
            growing: Mutex::new(()),
            block_bytes,
            read_only: options.read_only,
            is_block_device: kind.is_block_device(),
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    pub fn read_only(&self) -> bool {
        self.read_only
    }

    pub fn length_bytes(&self) -> u64 {
        self.length_bytes.load(Ordering::Relaxed)
    }

    /// See [`Device::ensure_length`].
    pub fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        let bytes = bytes.next_multiple_of(self.block_bytes as u64);
        if bytes <= self.length_bytes() {
            return Ok(());
        }
        if self.read_only {
            return Err(DeviceError::ReadOnly { device: self.name.clone() });
        }
        if self.is_block_device {
            return Err(DeviceError::Full { device: self.name.clone() });
        }
        let _growing = self.growing.lock();
        self.grow(bytes).map_err(|error| DeviceError::from_system(&self.name, "grow", bytes, &error))?;
        self.length_bytes.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        if bytes <= before {
            return Ok(());
        }
        match system::preallocate(&self.file, before, bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                tracing::debug!("{}: file system cannot preallocate; the file is sparse", self.name);
                self.file.set_len(bytes)
            }
            Err(error) => {
                // What was reserved before space ran out would leave the file system full for everyone.
                let _ = self.file.set_len(before);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// The checks every operation passes before the system sees it.
    pub fn check(&self, operation: &Operation) -> Result<(), DeviceError> {
        Limits {
            device: &self.name,
            length_bytes: self.length_bytes(),
            block_bytes: self.block_bytes,
            read_only: self.read_only,
        }
        .check(operation)
    }
}

/// Opens `path`, directly if asked and possible; tells whether it is direct.
fn open_for(path: &Path, options: &DeviceOptions) -> io::Result<(File, bool)> {
    let mut open = OpenOptions::new();
    // What is in a database is for whoever runs it: new files are read and written by their owner alone.
    open.read(true).write(!options.read_only).create(options.create && !options.read_only).mode(0o600);
    if options.direct {
        match open.clone().custom_flags(libc::O_DIRECT).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                tracing::warn!(
                    "{}: the file system refuses direct I/O; pages are also cached by the system",
                    path.display()
                );
            }
            answer => return Ok((answer?, true)),
        }
    }
    Ok((open.open(path)?, false))
}

/// Makes a new file's directory entry survive a power loss.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent: PathBuf = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
        _ => ".".into(),
    };
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::contract::{ScratchFile, drain, filled};
    use crate::{Device, open_device};

    fn open(path: &Path, read_only: bool) -> Result<Arc<dyn Device>, DeviceError> {
        let options = DeviceOptions { backend: Backend::Threads(1), read_only, ..DeviceOptions::default() };
        open_device(path, options)
    }

    #[test]
    fn a_second_opener_is_refused_while_one_writes() {
        let scratch = ScratchFile::new(1 << 16);
        let writer = open(scratch.path(), false).unwrap();
        assert!(matches!(open(scratch.path(), false), Err(DeviceError::InUse { .. })));
        assert!(matches!(open(scratch.path(), true), Err(DeviceError::InUse { .. })));
        drop(writer);
        let _reader = open(scratch.path(), true).unwrap();
        let _another = open(scratch.path(), true).unwrap();
        assert!(matches!(open(scratch.path(), false), Err(DeviceError::InUse { .. })));
    }

    #[test]
    fn length_grows_and_never_shrinks() {
        let scratch = ScratchFile::new(8192);
        let device = open(scratch.path(), false).unwrap();
        device.ensure_length(1 << 20).unwrap();
        device.ensure_length(4096).unwrap();
        assert_eq!(device.length_bytes().unwrap(), 1 << 20);
        drop(device);
        let reader = open(scratch.path(), true).unwrap();
        assert!(matches!(reader.ensure_length(2 << 20), Err(DeviceError::ReadOnly { .. })));
    }

    #[test]
    fn absent_files_and_directories_are_errors() {
        let scratch = ScratchFile::new(4096);
        let absent = scratch.path().with_extension("absent");
        let error = open(&absent, false).err().unwrap();
        assert!(matches!(error, DeviceError::Failed { action: "open", errno: Some(libc::ENOENT), .. }), "{error}");
        assert!(open(&std::env::temp_dir(), true).is_err());
        let options =
            DeviceOptions { backend: Backend::Threads(1), create: true, direct: false, ..DeviceOptions::default() };
        let created = open_device(&absent, options).unwrap();
        assert_eq!(created.length_bytes().unwrap(), 0);
        std::fs::remove_file(&absent).unwrap();
    }

    #[test]
    fn a_file_cut_short_by_others_is_out_of_range() {
        for backend in [Backend::Threads(2), Backend::Auto] {
            let scratch = ScratchFile::new(1 << 16);
            let device = open_device(scratch.path(), DeviceOptions { backend, ..DeviceOptions::default() }).unwrap();
            OpenOptions::new().write(true).open(scratch.path()).unwrap().set_len(16_384 + 700).unwrap();
            let mut lane = device.open_lane(None).unwrap();
            for token in 0..4 {
                lane.submit(Operation::read(token, token * 8192, filled(8192, 0)));
            }
            for completion in drain(&mut *lane) {
                let result = completion.result;
                assert_eq!(result.is_ok(), completion.token < 2, "{}: {result:?}", device.name());
                assert!(result.is_ok() || matches!(result, Err(DeviceError::OutOfRange { .. })), "{result:?}");
            }
        }
    }

    #[test]
    fn impossible_growth_is_an_error_not_a_panic() {
        let scratch = ScratchFile::new(4096);
        let device = open(scratch.path(), false).unwrap();
        assert!(device.ensure_length(1 << 62).is_err());
        assert_eq!(device.length_bytes().unwrap(), 4096);
    }
}
