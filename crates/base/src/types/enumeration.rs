//! Enumerations (`CREATE TYPE … AS ENUM`): what a value's number is called.
//!
//! A value is a number, and numbers are ordered as the labels are; a label may be called otherwise without a row being
//! touched, and another may come between two, as numbers lie [`STEP`] apart.
//!
//! What an enumeration is, is said by the catalogue of a database, which changes. Here each state of it that the
//! process has met is kept under a number, for good: so a type stays a small value that can be copied, and whoever has
//! it can read and write labels without asking a catalogue. A state is as large as its labels, and one comes with each
//! statement that changes an enumeration.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How far the numbers of labels lie apart that are declared one after the other: so often the room between two can be
/// halved, as often as PostgreSQL halves that of its floats.
pub const STEP: i64 = 1 << 24;

/// One state of an enumeration.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Labels {
    /// The number of the type in its catalogue.
    pub id: u32,
    /// The type's number for clients.
    pub oid: u32,
    /// That of the type of its arrays.
    pub array: u32,
    /// As SQL names the type where `public` and the system's schema are looked through.
    pub name: String,
    /// Labels and their numbers, by these.
    pub labels: Vec<(String, i64)>,
}

struct State {
    number: u32,
    is: Labels,
    by_label: HashMap<String, i64>,
}

/// An enumeration in one of its states. Two are the same type if they are states of one.
#[derive(Clone, Copy)]
pub struct Enumeration(&'static State);

#[derive(Default)]
struct States {
    all: Vec<Enumeration>,
    known: HashMap<&'static Labels, u32>,
}

static STATES: LazyLock<RwLock<States>> = LazyLock::new(RwLock::default);

impl Enumeration {
    /// The state with these labels, which must be in the order of their numbers.
    pub fn new(labels: Labels) -> Self {
        let find = |states: &States| states.known.get(&labels).map(|number| states.all[*number as usize]);
        if let Some(known) = find(&STATES.read().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let mut states = STATES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&states) {
            return known;
        }
        let number = states.all.len() as u32;
        let by_label = labels.labels.iter().cloned().collect();
        let state: &'static State = Box::leak(Box::new(State { number, is: labels, by_label }));
        states.all.push(Self(state));
        states.known.insert(&state.is, number);
        Self(state)
    }

    /// The state that has a number, which is of this process only.
    pub fn numbered(number: u32) -> Option<Self> {
        STATES.read().unwrap_or_else(PoisonError::into_inner).all.get(number as usize).copied()
    }

    /// The number of this state.
    pub fn number(self) -> u32 {
        self.0.number
    }

    /// What it is made of.
    pub fn labels(self) -> &'static Labels {
        &self.0.is
    }

    /// The type's number in its catalogue.
    pub fn id(self) -> u32 {
        self.0.is.id
    }

    /// The type's number for clients.
    pub fn oid(self) -> u32 {
        self.0.is.oid
    }

    /// The number of the type of its arrays, for clients.
    pub fn array(self) -> u32 {
        self.0.is.array
    }

    /// As SQL names it.
    pub fn name(self) -> &'static str {
        &self.0.is.name
    }

    /// The number of a label.
    pub fn value(self, label: &str) -> Option<i64> {
        self.0.by_label.get(label).copied()
    }

    /// The label that has a number.
    pub fn label(self, value: i64) -> Option<&'static str> {
        let labels = &self.0.is.labels;
        let at = labels.binary_search_by_key(&value, |(_, number)| *number).ok()?;
        Some(&labels[at].0)
    }

    /// Whether both are the same state, not only the same type.
    pub fn is_same_state(self, other: Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl PartialEq for Enumeration {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Enumeration {}

impl Hash for Enumeration {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for Enumeration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.0.is.name, self.0.is.id)
    }
}

/// The type's number alone: the catalogue has the rest, and gives it back to what was read.
impl Serialize for Enumeration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.id())
    }
}

impl<'de> Deserialize<'de> for Enumeration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = u32::deserialize(deserializer)?;
        Ok(Self::new(Labels { id, ..Labels::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mood(id: u32, labels: &[&str]) -> Enumeration {
        let labels = labels.iter().zip(1..).map(|(label, at)| ((*label).to_owned(), at * STEP)).collect();
        Enumeration::new(Labels { id, oid: id, array: 0, name: "mood".to_owned(), labels })
    }

    #[test]
    fn a_state_is_kept_once_and_is_found_by_its_number() {
        let (one, again, other) = (mood(7, &["sad", "ok"]), mood(7, &["sad", "ok"]), mood(7, &["sad", "fine"]));
        assert!(one.is_same_state(again) && !one.is_same_state(other));
        assert_eq!(one, other, "it is one type");
        assert_ne!(one, mood(8, &["sad", "ok"]));
        assert!(Enumeration::numbered(one.number()).is_some_and(|found| found.is_same_state(one)));
        assert!(Enumeration::numbered(u32::MAX).is_none());
    }

    #[test]
    fn labels_and_numbers_lead_to_each_other() {
        let mood = mood(9, &["sad", "ok"]);
        assert_eq!((mood.value("ok"), mood.value("OK")), (Some(2 * STEP), None));
        assert_eq!((mood.label(STEP), mood.label(STEP + 1)), (Some("sad"), None));
        assert!(mood.value("sad") < mood.value("ok"));
    }

    #[test]
    fn the_catalogues_number_is_what_is_written() {
        let text = serde_json::to_string(&mood(11, &["sad"])).unwrap();
        assert_eq!(text, "11");
        let read: Enumeration = serde_json::from_str(&text).unwrap();
        assert_eq!((read, read.value("sad")), (mood(11, &[]), None));
    }
}
