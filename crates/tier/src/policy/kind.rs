//! What a policy is, and which there are.

use std::fmt;
use std::str::FromStr;

use crate::book::Chunk;

/// Decides which chunks have copies, by what each is worth. Numbers of one policy are compared with one another only.
pub trait Policy: Send {
    fn kind(&self) -> PolicyKind;

    /// What a copy is worth of a chunk that has none; `None`: it is to have none.
    fn wants(&self, chunk: &Chunk) -> Option<f64>;

    /// What the copy is worth that a chunk has.
    fn keeps(&self, chunk: &Chunk) -> f64;

    /// Whether a copy goes for that of a chunk which is wanted: mostly, if that is worth more.
    fn replaces(&self, wanted: &Chunk, copied: &Chunk) -> bool {
        self.wants(wanted).is_some_and(|worth| worth > self.keeps(copied))
    }
}

/// The policies that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyKind {
    /// Nothing moves by itself; what is copied stays.
    None,
    /// By what has been read up to when it was chosen; nothing moves once that is in place.
    Static,
    /// What is read is copied, in the place of what has not been read for longest.
    Lru,
    /// By the time that copies would have saved of late.
    #[default]
    Heat,
    /// By the time that copies save statements which run, as their plans say; and of late.
    Plan,
}

impl PolicyKind {
    pub const ALL: [Self; 5] = [Self::None, Self::Static, Self::Lru, Self::Heat, Self::Plan];

    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Static => "static",
            Self::Lru => "lru",
            Self::Heat => "heat",
            Self::Plan => "plan",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text)).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no tier policy {text:?}; there are {names}")
        })
    }
}
