//! The end of a command that did not do what it was asked: one message, one exit code.

use std::fmt;
use std::path::Path;

/// What went wrong, where, and what to do about it.
#[derive(Clone, Debug)]
pub struct Failure {
    message: String,
    /// Already told: exit without another word.
    told: bool,
}

pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), told: false }
    }

    /// For a command that has said why already.
    pub fn told() -> Self {
        Self { message: String::new(), told: true }
    }

    /// An error about a file, named unless the message does that itself.
    pub fn at(path: &Path, error: &dyn fmt::Display) -> Self {
        let (path, message) = (path.display().to_string(), error.to_string());
        if message.contains(&path) { Self::new(message) } else { Self::new(format!("{path}: {message}")) }
    }

    /// The same with a line more.
    pub fn with_remark(self, remark: &str) -> Self {
        Self { message: format!("{}\nHINT: {remark}", self.message), ..self }
    }

    pub fn is_told(&self) -> bool {
        self.told
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<saki::SqlError> for Failure {
    fn from(error: saki::SqlError) -> Self {
        Self::new(format!("{}{}", error.message, remarks(&error)))
    }
}

/// What an error has to say beyond its message, a line each.
pub fn remarks(error: &saki::SqlError) -> String {
    [("DETAIL", error.detail.as_deref()), ("HINT", error.hint.as_deref())]
        .into_iter()
        .filter_map(|(what, text)| Some(format!("\n{what}: {}", text?)))
        .collect()
}

impl From<saki::plot::PlotError> for Failure {
    fn from(error: saki::plot::PlotError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // Nobody reads any more: nobody wants to hear of it.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::told()
        } else {
            Self::new(format!("standard output: {error}"))
        }
    }
}

/// A failure of the server's, with what to do about it.
pub fn told(failure: saki_node::Failure) -> Failure {
    match failure.hint {
        Some(hint) => Failure::new(format!("{}\nHINT: {hint}", failure.message)),
        None => Failure::new(failure.message),
    }
}
