//! Money that everybody moves: rows that many change at once.
//!
//! Each transfer moves an amount between two accounts and leaves a line in the ledger. So in every snapshot the
//! balances are what its ledger makes of them, and the ledger has every transfer that had been told before. Lines are
//! numbered by a sequence: those of transfers that were told before others began have smaller numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::{ACCOUNTS, BALANCE};
use crate::model::Fate;

/// One transfer.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    from: i64,
    to: i64,
    amount: i64,
    fate: Fate,
    /// The events at which it began, and at which it was told.
    began: u64,
    told: u64,
}

/// All transfers that were tried.
#[derive(Debug, Default)]
pub struct Bank {
    transfers: BTreeMap<i64, Transfer>,
    /// Those that everybody sees who begins now.
    told: BTreeSet<i64>,
    events: u64,
}

impl Bank {
    /// A transfer is about to be committed; its number.
    pub fn begin(&mut self, from: i64, to: i64, amount: i64) -> i64 {
        let id = self.transfers.len() as i64;
        self.events += 1;
        let transfer = Transfer { from, to, amount, fate: Fate::Open, began: self.events, told: u64::MAX };
        self.transfers.insert(id, transfer);
        id
    }

    pub fn end(&mut self, id: i64, fate: Fate) {
        if let Some(transfer) = self.transfers.get_mut(&id) {
            transfer.fate = fate;
            transfer.told = if fate == Fate::Committed { self.events } else { u64::MAX };
        }
        if fate == Fate::Committed {
            self.told.insert(id);
        }
    }

    /// What a reader that begins now must see.
    pub fn look(&self) -> BTreeSet<i64> {
        self.told.clone()
    }

    /// A reader has seen balances and ledger in one snapshot, that had to have `told`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn seen(&mut self, told: &BTreeSet<i64>, balances: &[Vec<i64>], ledger: &[Vec<i64>]) -> Result<(), String> {
        let mut expected: BTreeMap<i64, i64> = (0..ACCOUNTS).map(|id| (id, BALANCE)).collect();
        let (mut found, mut numbers) = (BTreeSet::new(), BTreeMap::new());
        for line in ledger {
            let [id, from, to, amount, number] = line[..] else {
                return Err(format!("a line of the ledger: {line:?}"));
            };
            let known = self.transfers.get(&id);
            let known = known.filter(|known| (known.from, known.to, known.amount) == (from, to, amount));
            match known.map(|known| known.fate) {
                None => return Err(format!("the ledger has transfer {line:?}, which nobody made")),
                Some(Fate::Aborted) => return Err(format!("the ledger has transfer {id}, which was taken back")),
                Some(_) => {}
            }
            if !found.insert(id) {
                return Err(format!("the ledger has transfer {id} twice"));
            }
            if let Some(other) = numbers.insert(number, id) {
                return Err(format!("lines of transfers {other} and {id} have both the number {number}"));
            }
            *expected.entry(from).or_default() -= amount;
            *expected.entry(to).or_default() += amount;
        }
        if let Some(missing) = told.difference(&found).next() {
            return Err(format!("transfer {missing} was told, and is not in the ledger"));
        }
        self.in_order(&numbers)?;
        let mut balances: Vec<(i64, i64)> = balances.iter().map(|row| (row[0], row[1])).collect();
        balances.sort_unstable();
        let expected: Vec<(i64, i64)> = expected.into_iter().collect();
        if balances != expected {
            return Err(format!("balances are {balances:?}, and by the ledger they were {expected:?}"));
        }
        self.told.extend(found);
        Ok(())
    }

    /// Whether lines have been numbered in the order of their transfers, as far as that is known.
    fn in_order(&self, numbers: &BTreeMap<i64, i64>) -> Result<(), String> {
        let mut latest: Option<(u64, i64)> = None;
        for (number, id) in numbers {
            let transfer = &self.transfers[id];
            if let Some((_, other)) = latest.filter(|(began, _)| transfer.told < *began) {
                return Err(format!(
                    "transfer {id} was told before transfer {other} began, and its line has the greater number {number}"
                ));
            }
            latest = latest.max(Some((transfer.began, *id)));
        }
        Ok(())
    }

    /// After a restart: what is not there did not happen.
    pub fn settle(&mut self) {
        for (id, transfer) in &mut self.transfers {
            if transfer.fate == Fate::Open {
                transfer.fate = if self.told.contains(id) { Fate::Committed } else { Fate::Aborted };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balances(changes: &[(i64, i64)]) -> Vec<Vec<i64>> {
        let change = |id| changes.iter().filter(|(of, _)| *of == id).map(|(_, by)| by).sum::<i64>();
        (0..ACCOUNTS).map(|id| vec![id, BALANCE + change(id)]).collect()
    }

    #[test]
    fn balances_are_those_of_the_ledger() {
        let mut bank = Bank::default();
        let (told, lines) = (bank.look(), [vec![0, 1, 2, 5, 1]]);
        assert!(bank.seen(&told, &balances(&[]), &lines).is_err(), "nobody made it");
        assert_eq!(bank.begin(1, 2, 5), 0);
        assert!(bank.seen(&told, &balances(&[]), &[]).is_ok());
        assert!(bank.seen(&told, &balances(&[]), &lines).is_err(), "half of it");
        assert!(bank.seen(&told, &balances(&[(1, -5), (2, 5)]), &lines).is_ok());
        let told = bank.look();
        assert!(bank.seen(&told, &balances(&[]), &[]).is_err(), "it was seen before");
    }

    #[test]
    fn what_was_taken_back_is_not_seen() {
        let mut bank = Bank::default();
        let id = bank.begin(1, 2, 5);
        bank.end(id, Fate::Aborted);
        let told = bank.look();
        assert!(bank.seen(&told, &balances(&[(1, -5), (2, 5)]), &[vec![0, 1, 2, 5, 1]]).is_err());
    }

    #[test]
    fn lines_are_numbered_in_order() {
        let mut bank = Bank::default();
        for id in 0..3 {
            assert_eq!(bank.begin(1, 2, 5), id);
        }
        bank.end(0, Fate::Committed);
        assert_eq!(bank.begin(1, 2, 5), 3);
        let numbered = |numbers: [i64; 4]| BTreeMap::from_iter(numbers.into_iter().zip(0..));
        assert!(bank.in_order(&numbered([1, 2, 3, 4])).is_ok());
        assert!(bank.in_order(&numbered([3, 2, 1, 4])).is_ok(), "those were beside each other");
        assert!(bank.in_order(&numbered([4, 2, 1, 3])).is_err());
        assert!(bank.in_order(&numbered([4, 5, 1, 3])).is_err());
    }
}
