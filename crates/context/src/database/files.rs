//! Files of the machine that statements name (COPY, CREATE EXTERNAL TABLE), and which of them a session may reach.
//!
//! A session in the process of its user may reach whatever that user may. A session of a server stands for somebody
//! else: it reaches what lies below one directory, or nothing. Nobody reaches the files of the database itself, or
//! others that are named as closed, under whatever name: what is compared is where a path leads, links and `..`
//! followed, and which file is there.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use saki_catalog::{Result, SqlError};

/// What a session may reach.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum FileAccess {
    /// What the process may.
    #[default]
    Anywhere,
    /// What lies below a directory; paths that are not absolute begin there.
    Below(PathBuf),
    Refused,
}

/// The files that a session may reach.
#[derive(Clone, Debug)]
pub struct Files {
    access: FileAccess,
    /// Files, and directories with all that is in them, that are never reached.
    closed: Vec<PathBuf>,
}

/// What a statement is about to do to a file, in the words of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Read,
    Write,
}

impl Files {
    pub fn new(access: FileAccess, closed: Vec<PathBuf>) -> Self {
        Self { access, closed }
    }

    /// The path of a file to read, as it is to be opened.
    ///
    /// # Errors
    /// 42501 for what may not be reached, 58P01 for what is not there.
    pub fn to_read(&self, path: &str) -> Result<String> {
        let Some(asked) = self.asked(path)? else {
            // Patterns and places that are no files are the reader's to understand.
            if let Ok(real) = fs::canonicalize(path) {
                self.refuse_closed(path, &real)?;
            }
            return Ok(path.to_owned());
        };
        let real = fs::canonicalize(&asked).map_err(|error| failed(path, error))?;
        self.refuse_outside(path, &real, Purpose::Read)?;
        self.refuse_closed(path, &real)?;
        if !fs::metadata(&real).is_ok_and(|found| found.is_file()) {
            return Err(SqlError::invalid(format!("{path:?} is not a file")).code("42809"));
        }
        let text = text_of(&real)?;
        match text.contains(['*', '?', '[', ']']) {
            true => Err(SqlError::invalid(format!("{path:?} would be taken for a pattern")).code("42602")),
            false => Ok(text),
        }
    }

    /// The path of a file to write, which need not be there.
    ///
    /// # Errors
    /// 42501 for what may not be reached, 58P01 if there is no such directory.
    pub fn to_write(&self, path: &str) -> Result<String> {
        let asked = self.asked(path)?;
        let whole = asked.as_deref().unwrap_or(Path::new(path));
        let Some(name) = whole.file_name() else {
            return Err(SqlError::invalid(format!("{path:?} is not a file's name")).code("42809"));
        };
        let directory = whole.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let real = match fs::canonicalize(directory) {
            Ok(directory) => directory.join(name),
            // Whoever opens it says so.
            Err(_) if asked.is_none() => return Ok(path.to_owned()),
            Err(error) => return Err(failed(path, error)),
        };
        if asked.is_some() {
            self.refuse_outside(path, &real, Purpose::Write)?;
        }
        // What is there already, and where a link there leads.
        self.refuse_closed(path, &real)?;
        if let Ok(target) = fs::canonicalize(&real) {
            self.refuse_closed(path, &target)?;
        }
        if asked.is_none() { Ok(path.to_owned()) } else { text_of(&real) }
    }

    /// The path that a confined session means; `None` where any path is allowed.
    fn asked(&self, path: &str) -> Result<Option<PathBuf>> {
        match &self.access {
            FileAccess::Anywhere => Ok(None),
            FileAccess::Below(directory) => Ok(Some(directory.join(path))),
            FileAccess::Refused => Err(SqlError::invalid("this server reads and writes no files of its machine")
                .code("42501")
                .hint("COPY … FROM STDIN and TO STDOUT, or psql's \\copy; `saki serve --file-dir` opens a directory")),
        }
    }

    fn refuse_outside(&self, path: &str, real: &Path, purpose: Purpose) -> Result<()> {
        let FileAccess::Below(directory) = &self.access else { return Ok(()) };
        let root = fs::canonicalize(directory).map_err(|error| SqlError::of_file(directory.display(), error))?;
        let verb = if purpose == Purpose::Read { "read" } else { "written" };
        match real.starts_with(&root) {
            true => Ok(()),
            false => Err(SqlError::invalid(format!("{path:?} may not be {verb}"))
                .code("42501")
                .detail("It is not below the directory that the server has opened for files.")),
        }
    }

    fn refuse_closed(&self, path: &str, real: &Path) -> Result<()> {
        let found = fs::metadata(real).ok();
        let is_closed = |closed: &PathBuf| {
            let within = fs::canonicalize(closed).is_ok_and(|closed| real.starts_with(closed));
            within || found.as_ref().is_some_and(|found| is_same(found, closed))
        };
        match self.closed.iter().any(is_closed) {
            true => Err(SqlError::invalid(format!("{path:?} belongs to the server"))
                .code("42501")
                .detail("Statements do not read or write the files of the database, its logs, or the server's keys.")),
            false => Ok(()),
        }
    }
}

