//! A target: what lies there under which name, and that backups and prunings keep out of each other's way.
//!
//! ```text
//!   backups/000007-20261126T182207Z     manifests, by their numbers
//!   objects/ab/abcd…                    pieces
//!   archive/…                           see the module `archive`
//!   running/backup, running/prune       there while one goes on, and after one that was interrupted
//! ```

use saki_base::civil;
use saki_catalog::{ErrorKind, Result, SqlError};
use saki_objects::{ObjectError, Objects, Options};
use saki_thin::{Piece, PieceError};

use crate::manifest::Manifest;

const BACKUPS: &str = "backups";
const OBJECTS: &str = saki_thin::FOLDER;
const BACKUP_RUNS: &str = "running/backup";
const PRUNE_RUNS: &str = "running/prune";

/// A target that is open.
pub struct Repository {
    objects: Objects,
}

/// A backup, as `list` tells of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    pub name: String,
    /// What is wrong with its manifest, or what that says.
    pub said: Result<Summary, String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Microseconds since 1970, by the clock of the machine that made it.
    pub made_micros: i64,
    pub database_id: u128,
    pub generation: u64,
    pub chunks: u64,
    /// Bytes of all its objects; most are other backups' as well.
    pub bytes: u64,
    /// Of the logs, in it.
    pub log_bytes: u64,
}

/// The backups at a target, in the order in which they were made.
///
/// # Errors
/// Of the target.
pub fn list(target: &str) -> Result<Vec<Listed>> {
    let repository = Repository::open(target, false)?;
    let listed = |name: String| {
        let said = match repository.read(&name) {
            Ok(manifest) => Ok(summary(&manifest)),
            Err(error) if error.kind == ErrorKind::Corrupt => Err(error.message),
            Err(error) => return Err(error),
        };
        Ok(Listed { name, said })
    };
    repository.names()?.into_iter().map(listed).collect()
}

fn summary(manifest: &Manifest) -> Summary {
    let sum = |pieces: &mut dyn Iterator<Item = &Piece>| pieces.map(|piece| u64::from(piece.bytes)).sum();
    let all: u64 = sum(&mut manifest.pieces());
    Summary {
        made_micros: manifest.made_micros,
        database_id: manifest.image.database_id,
        generation: manifest.image.generation.0,
        chunks: manifest.chunks.len() as u64,
        bytes: all,
        log_bytes: all - sum(&mut manifest.chunks.iter()),
    }
}

impl Repository {
    pub fn open(target: &str, create: bool) -> Result<Self> {
        let opened = Objects::open(target, Options { create, ..Options::default() });
        Ok(Self { objects: opened.map_err(failed)? })
    }

