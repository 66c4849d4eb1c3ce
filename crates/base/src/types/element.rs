//! What elements of arrays are.

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::DataType;

/// The type of an array's elements: any but arrays and enumerations.
///
/// Each that the process has met is kept for good, so that [`DataType`] stays a small value that can be copied.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element(&'static DataType);

static KNOWN: LazyLock<Mutex<HashMap<DataType, Element>>> = LazyLock::new(Mutex::default);

impl Element {
    /// `None`: there are no arrays of these.
    pub fn new(data_type: DataType) -> Option<Self> {
        if let DataType::Array(_) | DataType::Enum(_) = data_type {
            return None;
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Some(*known.entry(data_type).or_insert_with(|| Self(Box::leak(Box::new(data_type)))))
    }

    /// The type of one element.
    pub const fn data_type(self) -> DataType {
        *self.0
    }
}

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Element {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let data_type = DataType::deserialize(deserializer)?;
        Self::new(data_type).ok_or_else(|| serde::de::Error::custom(format!("an array of {data_type}")))
    }
}
