//! Money that everybody moves: rows that many change at once.
//!
//! Each transfer moves an amount between two accounts and leaves a line in the ledger. So in every snapshot the
//! balances are what its ledger makes of them, and the ledger has every transfer that had been told before.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Fate;
use crate::tables::{ACCOUNTS, BALANCE};

/// One transfer.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    from: i64,
    to: i64,
    amount: i64,
    fate: Fate,
}

/// All transfers that were tried.
#[derive(Debug, Default)]
pub struct Bank {
    transfers: BTreeMap<i64, Transfer>,
    /// Those that everybody sees who begins now.
    told: BTreeSet<i64>,
}

impl Bank {
    /// A transfer is about to be committed; its number.
    pub fn begin(&mut self, from: i64, to: i64, amount: i64) -> i64 {
        let id = self.transfers.len() as i64;
        self.transfers.insert(id, Transfer { from, to, amount, fate: Fate::Open });
        id
    }

    pub fn end(&mut self, id: i64, fate: Fate) {
        if let Some(transfer) = self.transfers.get_mut(&id) {
            transfer.fate = fate;
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
        let mut found = BTreeSet::new();
        for line in ledger {
            let [id, from, to, amount] = line[..] else { return Err(format!("a line of the ledger: {line:?}")) };
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
            *expected.entry(from).or_default() -= amount;
            *expected.entry(to).or_default() += amount;
        }
        if let Some(missing) = told.difference(&found).next() {
            return Err(format!("transfer {missing} was told, and is not in the ledger"));
        }
        let mut balances: Vec<(i64, i64)> = balances.iter().map(|row| (row[0], row[1])).collect();
        balances.sort_unstable();
        let expected: Vec<(i64, i64)> = expected.into_iter().collect();
        if balances != expected {
            return Err(format!("balances are {balances:?}, and by the ledger they were {expected:?}"));
        }
        self.told.extend(found);
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
        let (told, lines) = (bank.look(), [vec![0, 1, 2, 5]]);
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
        assert!(bank.seen(&told, &balances(&[(1, -5), (2, 5)]), &[vec![0, 1, 2, 5]]).is_err());
    }
}
