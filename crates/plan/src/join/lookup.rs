//! Which tree to look rows up in, and what that is expected to take.

use std::sync::Arc;

use saki_catalog::{ColumnTest, TableAccess, guesses};
use saki_exec::plan::JoinKind;

use crate::cost::Costs;
use crate::join::candidate::Candidate;

/// Distinct values of a column that an equality after a lookup is taken to compare, at most.
const DISTINCT_MAX: f64 = 1e9;

/// A tree to look up in, and how its leading key columns are determined.
pub struct Lookup {
    pub access: Arc<TableAccess>,
    pub key: Vec<KeyPart>,
    pub fetches_primary: bool,
    pub unique: bool,
    /// Of the lookups alone.
    pub seconds: f64,
    pub rows: f64,
}

/// What gives a key column its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyPart {
    /// Position in the candidate's equalities.
    Equality(usize),
    /// Position in the inner scan's tests, a single point.
    Constant(usize),
}

impl Lookup {
    /// The cheapest, if the key of any tree allows one.
    pub fn best(candidate: &Candidate<'_>) -> Option<Self> {
        let lookups = TableAccess::all(&candidate.scan.table).filter_map(|access| Self::through(candidate, access));
        lookups.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    fn through(candidate: &Candidate<'_>, access: Arc<TableAccess>) -> Option<Self> {
        let key = key_parts(candidate, &access);
        if key.is_empty() {
            return None;
        }
        let in_key = |equality: &usize| key.contains(&KeyPart::Equality(*equality));
        let loose: Vec<usize> = (0..candidate.equalities.len()).filter(|equality| !in_key(equality)).collect();
        let fetches_primary = fetches_primary(candidate, &access, &loose)?;
        let unique = key.len() == access.key_columns().len();
        let mut lookup = Self { access, key, fetches_primary, unique, seconds: 0.0, rows: 0.0 };
        let matches = lookup.matches(candidate);
        lookup.seconds = lookup.seconds(candidate, matches);
        lookup.rows = lookup.rows(candidate, matches, &loose);
        Some(lookup)
    }

    /// Whether the lookups themselves decide an equality.
    pub fn decides(&self, equality: usize) -> bool {
        self.key.contains(&KeyPart::Equality(equality))
    }

    /// Entries that a key is expected to find. A key of a table that refers to this one nearly always finds something.
    fn matches(&self, candidate: &Candidate<'_>) -> f64 {
        if self.access.unique_width().is_some_and(|width| self.key.len() >= width) {
            return 1.0;
        }
        let table = &candidate.scan.table;
        let entries = table.rows().max(1.0);
        let columns = self.access.key_columns().iter().take(self.key.len());
        let distinct: f64 = columns.map(|column| table.distinct(*column)).product();
        (entries / distinct.clamp(1.0, entries)).max(1.0)
    }

    fn seconds(&self, candidate: &Candidate<'_>, matches: f64) -> f64 {
        let (scan, costs) = (&candidate.scan, &*candidate.env);
        let probes = candidate.outer.estimate.rows;
        let leaves = self.access.tree.leaf_pages as f64;
        let rows_per_leaf = (scan.table.rows().max(1.0) / leaves.max(1.0)).max(1.0);
        let seconds = costs.of_tree(self.access.tree.tree).lookups(probes, (matches / rows_per_leaf).ceil(), leaves);
        if !self.fetches_primary {
            return seconds;
        }
        let on_index = scan.tests.iter().filter(|test| self.access.position(test.column).is_some());
        let remaining = probes * matches * scan.table.selectivity(on_index);
        seconds + costs.of_tree(scan.table.root.id).lookups(remaining, 1.0, scan.table.root.leaf_pages as f64)
    }

    fn rows(&self, candidate: &Candidate<'_>, matches: f64, loose: &[usize]) -> f64 {
        let (scan, outer) = (&candidate.scan, candidate.outer.estimate.rows);
        let tests = scan.tests.iter().enumerate();
        let undecided = tests.filter(|(position, _)| !self.key.contains(&KeyPart::Constant(*position)));
        let kept = scan.table.selectivity(undecided.map(|(_, test)| test));
        let mut joined = outer * matches * kept * guesses::conditions(scan.rest.len());
        for equality in loose {
            joined /= scan.table.distinct(candidate.equalities[*equality].inner).clamp(1.0, DISTINCT_MAX);
        }
        match candidate.kind {
            JoinKind::Inner => joined,
            JoinKind::Left => joined.max(outer),
            JoinKind::Semi => joined.min(outer),
            JoinKind::Anti => guesses::alone(outer, joined),
        }
    }
}

/// How the leading columns of a tree's key are determined, as far as they are; none if no equality is among them.
fn key_parts(candidate: &Candidate<'_>, access: &TableAccess) -> Vec<KeyPart> {
    let mut key: Vec<KeyPart> = Vec::new();
    for column in access.key_columns() {
        let equality = candidate.equalities.iter().position(|equality| equality.inner == *column);
        let single =
            |test: &ColumnTest| test.column == *column && test.points().is_some_and(|points| points.len() == 1);
        let constant = || candidate.scan.tests.iter().position(single);
        match equality.map(KeyPart::Equality).or_else(|| constant().map(KeyPart::Constant)) {
            Some(part) => key.push(part),
            None => break,
        }
    }
    if key.iter().any(|part| matches!(part, KeyPart::Equality(_))) { key } else { Vec::new() }
}

/// Whether rows found in a tree have to be completed from the primary one; `None` where that would come too late, or
/// cannot be.
fn fetches_primary(candidate: &Candidate<'_>, access: &TableAccess, loose: &[usize]) -> Option<bool> {
    let fetched: Vec<usize> = match candidate.kind {
        JoinKind::Semi | JoinKind::Anti => Vec::new(),
        JoinKind::Inner | JoinKind::Left => candidate.inner_columns_used(loose),
    };
    let tests_here = access.covers(candidate.scan.tests.iter().map(|test| test.column));
    let covering = tests_here && access.covers(fetched.iter().copied());
    let allowed = match candidate.kind {
        JoinKind::Inner => true,
        JoinKind::Left => loose.is_empty() && tests_here,
        JoinKind::Semi | JoinKind::Anti => loose.is_empty() && covering,
    };
    (allowed && (covering || access.index.is_some())).then_some(!covering)
}
