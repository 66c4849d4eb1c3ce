//! Objects by name: bytes that are written once, read whole, listed and removed. In a directory of this machine, or in
//! a store of objects over the network that speaks S3's protocol.
//!
//! # Words
//! - *object*: bytes with a name, there whole or not at all. *Target*: what people write for where objects are: a
//!   directory, or `s3://bucket/prefix`.
//! - *patience*: how long a store that fails is asked again, with growing pauses.
//!
//! # Invariants
//! - An object that has been put is durable, and seen by whoever asks after that.
//! - A name that is refused or not there is told from a store that fails.
//!
//! # Failure model
//! A request that fails with what may pass (no answer, 5xx, too many requests) is done again while there is patience.
//! Everything else is an error that names the object. What is read may be anything: whoever reads knows what it should
//! be. An interruption leaves objects, never parts of one.
//!
//! Calls wait, on a runtime of their own, so they may come from any thread. `object_store` is named nowhere else.

#![forbid(unsafe_code)]

mod error;
mod local;
mod open;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

pub use error::ObjectError;
pub use open::{Options, is_remote};

/// An object that is there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Listed {
    pub name: String,
    pub bytes: u64,
}

/// Where objects are.
pub struct Objects {
    /// As people wrote it.
    target: String,
    store: Arc<dyn ObjectStore>,
    /// Before every name.
    prefix: Path,
    /// Of this machine, if they are files.
    directory: Option<PathBuf>,
    /// Ends without waiting: whoever drops this may be on a runtime's thread.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Objects {
    /// As it was asked for, for messages.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// What an object is called in messages.
    pub fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.target.trim_end_matches('/'))
    }

    /// Writes an object, in the place of one of the same name; afterwards it is durable.
    ///
    /// # Errors
    /// `Full`, `Denied`, `Failed`.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let put = async move { store.put(&path, PutPayload::from(bytes)).await.map(drop) };
        self.wait(put).map_err(|error| self.error(name, &error))?;
        match &self.directory {
            Some(directory) => local::settle(directory, name).map_err(|error| self.of_file(name, &error)),
            None => Ok(()),
        }
    }

    /// Reads an object.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, `Failed`.
    pub fn get(&self, name: &str) -> Result<Vec<u8>, ObjectError> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let got = self.wait(async move { store.get(&path).await?.bytes().await });
        got.map(Vec::from).map_err(|error| self.error(name, &error))
    }

    /// Whether an object is there.
    ///
    /// # Errors
    /// `Denied`, `Failed`.
    pub fn has(&self, name: &str) -> Result<bool, ObjectError> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        match self.wait(async move { store.head(&path).await }) {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.error(name, &error)),
        }
    }

    /// The objects whose names begin with `folder` and a slash, in the order of their names.
    ///
    /// # Errors
    /// `Denied`, `Failed`.
    pub fn list(&self, folder: &str) -> Result<Vec<Listed>, ObjectError> {
        let (store, path) = (Arc::clone(&self.store), self.path(folder));
        let listed = self.wait(async move { store.list(Some(&path)).try_collect::<Vec<_>>().await });
        let name = |path: &Path| path.prefix_match(&self.prefix).map(|parts| parts.fold(String::new(), joined));
        let listed = listed.map_err(|error| self.error(folder, &error))?;
        let of = |meta: object_store::ObjectMeta| Some(Listed { name: name(&meta.location)?, bytes: meta.size });
        let mut found: Vec<_> = listed.into_iter().filter_map(of).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Removes objects; those that are not there any more are no fault.
    ///
    /// # Errors
    /// `Denied`, `Failed`: then some may be gone.
    pub fn remove(&self, names: Vec<String>) -> Result<(), ObjectError> {
        let store = Arc::clone(&self.store);
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
        let removed = self.wait(async move {
            let mut removed = store.delete_stream(futures::stream::iter(paths).boxed());
            while let Some(outcome) = removed.next().await {
                match outcome {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        removed.map_err(|error| self.error(names.first().map_or("", String::as_str), &error))
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Runs a request to its end.
    fn wait<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
    ) -> Result<T, object_store::Error> {
        let (answer, answered) = mpsc::sync_channel(1);
        let runtime = self.runtime.as_ref().expect("until it is dropped");
        runtime.spawn(async move { answer.send(request.await) });
        answered.recv().unwrap_or_else(|_| {
            let source = "the request was given up".into();
            Err(object_store::Error::Generic { store: "objects", source })
        })
    }

    fn error(&self, name: &str, error: &object_store::Error) -> ObjectError {
        ObjectError::of(self.named(name), error)
    }

    fn of_file(&self, name: &str, error: &std::io::Error) -> ObjectError {
        ObjectError::of_file(self.named(name), error)
    }
}

fn joined(mut name: String, part: object_store::path::PathPart<'_>) -> String {
    if !name.is_empty() {
        name.push('/');
    }
    name + part.as_ref()
}

impl Drop for Objects {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Objects({})", self.target)
    }
}
