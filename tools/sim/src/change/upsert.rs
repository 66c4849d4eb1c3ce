//! Rows that are added, or change those that are there already.

use super::{Change, Drawer, Expected, KEYS, Statement};
use crate::model::{Row, State, TableNumber};
use crate::tables::{Filter, WIDE};

/// How many of the upserts concern an own table whose rows are unique by more than their key.
const UNIQUE: f64 = 0.7;

/// By what a row is known that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Key,
    /// The columns of `UNIQUE (n, tag)`.
    Pair,
    /// Both, whichever it is.
    Any,
}

impl Drawer<'_> {
    pub(super) fn upsert(&mut self) -> Change {
        let own = self.tables.own(self.owner);
        let is_unique = self.state.shape.is_unique;
        let is_wide = self.random.chance(if is_unique { 1.0 - UNIQUE } else { 0.7 });
        let table = if is_wide { WIDE } else { own };
        // Whether rows break a unique constraint on the way is not modelled.
        let most = if table == own && is_unique { 1 } else { 4 };
        let mut keys: Vec<i64> = (0..1 + self.below(most)).map(|_| self.below(KEYS as u64) as i64).collect();
        keys.sort_unstable();
        keys.dedup();
        let updates = self.random.chance(0.6);
        let target = match self.below(3) {
            1 if table == own && is_unique => Target::Pair,
            2 if !updates => Target::Any,
            _ => Target::Key,
        };
        let rows: Vec<(i64, Row)> = keys.into_iter().map(|key| (key, self.proposed(table, target))).collect();
        let (after, count) = self.upserted(table, target, updates, &rows);
        let text = self.upsert_text(table, target, updates, &rows);
        let mut broken = self.broken_by(table, target, &rows);
        let change = self.change(Statement::Sql(text), Some(count), after);
        match change.expected {
            Expected::Refused(also) if !broken.is_empty() => broken.extend(also),
            expected if broken.is_empty() => return Change { expected, ..change },
            Expected::Refused(_) | Expected::Done { .. } => {}
        }
        Change { expected: Expected::Refused(broken), ..change }
    }

    /// A row that is to be added; often one that there is already, by its target.
    fn proposed(&mut self, table: TableNumber, target: Target) -> Row {
        let mut row = self.row(table);
        let keys = self.filtered(table, &Filter::All);
        if target != Target::Key && !keys.is_empty() && self.random.chance(0.5) {
            let known = &self.state.rows[&(table, keys[self.below(keys.len() as u64) as usize])];
            (row.n, row.tag) = (known.n, known.tag.clone());
        }
        row
    }

    /// The key of the row that is there in the place of a new one.
    fn present(&self, table: TableNumber, target: Target, key: i64, row: &Row) -> Option<i64> {
        let is_unique = table == self.tables.own(self.owner) && self.state.shape.is_unique;
        let by_key = (target != Target::Pair && self.state.rows.contains_key(&(table, key))).then_some(key);
        by_key.or_else(|| if target != Target::Key && is_unique { self.same_pair(table, row) } else { None })
    }

    fn same_pair(&self, table: TableNumber, row: &Row) -> Option<i64> {
        let mut rows = self.state.rows.range((table, i64::MIN)..=(table, i64::MAX));
        let same = |(_, known): &(_, &Row)| (known.n, &known.tag) == (row.n, &row.tag);
        rows.find(same).map(|((_, key), _)| *key)
    }

    /// What there is afterwards, and how many rows it was about.
    fn upserted(&self, table: TableNumber, target: Target, updates: bool, rows: &[(i64, Row)]) -> (State, usize) {
        let (mut after, mut count) = (self.state.clone(), 0);
        for (key, row) in rows {
            let present = self.present(table, target, *key, row);
            if present.is_some() && !updates {
                continue;
            }
            count += 1;
            let key = present.unwrap_or(*key);
            // What is not set stays.
            let kept = present.map_or((row.link, row.extras.clone()), |key| {
                let before = &self.state.rows[&(table, key)];
                (before.link, before.extras.clone())
            });
            after.rows.insert((table, key), Row { link: kept.0, extras: kept.1, ..row.clone() });
        }
        (after, count)
    }

    /// The conditions of constraints that new rows break also where they are not added: `CHECK`, and keys that the
    /// target does not name.
    fn broken_by(&self, table: TableNumber, target: Target, rows: &[(i64, Row)]) -> Vec<&'static str> {
        let bound = self.state.shape.below.filter(|_| table == self.tables.own(self.owner));
        let is_taken = |key: &i64, row: &Row| {
            target == Target::Pair
                && self.same_pair(table, row).is_none()
                && self.state.rows.contains_key(&(table, *key))
        };
        let mut broken = Vec::new();
        if bound.is_some_and(|bound| rows.iter().any(|(_, row)| row.n >= bound)) {
            broken.push("23514");
        }
        if rows.iter().any(|(key, row)| is_taken(key, row)) {
            broken.push("23505");
        }
        broken
    }

    fn upsert_text(&self, table: TableNumber, target: Target, updates: bool, rows: &[(i64, Row)]) -> String {
        let n = self.tables.n_column(table, &self.state.shape);
        let update = format!("UPDATE SET {n} = excluded.{n}, tag = excluded.tag, pad = excluded.pad");
        let action = if updates { &update } else { "NOTHING" };
        let target = match target {
            Target::Key => " (id)".to_owned(),
            Target::Pair => format!(" ({n}, tag)"),
            Target::Any => String::new(),
        };
        let values: Vec<String> =
            rows.iter().map(|(key, row)| self.tables.values(table, self.owner, *key, row)).collect();
        let columns = self.tables.columns(table, &self.state.shape).join(", ");
        let (name, values) = (self.name(table), values.join(", "));
        format!("INSERT INTO {name} ({columns}) VALUES {values} ON CONFLICT{target} DO {action}")
    }
}
