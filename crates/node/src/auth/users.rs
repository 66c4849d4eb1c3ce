//! Who may connect: a file beside the database, with what verifies each user's password.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::auth::scram::Verifier;
use crate::failure::{Failure, Result};

/// The users of a database. The file is read anew by every connection, so that changes hold at once.
#[derive(Clone, Debug)]
pub struct Users {
    path: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
struct Document {
    /// Verifiers by name.
    users: BTreeMap<String, String>,
}

impl Users {
    /// Those of the database at `database`: the file `<database>.users`.
    pub fn of(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push(".users");
        Self { path: name.into() }
    }

    /// Adds a user, or gives one another password.
    ///
    /// # Errors
    /// If the name or the password is empty, or the file cannot be read or written.
    pub fn set(&self, name: &str, password: &str) -> Result<()> {
        if name.is_empty() || password.is_empty() {
            return Err(Failure::new("22023", "neither the name nor the password of a user may be empty"));
        }
        let verifier = Verifier::new(password)?;
        let mut document = self.read()?;
        document.users.insert(name.to_owned(), verifier.to_string());
        self.write(&document)
    }

    /// Removes a user; whether there was one.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn remove(&self, name: &str) -> Result<bool> {
        let mut document = self.read()?;
        let was = document.users.remove(name).is_some();
        if was {
            self.write(&document)?;
        }
        Ok(was)
    }

    /// All names, sorted.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.read()?.users.into_keys().collect())
    }

    /// What verifies a user's password; `None` if there is no such user.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub(crate) fn verifier(&self, name: &str) -> Result<Option<Verifier>> {
        self.read()?.users.get(name).map(|verifier| verifier.parse()).transpose()
    }

    fn read(&self) -> Result<Document> {
        match fs::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| self.failed(&error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Document::default()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Replaces the file as a whole: a crash leaves the one before or the one after.
    fn write(&self, document: &Document) -> Result<()> {
        let text = serde_json::to_vec_pretty(document).map_err(|error| self.failed(&error))?;
        let mut next = self.path.as_os_str().to_owned();
        next.push(".next");
        let next = PathBuf::from(next);
        let replace = || -> io::Result<()> {
            let _ = fs::remove_file(&next);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&next, &self.path)?;
            let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        };
        replace().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::fatal("58030", format!("{}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn users_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let users = Users::of(&directory.path().join("db"));
        assert!(users.names().unwrap().is_empty());
        users.set("ada", "secret").unwrap();
        users.set("grace", "other").unwrap();
        assert_eq!(users.names().unwrap(), ["ada", "grace"]);
        let text = fs::read_to_string(directory.path().join("db.users")).unwrap();
        assert!(!text.contains("secret"));
        let mode = fs::metadata(directory.path().join("db.users")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(users.verifier("ada").unwrap().is_some() && users.verifier("eve").unwrap().is_none());
        assert!(users.remove("ada").unwrap() && !users.remove("ada").unwrap());
    }
}
