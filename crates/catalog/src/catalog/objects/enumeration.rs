//! Enumerations of a catalog: `CREATE TYPE … AS ENUM`.

use saki_base::types::enumeration::{Labels, STEP};
use saki_base::{Enumeration, TableId};
use serde::{Deserialize, Serialize};

use super::bare;
use crate::PUBLIC;
use crate::catalog::privileges::{FIRST_OID, OIDS_PER_ID};
use crate::error::{Result, SqlError};

/// A type whose values are labels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EnumType {
    pub id: TableId,
    /// As a table's; names of types are apart from those of relations.
    pub name: String,
    pub schema: String,
    /// Labels and the numbers that stand for them in rows, by these.
    pub labels: Vec<(String, i64)>,
}

/// Where a label goes among others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Last,
    Before(String),
    After(String),
}

impl EnumType {
    /// The name within its schema.
    pub fn bare_name(&self) -> &str {
        bare(&self.schema, &self.name)
    }

    /// The number of the type for clients.
    pub fn oid(&self) -> u32 {
        FIRST_OID.saturating_add(self.id.0.saturating_mul(OIDS_PER_ID))
    }

    /// The same of the type of its arrays.
    pub fn array_oid(&self) -> u32 {
        self.oid().saturating_add(1)
    }

    /// Whether a number of a type is an enumeration's.
    pub fn is_oid(oid: i64) -> bool {
        oid > FIRST_OID.into() && (oid - i64::from(FIRST_OID)) % i64::from(OIDS_PER_ID) == 0
    }

    /// Labels as they are declared, evenly apart.
    pub fn numbered(labels: Vec<String>) -> Vec<(String, i64)> {
        labels.into_iter().zip(1..).map(|(label, at)| (label, at * STEP)).collect()
    }

    /// The type as columns have it.
    pub fn state(&self) -> Enumeration {
        let quote = |part: &str| match part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
            true => part.to_owned(),
            false => format!("\"{}\"", part.replace('"', "\"\"")),
        };
        let name = match self.schema == PUBLIC {
            true => quote(&self.name),
            false => format!("{}.{}", quote(&self.schema), quote(self.bare_name())),
        };
        Enumeration::new(Labels {
            id: self.id.0,
            oid: self.oid(),
            array: self.array_oid(),
            name,
            labels: self.labels.clone(),
        })
    }

    fn place_of(&self, label: &str) -> Result<usize> {
        self.labels
            .iter()
            .position(|(known, _)| known == label)
            .ok_or_else(|| SqlError::invalid(format!("\"{label}\" is not an existing enum label")).code("22023"))
    }

    /// Adds a label.
    ///
    /// # Errors
    /// 42710 if it is there, 22023 if there is none at the place, 54000 if there is no room between two.
    pub fn add(&mut self, label: &str, place: &Place) -> Result<()> {
        if self.labels.iter().any(|(known, _)| known == label) {
            return Err(SqlError::invalid(format!("enum label \"{label}\" already exists")).code("42710"));
        }
        let at = match place {
            Place::Last => self.labels.len(),
            Place::Before(other) => self.place_of(other)?,
            Place::After(other) => self.place_of(other)? + 1,
        };
        let before = at.checked_sub(1).map(|before| self.labels[before].1);
        let number = match (before, self.labels.get(at).map(|(_, number)| *number)) {
            (None, None) => Some(STEP),
            (Some(before), None) => before.checked_add(STEP),
            (None, Some(after)) => after.checked_sub(STEP),
            (Some(before), Some(after)) => Some(before + (after - before) / 2).filter(|number| *number != before),
        };
        let Some(number) = number else {
            let message = format!("there is no room for enum label \"{label}\" at this place");
            return Err(SqlError::invalid(message)
                .code("54000")
                .hint("Make a new type, and ALTER COLUMN … TYPE … USING the label's text."));
        };
        self.labels.insert(at, (label.to_owned(), number));
        Ok(())
    }

    /// Calls a label otherwise.
    ///
    /// # Errors
    /// 22023 if there is none of that name, 42710 if the new name is another's.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let at = self.place_of(from)?;
        if self.labels.iter().any(|(known, _)| known == to) {
            return Err(SqlError::invalid(format!("enum label \"{to}\" already exists")).code("42710"));
        }
        to.clone_into(&mut self.labels[at].0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mood(labels: &[&str]) -> EnumType {
        let labels = EnumType::numbered(labels.iter().map(|label| (*label).to_owned()).collect());
        EnumType { id: TableId(3), name: "mood".into(), schema: PUBLIC.into(), labels }
    }

    fn names(of: &EnumType) -> Vec<&str> {
        of.labels.iter().map(|(label, _)| label.as_str()).collect()
    }

    #[test]
    fn labels_come_between_others_until_there_is_no_room() {
        let mut mood = mood(&["sad", "happy"]);
        mood.add("ok", &Place::Before("happy".into())).unwrap();
        mood.add("awful", &Place::Before("sad".into())).unwrap();
        mood.add("great", &Place::Last).unwrap();
        assert_eq!(names(&mood), ["awful", "sad", "ok", "happy", "great"]);
        assert!(mood.labels.is_sorted_by_key(|(_, number)| *number));
        let refused = |done: Result<()>| done.unwrap_err().sqlstate().to_owned();
        assert_eq!(refused(mood.add("ok", &Place::Last)), "42710");
        assert_eq!(refused(mood.add("x", &Place::After("y".into()))), "22023");
        assert_eq!(refused(mood.rename("ok", "sad")), "42710");
        let many = (0..40).find_map(|n| mood.add(&format!("n{n}"), &Place::After("sad".into())).err());
        assert_eq!(many.unwrap().sqlstate(), "54000");
        assert!(mood.labels.is_sorted_by_key(|(_, number)| *number) && mood.labels.len() > 20);
    }
}
