//! Opens a device by the way to the kernel that its options name.

use std::path::Path;
use std::sync::Arc;

use crate::device::{Device, DeviceError};
use crate::file::{Backend, DeviceFile, DeviceOptions};
use crate::threads::{THREADS_DEFAULT, ThreadsDevice};
use crate::uring::{self, UringDevice};

/// Opens a file or block device.
///
/// # Errors
/// `InUse` when it is locked by another opener, `ReadOnly` when it refuses to be opened for writing, `Failed`
/// otherwise (absent, no permission, io_uring demanded but forbidden).
pub fn open_device(path: impl AsRef<Path>, options: DeviceOptions) -> Result<Arc<dyn Device>, DeviceError> {
    let path = path.as_ref();
    match options.backend {
        Backend::Threads(threads) => {
            let file = DeviceFile::open(path, "threads", &options)?;
            Ok(Arc::new(ThreadsDevice::new(file, threads)))
        }
        Backend::Uring | Backend::Auto => match uring::probe() {
            Ok(()) => Ok(Arc::new(UringDevice::new(DeviceFile::open(path, "uring", &options)?))),
            Err(error) if options.backend == Backend::Uring => {
                Err(DeviceError::from_system(&format!("uring:{}", path.display()), "set up io_uring", 0, &error))
            }
            Err(error) => {
                tracing::warn!(
                    "this host refuses io_uring ({error}); reading {} with {THREADS_DEFAULT} threads instead",
                    path.display()
                );
                let file = DeviceFile::open(path, "threads", &options)?;
                Ok(Arc::new(ThreadsDevice::new(file, THREADS_DEFAULT)))
            }
        },
    }
}