    /// The names of all backups, in the order in which they were made.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.list(BACKUPS)?.into_iter().map(|(name, _)| name).collect())
    }

    /// A backup's manifest.
    ///
    /// # Errors
    /// 58P01 if there is no such backup; 'XX001' if the manifest is damaged; of the target.
    pub fn read(&self, name: &str) -> Result<Manifest> {
        let object = format!("{BACKUPS}/{name}");
        let bytes = self.get_object(&object)?.ok_or_else(|| {
            SqlError::invalid(format!("{}: there is no backup {name:?}", self.objects.target()))
                .code("58P01")
                .hint(format!("saki backup list --from {}", self.objects.target()))
        })?;
        Manifest::decode(&bytes).map_err(|what| {
            SqlError::corrupt(format!("{}: {what}", self.objects.named(&object))).hint("restore another backup")
        })
    }

    /// The backup of that name, or the newest.
    ///
    /// # Errors
    /// As of `read`; if there is none at all.
    pub fn choose(&self, name: Option<&str>) -> Result<(String, Manifest)> {
        let newest = || {
            self.names()?.pop().ok_or_else(|| {
                SqlError::invalid(format!("{}: there is no backup here", self.objects.target())).code("58P01")
            })
        };
        let name = name.map_or_else(newest, |name| Ok(name.to_owned()))?;
        let manifest = self.read(&name)?;
        Ok((name, manifest))
    }

    /// Makes a backup of what is there already: everything that it names is durable. Returns its name.
    pub fn write(&self, manifest: &Manifest) -> Result<String> {
        let number = |name: &String| name.split('-').next()?.parse::<u64>().ok();
        let last = self.names()?.iter().filter_map(number).max().unwrap_or(0);
        let name = format!("{:06}-{}", last + 1, moment(manifest.made_micros));
        self.objects.put(&format!("{BACKUPS}/{name}"), manifest.encode()).map_err(failed)?;
        Ok(name)
    }

    /// Removes manifests; what they name stays.
    pub fn forget(&self, names: &[String]) -> Result<()> {
        self.objects.remove(names.iter().map(|name| format!("{BACKUPS}/{name}")).collect()).map_err(failed)
    }

    /// The objects that are there, whoever names them, with their bytes.
    pub fn objects(&self) -> Result<Vec<(String, u64)>> {
        let listed = self.objects.list(OBJECTS).map_err(failed)?;
        Ok(listed.into_iter().map(|it| (it.name, it.bytes)).collect())
    }

    /// What a folder has: names behind the folder's, and bytes.
    pub fn list(&self, folder: &str) -> Result<Vec<(String, u64)>> {
        let listed = self.objects.list(folder).map_err(failed)?;
        let prefix = format!("{folder}/");
        let behind = |name: &str| Some(name.strip_prefix(&prefix)?.to_owned());
        Ok(listed.into_iter().filter_map(|it| Some((behind(&it.name)?, it.bytes))).collect())
    }

    /// What an object is called in messages.
    pub fn named(&self, object: &str) -> String {
        self.objects.named(object)
    }

    pub fn put_object(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        self.objects.put(name, bytes).map_err(failed)
    }

    /// `None`: there is none.
    pub fn get_object(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.objects.get(name) {
            Err(ObjectError::NotFound { .. }) => Ok(None),
            read => read.map(Some).map_err(failed),
        }
    }

    pub fn remove_objects(&self, names: Vec<String>) -> Result<()> {
        self.objects.remove(names).map_err(failed)
    }

    pub fn put(&self, piece: &Piece, bytes: Vec<u8>) -> Result<()> {
        self.put_object(&piece.name(), bytes)
    }

    /// The bytes of a piece, which are what its name says.
    ///
    /// # Errors
    /// 'XX001' with the object's name if it is missing, cut short or damaged; of the target.
    pub fn get(&self, piece: &Piece) -> Result<Vec<u8>> {
        saki_thin::read(&self.objects, piece).map_err(|error| match error {
            PieceError::Store(error) => failed(error),
            damaged @ (PieceError::Missing { .. } | PieceError::Damaged { .. }) => SqlError::corrupt(damaged)
                .hint("restore another backup; the next backup of the database writes what is missing"),
        })
    }

    /// Says that a backup goes on. A sign of one that was interrupted is in nobody's way: of a database there is one
    /// backup at a time.
    ///
    /// # Errors
    /// 55006 while somebody prunes.
    pub fn begin_backup(&self) -> Result<()> {
        self.objects.put(BACKUP_RUNS, b"a backup goes on".to_vec()).map_err(failed)?;
        if self.objects.has(PRUNE_RUNS).map_err(failed)? {
            self.end_backup()?;
            return Err(self
                .busy("old backups are being pruned, or pruning was interrupted")
                .hint(format!("run saki backup prune --from {} to its end, then try again", self.objects.target())));
        }
        Ok(())
    }

    pub fn end_backup(&self) -> Result<()> {
        self.objects.remove(vec![BACKUP_RUNS.to_owned()]).map_err(failed)
    }

    /// Says that somebody prunes, which who was interrupted may do again.
    ///
    /// # Errors
    /// 55006 while a backup is made.
    pub fn begin_prune(&self) -> Result<()> {
        self.objects.put(PRUNE_RUNS, b"old backups are pruned".to_vec()).map_err(failed)?;
        if self.objects.has(BACKUP_RUNS).map_err(failed)? {
            self.end_prune()?;
            return Err(self.busy("a backup is being made, or was interrupted").hint(format!(
                "prune when the next backup has been made; if none will be, remove {}",
                self.objects.named(BACKUP_RUNS)
            )));
        }
        Ok(())
    }

    pub fn end_prune(&self) -> Result<()> {
        self.objects.remove(vec![PRUNE_RUNS.to_owned()]).map_err(failed)
    }

    fn busy(&self, what: &str) -> SqlError {
        SqlError::invalid(format!("{}: {what}", self.objects.target())).code("55006")
    }
}

/// `20261126T182207Z`
pub fn moment(micros: i64) -> String {
    let (days, rest) = (micros.div_euclid(civil::MICROS_PER_DAY), micros.rem_euclid(civil::MICROS_PER_DAY));
    let civil::CivilDate { year, month, day } = civil::civil_from_days(days);
    let seconds = rest / civil::MICROS_PER_SECOND;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn failed(error: ObjectError) -> SqlError {
    let message = error.to_string();
    match error {
        ObjectError::NotFound { .. } => SqlError::storage(message).code("58P01"),
        ObjectError::Denied { .. } => SqlError::storage(message)
            .code("42501")
            .hint("AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION name who asks, in the process that does it"),
        ObjectError::Full { .. } => SqlError::storage(message)
            .code("53100")
            .hint("make room, or prune old backups, and do it again: what is there already is used"),
        ObjectError::Failed { .. } => SqlError::storage(message).code("58030"),
        ObjectError::Target { .. } => SqlError::invalid(message).code("22023"),
    }
}
