//! What can go wrong with an object, by what may be done about it.

use std::error::Error;
use std::fmt;

/// Names the object, as `target/name`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectError {
    /// There is none.
    NotFound { object: String },
    /// The store does not let us.
    Denied { object: String, reason: String },
    /// There is no room for it.
    Full { object: String, reason: String },
    /// The store or its file system failed, for as long as there was patience.
    Failed { object: String, reason: String },
    /// What was written is no target.
    Target { target: String, reason: String },
}

impl ObjectError {
    pub(crate) fn of(object: String, error: &object_store::Error) -> Self {
        use object_store::Error as Store;
        let reason = told(error);
        match error {
            Store::NotFound { .. } => Self::NotFound { object },
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => Self::Denied { object, reason },
            _ => match file_error(error) {
                Some(cause) => Self::of_file(object, cause),
                None => Self::Failed { object, reason },
            },
        }
    }

    pub(crate) fn of_file(object: String, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        let reason = error.to_string();
        match error.kind() {
            Kind::NotFound => Self::NotFound { object },
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Self::Denied { object, reason },
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Self::Full { object, reason },
            _ => Self::Failed { object, reason },
        }
    }
}

/// The file system's error behind another.
fn file_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e std::io::Error> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<std::io::Error>()
            && found.raw_os_error().is_some()
        {
            return Some(found);
        }
        at = error.source();
    }
    None
}

/// An error with its causes, each once.
fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        at = cause.source();
    }
    text
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { object } => write!(f, "{object}: is not there"),
            Self::Denied { object, reason } => write!(f, "{object}: access is denied ({reason})"),
            Self::Full { object, reason } => write!(f, "{object}: no space left ({reason})"),
            Self::Failed { object, reason } => write!(f, "{object}: {reason}"),
            Self::Target { target, reason } => write!(f, "{target:?}: {reason}"),
        }
    }
}

impl Error for ObjectError {}
