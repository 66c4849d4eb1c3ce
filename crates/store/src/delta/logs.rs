//! Where the logs of a database lie: a directory of files beside it, or whatever devices its opener has.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use saki_catalog::{Result, SqlError};
use saki_io::Device;

/// Keeps the devices of a database's logs.
pub trait LogStore: Send + Sync + fmt::Debug {
    /// Where they are, for messages and views.
    fn name(&self) -> String;

    /// Where files of theirs are, if they are files.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Whether there are logs.
    fn exists(&self) -> bool;

    /// Makes room for new logs. Logs of a time before the base became all there is are gone.
    ///
    /// # Errors
    /// Of storage.
    fn clear(&self) -> Result<()>;

    /// Opens so many logs, in their order; those that are missing are made.
    ///
    /// # Errors
    /// Of storage.
    fn open(&self, logs: usize) -> Result<Vec<Arc<dyn Device>>>;

    /// Opens them for looking only.
    ///
    /// # Errors
    /// Of storage; if one is missing.
    fn open_to_read(&self, logs: usize) -> Result<Vec<Arc<dyn Device>>>;

    /// Takes the logs away: the base is all there is.
    ///
    /// # Errors
    /// Of storage.
    fn remove(&self) -> Result<()>;
}

/// Files of a directory.
#[derive(Clone, Debug)]
pub struct LogDirectory(PathBuf);

impl LogDirectory {
    pub fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// Where the logs of the database at `path` lie unless told otherwise: in `<path>.log`.
    pub fn beside(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(".log");
        Self(PathBuf::from(name))
    }

    fn failed(&self, error: &std::io::Error) -> SqlError {
        SqlError::storage(format!("{}: {error}", self.0.display()))
    }
}

impl LogStore for LogDirectory {
    fn name(&self) -> String {
        self.0.display().to_string()
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.0)
    }

    fn exists(&self) -> bool {
        self.0.is_dir()
    }

    fn clear(&self) -> Result<()> {
        if self.0.exists() {
            self.remove()?;
        }
        std::fs::create_dir_all(&self.0).map_err(|error| self.failed(&error))
    }

    fn open(&self, logs: usize) -> Result<Vec<Arc<dyn Device>>> {
        Ok(saki_mvcc::open_log_devices(&self.0, logs)?)
    }

    fn open_to_read(&self, logs: usize) -> Result<Vec<Arc<dyn Device>>> {
        Ok(saki_mvcc::open_log_devices_to_read(&self.0, logs)?)
    }

    fn remove(&self) -> Result<()> {
        std::fs::remove_dir_all(&self.0).map_err(|error| self.failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Extents of logs before would be taken for those of the new ones.
    #[test]
    fn room_for_new_logs_has_nothing_of_those_before() {
        let directory = tempfile::tempdir().expect("a directory");
        let logs = LogDirectory::new(directory.path().join("logs"));
        assert!(!logs.exists());
        for _ in 0..2 {
            logs.clear().expect("cleared");
            assert!(logs.exists());
            assert_eq!(std::fs::read_dir(&logs.0).expect("there").count(), 0);
            std::fs::write(logs.0.join("0.log"), b"old").expect("written");
        }
    }
}
