//! Numbers of a sequence that everybody takes from: each is given out once, through every restart, and is greater than
//! those that had been told before it was asked for.

use std::collections::BTreeSet;

/// What has been told.
#[derive(Debug, Default)]
pub struct Numbers(BTreeSet<i64>);

impl Numbers {
    /// What a number that is asked for now must be greater than.
    pub fn look(&self) -> i64 {
        self.0.last().copied().unwrap_or(0)
    }

    /// A number was given out.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn given(&mut self, told: i64, number: i64) -> Result<(), String> {
        if number <= told {
            return Err(format!("the sequence gave {number} when {told} had been given"));
        }
        match self.0.insert(number) {
            true => Ok(()),
            false => Err(format!("the sequence gave {number} twice")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_in_order() {
        let mut numbers = Numbers::default();
        let first = numbers.look();
        assert!(numbers.given(first, 2).is_ok());
        assert!(numbers.given(first, 1).is_ok(), "those were beside each other");
        assert!(numbers.given(first, 2).is_err());
        assert!(numbers.given(numbers.look(), 1).is_err());
        assert!(numbers.given(numbers.look(), 40).is_ok(), "some may be left out");
    }
}
