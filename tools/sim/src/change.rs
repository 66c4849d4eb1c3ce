//! Statements that change an owner's rows, and what they make of them.

use std::ops::RangeInclusive;

use saki_base::Random;

use crate::model::{Owner, Row, Rows, TableNumber};
use crate::script::Kind;
use crate::tables::{Filter, HEAP, Tables, WIDE};

/// Keys of ordinary rows are below this.
const KEYS: i64 = 40;
/// What `n` may be.
const NUMBERS: RangeInclusive<i64> = 0..=30;
/// How many tags there are.
const TAGS: u64 = 5;
/// Rows of a COPY, at most.
const COPY_ROWS: u64 = 120;

/// A statement about an owner's rows.
pub struct Change {
    pub statement: Statement,
    /// How many rows it says it was about.
    pub count: u64,
    /// The owner's rows after it.
    pub after: Rows,
}

pub enum Statement {
    Sql(String),
    /// Rows for a table by COPY: key as it is stored, and the rest.
    Copy {
        table: TableNumber,
        rows: Vec<(i64, Row)>,
    },
}

/// What a statement does to a row.
type Effect<'t> = Box<dyn Fn(&mut Row) + 't>;

/// Draws changes of one owner's rows.
pub struct Drawer<'d> {
    pub tables: Tables,
    pub owner: Owner,
    pub random: &'d mut Random,
}

