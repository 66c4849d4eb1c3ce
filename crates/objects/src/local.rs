//! What files need that objects have by themselves: to be durable, and nobody else's.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Makes a directory for objects, with those above it; what is in it is its owner's alone.
pub fn make(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Makes a file durable that has just got its name, and keeps others from reading it.
pub fn settle(directory: &Path, name: &str) -> io::Result<()> {
    let path = directory.join(name);
    let file = File::open(&path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.sync_all()?;
    // Its name, and those of the folders that may have come with it.
    for folder in path.ancestors().skip(1) {
        File::open(folder)?.sync_all()?;
        if folder == directory {
            break;
        }
    }
    Ok(())
}