/// Whether a file is the closed one, or one in the closed directory, under another name.
fn is_same(found: &Metadata, closed: &Path) -> bool {
    let Ok(other) = fs::metadata(closed) else { return false };
    if other.is_dir() {
        let within = fs::read_dir(closed).into_iter().flatten().flatten();
        return within.filter_map(|entry| entry.metadata().ok()).any(|entry| is_one(found, &entry));
    }
    is_one(found, &other)
}

fn is_one(left: &Metadata, right: &Metadata) -> bool {
    let is_device = left.file_type().is_block_device() && right.file_type().is_block_device();
    (left.dev(), left.ino()) == (right.dev(), right.ino()) || (is_device && left.rdev() == right.rdev())
}

fn failed(path: &str, error: std::io::Error) -> SqlError {
    let code = match error.kind() {
        ErrorKind::NotFound => "58P01",
        ErrorKind::PermissionDenied => "42501",
        _ => "58030",
    };
    SqlError::of_file(path, error).code(code)
}

fn text_of(path: &Path) -> Result<String> {
    let text = path.as_os_str().to_str().map(str::to_owned);
    text.ok_or_else(|| SqlError::invalid(format!("{} is not UTF-8", path.display())).code("42602"))
}

/// The path with letters behind it.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OsStr::new(suffix));
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory that is open to sessions, beside a database with its logs.
    fn directory() -> (tempfile::TempDir, Files) {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["open", "db.saki.log"] {
            fs::create_dir(at(name)).unwrap();
        }
        for name in ["db.saki", "db.saki.log/0.log", "secret", "open/t.csv"] {
            fs::write(at(name), name).unwrap();
        }
        let closed = vec![at("db.saki"), at("db.saki.log")];
        let files = Files::new(FileAccess::Below(at("open")), closed);
        (directory, files)
    }

    fn code(result: Result<String>) -> String {
        result.map_or_else(|error| error.sqlstate().to_owned(), |_| "ok".to_owned())
    }

    #[test]
    fn what_lies_below_the_directory_is_reached_under_any_name() {
        let (directory, files) = directory();
        for path in ["t.csv", "./t.csv", "../open/t.csv"] {
            assert_eq!(code(files.to_read(path)), "ok", "{path}");
            assert_eq!(code(files.to_write(path)), "ok", "{path}");
        }
        let absolute = directory.path().join("open/t.csv");
        assert_eq!(code(files.to_read(absolute.to_str().unwrap())), "ok");
        assert_eq!(code(files.to_write("new.csv")), "ok");
        assert_eq!(code(files.to_read("new.csv")), "58P01");
        assert_eq!(code(files.to_read(".")), "42809");
        assert_eq!(code(files.to_write("nowhere/new.csv")), "58P01");
        assert_eq!(code(files.to_write("..")), "42809");
    }

    #[test]
    fn what_lies_elsewhere_is_not_reached_by_links_or_dots() {
        let (directory, files) = directory();
        let open = directory.path().join("open");
        symlink(directory.path().join("secret"), open.join("link")).unwrap();
        symlink(directory.path(), open.join("up")).unwrap();
        let secret = directory.path().join("secret");
        for path in ["../secret", "link", "up/secret", secret.to_str().unwrap(), "/etc/passwd"] {
            assert_eq!(code(files.to_read(path)), "42501", "{path}");
        }
        for path in ["../new", "up/new", "/tmp/new", "../secret"] {
            assert_eq!(code(files.to_write(path)), "42501", "{path}");
        }
    }

    #[test]
    fn files_of_the_database_are_reached_by_nobody() {
        let (directory, confined) = directory();
        let anywhere = Files { access: FileAccess::Anywhere, ..confined.clone() };
        let open = directory.path().join("open");
        fs::hard_link(directory.path().join("db.saki"), open.join("twin")).unwrap();
        fs::hard_link(directory.path().join("db.saki.log/0.log"), open.join("log")).unwrap();
        symlink(directory.path().join("db.saki"), open.join("link")).unwrap();
        for name in ["twin", "log", "link"] {
            assert_eq!(code(confined.to_read(name)), "42501", "{name}");
            assert_eq!(code(confined.to_write(name)), "42501", "{name}");
        }
        for name in ["db.saki", "open/../db.saki", "db.saki.log/0.log", "db.saki.log/new", "open/link", "open/twin"] {
            let path = directory.path().join(name);
            assert_eq!(code(anywhere.to_write(path.to_str().unwrap())), "42501", "{name}");
            if path.exists() {
                assert_eq!(code(anywhere.to_read(path.to_str().unwrap())), "42501", "{name}");
            }
        }
        let other = directory.path().join("secret");
        assert_eq!(anywhere.to_read(other.to_str().unwrap()).unwrap(), other.to_str().unwrap());
        assert_eq!(code(anywhere.to_read("*.csv")), "ok", "a pattern is read as it is");
    }

    #[test]
    fn a_server_without_a_directory_reaches_nothing() {
        let files = Files::new(FileAccess::Refused, Vec::new());
        assert_eq!(code(files.to_read("/etc/passwd")), "42501");
        assert_eq!(code(files.to_write("/tmp/x")), "42501");
    }
}