impl Drawer<'_> {
    /// A change of a kind; of any if the kind is none of a change.
    pub fn draw(&mut self, kind: Kind, rows: &Rows) -> Change {
        let kinds = [
            Kind::Insert,
            Kind::Insert,
            Kind::Upsert,
            Kind::Update,
            Kind::Update,
            Kind::UpdateMany,
            Kind::Delete,
            Kind::DeleteMany,
            Kind::Copy,
        ];
        match kind {
            Kind::Insert => self.insert(rows),
            Kind::Upsert => self.upsert(rows),
            Kind::Update => self.update(rows, false),
            Kind::UpdateMany => self.update(rows, true),
            Kind::Delete => self.delete(rows, false),
            Kind::DeleteMany => self.delete(rows, true),
            Kind::Copy => self.copy(rows),
            Kind::InsertSelect => self.insert_select(rows),
            Kind::Truncate => self.truncate(rows),
            _ => {
                let kind = kinds[self.below(kinds.len() as u64) as usize];
                self.draw(kind, rows)
            }
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn table(&mut self) -> TableNumber {
        [WIDE, WIDE, HEAP, self.tables.own(self.owner)][self.below(4) as usize]
    }

    fn number(&mut self) -> i64 {
        self.random.range(*NUMBERS.start() as u64..*NUMBERS.end() as u64 + 1) as i64
    }

    fn tag(&mut self) -> String {
        format!("t{}", self.below(TAGS))
    }

    fn row(&mut self) -> Row {
        let (n, tag) = (self.number(), self.tag());
        let length = match self.below(20) {
            0 => self.below(3_000),
            1..=5 => self.below(200),
            _ => self.below(12),
        };
        let mut pad = String::new();
        while (pad.len() as u64) < length {
            pad += &format!("{:x}", self.random.next_u64());
        }
        pad.truncate(length as usize);
        Row { n, tag, pad }
    }

    fn free_keys(&mut self, rows: &Rows, table: TableNumber, count: u64, keys: i64) -> Vec<i64> {
        let mut free: Vec<i64> = (0..keys).filter(|key| !rows.contains_key(&(table, *key))).collect();
        self.random.shuffle(&mut free);
        free.truncate(count as usize);
        free
    }

    fn insert(&mut self, rows: &Rows) -> Change {
        let (table, count) = (self.table(), 1 + self.below(5));
        let keys = self.free_keys(rows, table, count, KEYS);
        if keys.is_empty() {
            return self.delete(rows, true);
        }
        let mut after = rows.clone();
        let mut values = Vec::new();
        for key in &keys {
            let row = self.row();
            values.push(self.tables.values(table, self.owner, *key, &row));
            after.insert((table, *key), row);
        }
        let (name, columns) = (self.tables.name(table), self.tables.columns(table));
        let statement = Statement::Sql(format!("INSERT INTO {name} ({columns}) VALUES {}", values.join(", ")));
        Change { statement, count: keys.len() as u64, after }
    }

    fn upsert(&mut self, rows: &Rows) -> Change {
        let table = if self.random.chance(0.7) { WIDE } else { self.tables.own(self.owner) };
        let mut keys: Vec<i64> = (0..1 + self.below(4)).map(|_| self.below(KEYS as u64) as i64).collect();
        keys.sort_unstable();
        keys.dedup();
        let updates = self.random.chance(0.6);
        let (mut after, mut values, mut count) = (rows.clone(), Vec::new(), 0);
        for key in keys {
            let row = self.row();
            values.push(self.tables.values(table, self.owner, key, &row));
            if updates || !rows.contains_key(&(table, key)) {
                count += 1;
                after.insert((table, key), row);
            }
        }
        let action =
            if updates { "UPDATE SET n = excluded.n, tag = excluded.tag, pad = excluded.pad" } else { "NOTHING" };
        let (name, columns) = (self.tables.name(table), self.tables.columns(table));
        let values = values.join(", ");
        let statement =
            Statement::Sql(format!("INSERT INTO {name} ({columns}) VALUES {values} ON CONFLICT (id) DO {action}"));
        Change { statement, count, after }
    }

    /// Which of its rows a statement is about: one, or some.
    fn filter(&mut self, rows: &Rows, table: TableNumber, many: bool) -> Filter {
        let keys: Vec<i64> = self.tables.filtered(table, self.owner, rows, &Filter::All).map(|(key, _)| key).collect();
        let any = |drawer: &mut Self| match keys.len() {
            0 => 0,
            count => keys[drawer.below(count as u64) as usize],
        };
        let (tables, owner) = (self.tables, self.owner);
        let stored = |key: i64| tables.stored(table, owner, key);
        if !many {
            let key = stored(any(self));
            return Filter::Keys(key, key);
        }
        match self.below(4) {
            0 => Filter::Tag(self.tag()),
            1 => {
                let first = self.number();
                Filter::N(first, first + self.below(10) as i64)
            }
            2 => Filter::All,
            _ => {
                let first = any(self);
                Filter::Keys(stored(first), stored(first + self.below(15) as i64))
            }
        }
    }

    /// ` WHERE …`, of its own rows only.
    fn condition(&self, table: TableNumber, filter: &Filter) -> String {
        let condition = self.tables.condition(table, filter);
        match self.tables.owner_of(table) {
            Some(_) => condition,
            None if condition.is_empty() => format!(" WHERE owner = {}", self.owner),
            None => format!("{condition} AND owner = {}", self.owner),
        }
    }

    fn update(&mut self, rows: &Rows, many: bool) -> Change {
        let table = self.table();
        let filter = self.filter(rows, table, many);
        let (name, condition) = (self.tables.name(table), self.condition(table, &filter));
        let (tag, number) = (self.tag(), self.number());
        let (set, change): (String, Effect<'_>) = match self.below(4) {
            0 => (format!("tag = '{tag}'"), Box::new(|row| row.tag.clone_from(&tag))),
            1 => (format!("n = {number}"), Box::new(|row| row.n = number)),
            2 => (format!("n = n + 7, tag = '{tag}'"), Box::new(|row| (row.n, row.tag) = (row.n + 7, tag.clone()))),
            _ => ("n = n + 1".into(), Box::new(|row| row.n += 1)),
        };
        let concerned: Vec<i64> = self.tables.filtered(table, self.owner, rows, &filter).map(|(key, _)| key).collect();
        let mut after = rows.clone();
        concerned.iter().for_each(|key| change(after.get_mut(&(table, *key)).expect("it was found there")));
        let statement = Statement::Sql(format!("UPDATE {name} SET {set}{condition}"));
        Change { statement, count: concerned.len() as u64, after }
    }

    fn delete(&mut self, rows: &Rows, many: bool) -> Change {
        let table = self.table();
        let filter = self.filter(rows, table, many);
        let (name, condition) = (self.tables.name(table), self.condition(table, &filter));
        let concerned: Vec<i64> = self.tables.filtered(table, self.owner, rows, &filter).map(|(key, _)| key).collect();
        let mut after = rows.clone();
        concerned.iter().for_each(|key| _ = after.remove(&(table, *key)));
        let statement = Statement::Sql(format!("DELETE FROM {name}{condition}"));
        Change { statement, count: concerned.len() as u64, after }
    }

    fn copy(&mut self, rows: &Rows) -> Change {
        let (table, count) = (self.table(), 1 + self.below(COPY_ROWS));
        let keys = self.free_keys(rows, table, count, KEYS * 8);
        let mut after = rows.clone();
        let mut copied = Vec::new();
        for key in keys {
            let row = self.row();
            copied.push((self.tables.stored(table, self.owner, key), row.clone()));
            after.insert((table, key), row);
        }
        let count = copied.len() as u64;
        Change { statement: Statement::Copy { table, rows: copied }, count, after }
    }

    /// Rows of a table once more, with keys behind all that there are. Into an empty table they go as a load.
    fn insert_select(&mut self, rows: &Rows) -> Change {
        let (from, to) = (self.table(), self.tables.own(self.owner));
        let last = self.tables.filtered(to, self.owner, rows, &Filter::All).map(|(key, _)| key).max();
        let first = last.map_or(0, |last| last + 1);
        let mut after = rows.clone();
        let added: Vec<(i64, Row)> = self
            .tables
            .filtered(from, self.owner, rows, &Filter::All)
            .map(|(key, row)| (key + first, row.clone()))
            .collect();
        let count = added.len() as u64;
        after.extend(added.into_iter().map(|(key, row)| ((to, key), row)));
        let key = match from {
            WIDE => format!("(id - {}) / {}", self.owner, self.tables.owners),
            _ => self.tables.key_column(from).to_owned(),
        };
        let (target, columns, source) = (self.tables.name(to), self.tables.columns(to), self.tables.name(from));
        let condition = self.condition(from, &Filter::All);
        let statement = Statement::Sql(format!(
            "INSERT INTO {target} ({columns}) SELECT {key} + {first}, n, tag, pad FROM {source}{condition}"
        ));
        Change { statement, count, after }
    }

    fn truncate(&mut self, rows: &Rows) -> Change {
        let table = self.tables.own(self.owner);
        let mut after = rows.clone();
        after.retain(|(of, _), _| *of != table);
        Change { statement: Statement::Sql(format!("TRUNCATE {}", self.tables.name(table))), count: 0, after }
    }

    /// What a reader may ask for.
    pub fn any_filter(&mut self) -> Filter {
        match self.below(8) {
            0 | 1 => Filter::All,
            2 => Filter::Owner(self.below(self.tables.owners as u64) as Owner),
            3 => {
                let key = self.below(KEYS as u64 * self.tables.owners as u64) as i64;
                Filter::Keys(key, key)
            }
            4 | 5 => {
                let first = self.below(KEYS as u64 * self.tables.owners as u64) as i64;
                Filter::Keys(first, first + self.below(60) as i64)
            }
            6 => {
                let first = self.number();
                Filter::N(first, first + self.below(12) as i64)
            }
            _ => Filter::Tag(self.tag()),
        }
    }
}
