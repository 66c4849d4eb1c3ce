//! What lies beside a clone and says what it lacks: whatever is made at its path lacks nothing.

use std::io;
use std::path::Path;

use saki_catalog::{Result, SqlError};
use saki_thin::path_of;

/// Whether what lies at this path is a clone that lacks something.
pub fn is_clone(path: &Path) -> bool {
    path.exists() && path_of(path).exists()
}

/// Sees to it that what is made at this path lacks nothing, whatever was there before.
///
/// # Errors
/// 58P02 if it may be the file of a clone, which is there; of the file system.
pub fn expect_none(path: &Path) -> Result<()> {
    if is_clone(path) {
        let (path, source) = (path.display(), path_of(path));
        return Err(SqlError::invalid(format!("{path}: is a clone, as {} is there", source.display()))
            .code("58P02")
            .hint("choose another path, or remove both"));
    }
    if path.exists() { Ok(()) } else { forget(path) }
}

/// Takes away what a database at this path lacked that is not there any more.
pub fn forget(database: &Path) -> Result<()> {
    let path = path_of(database);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SqlError::of_file(path.display(), error)),
        _ => Ok(()),
    }
}
