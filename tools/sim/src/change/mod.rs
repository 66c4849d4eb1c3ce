//! Statements that change an owner's rows, and what they make of them.

pub mod alter;
mod rules;
mod upsert;

use std::ops::RangeInclusive;

use saki_base::Random;

use crate::model::{Owner, Row, State, TableNumber};
use crate::script::Kind;
use crate::tables::focus::Focus;
use crate::tables::{Filter, HEAP, Tables, WIDE};

/// Keys of ordinary rows are below this.
const KEYS: i64 = 40;
/// What `n` may be.
pub const NUMBERS: RangeInclusive<i64> = 0..=30;
/// How many tags there are.
const TAGS: u64 = 5;
/// Rows of a COPY, at most.
const COPY_ROWS: u64 = 120;
/// Rows, and keys, of an own table from which on it is emptied, not doubled.
const OWN_ROWS: usize = 400;
const OWN_KEYS: i64 = 1 << 24;

/// A statement about what an owner has.
pub struct Change {
    pub statement: Statement,
    pub expected: Expected,
}

pub enum Statement {
    Sql(String),
    /// Rows for a table by COPY, in some columns: key as it is stored, and the rest.
    Copy {
        name: String,
        columns: Vec<&'static str>,
        rows: Vec<(i64, Row)>,
    },
}

/// What has to come of a statement.
pub enum Expected {
    Done {
        /// How many rows it says it was about, if it says.
        count: Option<u64>,
        /// What the owner has after it.
        after: State,
    },
    /// One of these conditions (SQLSTATE), and nothing has changed.
    Refused(Vec<&'static str>),
}

/// What a statement does to a row.
type Effect<'t> = Box<dyn Fn(&mut Row) + 't>;

/// Draws changes of one owner's rows.
pub struct Drawer<'d> {
    pub tables: Tables,
    pub focus: &'d Focus,
    pub owner: Owner,
    /// What the owner has.
    pub state: &'d State,
    pub random: &'d mut Random,
}

impl Drawer<'_> {
    /// A change of a kind; of any if the kind is none of a change.
    pub fn draw(&mut self, kind: Kind) -> Change {
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
            Kind::Insert => self.insert(),
            Kind::Upsert => self.upsert(),
            Kind::Update => self.update(false),
            Kind::UpdateMany => self.update(true),
            Kind::Delete => self.delete(false),
            Kind::DeleteMany => self.delete(true),
            Kind::Copy => self.copy(),
            Kind::InsertSelect => self.insert_select(),
            Kind::Truncate => self.truncate(),
            _ => {
                let kind = kinds[self.below(kinds.len() as u64) as usize];
                self.draw(kind)
            }
        }
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn table(&mut self) -> TableNumber {
        let own = self.tables.own(self.owner);
        let copy = if self.state.shape.has_copy { self.tables.copy(self.owner) } else { own };
        self.focus.table(self.random, &[WIDE, WIDE, HEAP, own, copy])
    }

    pub fn name(&self, table: TableNumber) -> String {
        self.tables.name(table, &self.state.shape)
    }

    /// Its rows in a table that a filter lets pass.
    pub fn filtered(&self, table: TableNumber, filter: &Filter) -> Vec<i64> {
        self.tables.filtered(table, self.owner, &self.state.rows, filter).map(|(key, _)| key).collect()
    }

    /// A statement that makes `after` of what there is, unless that breaks a constraint.
    pub fn change(&self, statement: Statement, count: Option<usize>, after: State) -> Change {
        let broken = rules::broken(self.tables, self.owner, &after);
        let expected = match broken.is_empty() {
            true => Expected::Done { count: count.map(|count| count as u64), after },
            false => Expected::Refused(broken),
        };
        Change { statement, expected }
    }

    pub fn number(&mut self) -> i64 {
        self.random.range(*NUMBERS.start() as u64..*NUMBERS.end() as u64 + 1) as i64
    }

    fn tag(&mut self) -> String {
        format!("t{}", self.below(TAGS))
    }

    /// A reference to a row of `wide`; now and then one to nothing.
    fn link(&mut self) -> Option<i64> {
        let there = self.filtered(WIDE, &Filter::All);
        let key = match (self.below(8), there.len() as u64) {
            (0..=3, _) => return None,
            (4, _) | (_, 0) => self.below(KEYS as u64) as i64,
            (_, count) => there[self.below(count) as usize],
        };
        Some(self.tables.stored(WIDE, self.owner, key))
    }

    /// What is unique where that is a constraint; now and then what there is already.
    fn pair(&mut self, table: TableNumber) -> (i64, String) {
        let is_unique = table == self.tables.own(self.owner) && self.state.shape.is_unique;
        let keys = if is_unique && self.random.chance(0.1) { self.filtered(table, &Filter::All) } else { Vec::new() };
        match keys.len() as u64 {
            0 => (self.number(), self.tag()),
            count => {
                let row = &self.state.rows[&(table, keys[self.below(count) as usize])];
                (row.n, row.tag.clone())
            }
        }
    }

    /// A new row of a table.
    fn row(&mut self, table: TableNumber) -> Row {
        let (n, tag) = self.pair(table);
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
        let is_own = table == self.tables.own(self.owner);
        let link = if is_own { self.link() } else { None };
        let extras = if is_own { self.state.shape.defaults() } else { Vec::new() };
        Row { n, tag, pad, link, extras }
    }

    fn free_keys(&mut self, table: TableNumber, count: u64, keys: i64) -> Vec<i64> {
        let is_free = |key: &i64| !self.state.rows.contains_key(&(table, *key));
        let mut free: Vec<i64> = (0..keys).filter(is_free).collect();
        self.random.shuffle(&mut free);
        free.truncate(count as usize);
        free
    }

    /// Of the keys of new rows, one that is there already, now and then, if the table does not have keys twice.
    fn taken_key(&mut self, table: TableNumber) -> Option<i64> {
        let is_key = table == WIDE || table == self.tables.own(self.owner);
        let keys = if is_key && self.random.chance(0.15) { self.filtered(table, &Filter::All) } else { Vec::new() };
        let count = keys.len() as u64;
        (count > 0).then(|| keys[self.below(count) as usize])
    }

    /// New rows with their keys, and what there is after them; of which constraint they break, if that is sure.
    fn new_rows(&mut self, table: TableNumber, mut keys: Vec<i64>) -> (Vec<(i64, Row)>, State, Option<Expected>) {
        let taken = self.taken_key(table);
        keys.extend(taken);
        self.random.shuffle(&mut keys);
        let rows: Vec<(i64, Row)> = keys.into_iter().map(|key| (key, self.row(table))).collect();
        let mut after = self.state.clone();
        after.rows.extend(rows.iter().map(|(key, row)| ((table, *key), row.clone())));
        let refused = taken.map(|_| {
            let mut broken = rules::broken(self.tables, self.owner, &after);
            broken.push("23505");
            Expected::Refused(broken)
        });
        (rows, after, refused)
    }

    fn insert(&mut self) -> Change {
        let (table, count) = (self.table(), 1 + self.below(5));
        let keys = self.free_keys(table, count, KEYS);
        if keys.is_empty() {
            return self.delete(true);
        }
        let (rows, after, refused) = self.new_rows(table, keys);
        let values: Vec<String> =
            rows.iter().map(|(key, row)| self.tables.values(table, self.owner, *key, row)).collect();
        let columns = self.tables.columns(table, &self.state.shape).join(", ");
        let text = format!("INSERT INTO {} ({columns}) VALUES {}", self.name(table), values.join(", "));
        let change = self.change(Statement::Sql(text), Some(rows.len()), after);
        Change { expected: refused.unwrap_or(change.expected), ..change }
    }

    /// Which of its rows a statement is about: one, or some.
    fn filter(&mut self, table: TableNumber, many: bool) -> Filter {
        let keys = self.filtered(table, &Filter::All);
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
    pub fn condition(&self, table: TableNumber, filter: &Filter) -> String {
        let condition = self.tables.condition(table, &self.state.shape, filter);
        match self.tables.owner_of(table) {
            Some(_) => condition,
            None if condition.is_empty() => format!(" WHERE owner = {}", self.owner),
            None => format!("{condition} AND owner = {}", self.owner),
        }
    }

    /// What an update sets, and what that does to a row.
    fn effect(&mut self, table: TableNumber) -> (String, Effect<'static>) {
        let (tag, number) = (self.tag(), self.number());
        let n = self.tables.n_column(table, &self.state.shape);
        let is_own = table == self.tables.own(self.owner);
        let state = self.state;
        let extras = if is_own { &state.shape.extras[..] } else { &[] };
        match self.random.below(if is_own { 8 } else { 5 }) {
            0 => (format!("tag = '{tag}'"), Box::new(move |row| row.tag.clone_from(&tag))),
            1 => (format!("{n} = {number}"), Box::new(move |row| row.n = number)),
            2 => (
                format!("{n} = {n} + 7, tag = '{tag}'"),
                Box::new(move |row| (row.n, row.tag) = (row.n + 7, tag.clone())),
            ),
            5 => ("link = NULL".into(), Box::new(|row| row.link = None)),
            6 if !extras.is_empty() => {
                let place = self.random.below(extras.len() as u64) as usize;
                let name = extras[place].name();
                (format!("{name} = {name} + 1"), Box::new(move |row| row.extras[place] += 1))
            }
            _ => (format!("{n} = {n} + 1"), Box::new(|row| row.n += 1)),
        }
    }

    fn update(&mut self, many: bool) -> Change {
        let table = self.table();
        let filter = self.filter(table, many);
        let (set, change) = self.effect(table);
        let concerned = self.filtered(table, &filter);
        let mut after = self.state.clone();
        concerned.iter().for_each(|key| change(after.rows.get_mut(&(table, *key)).expect("it was found there")));
        let text = format!("UPDATE {} SET {set}{}", self.name(table), self.condition(table, &filter));
        self.change(Statement::Sql(text), Some(concerned.len()), after)
    }

    fn delete(&mut self, many: bool) -> Change {
        let table = self.table();
        let filter = self.filter(table, many);
        let concerned = self.filtered(table, &filter);
        let mut after = self.state.clone();
        concerned.iter().for_each(|key| _ = after.rows.remove(&(table, *key)));
        if table == WIDE {
            rules::follow(self.tables, self.owner, &mut after);
        }
        let text = format!("DELETE FROM {}{}", self.name(table), self.condition(table, &filter));
        self.change(Statement::Sql(text), Some(concerned.len()), after)
    }

    fn copy(&mut self) -> Change {
        let (table, count) = (self.table(), 1 + self.below(COPY_ROWS));
        let keys = self.free_keys(table, count, KEYS * 8);
        let (rows, after, refused) = self.new_rows(table, keys);
        let stored = |(key, row): (i64, Row)| (self.tables.stored(table, self.owner, key), row);
        let rows: Vec<(i64, Row)> = rows.into_iter().map(stored).collect();
        let (count, columns) = (rows.len(), self.tables.columns(table, &self.state.shape));
        let change = self.change(Statement::Copy { name: self.name(table), columns, rows }, Some(count), after);
        Change { expected: refused.unwrap_or(change.expected), ..change }
    }

    /// Rows of a table once more, with keys behind all that there are. Into an empty table they go as a load.
    fn insert_select(&mut self) -> Change {
        let (from, to) = (self.table(), self.tables.own(self.owner));
        let there = self.filtered(to, &Filter::All);
        let first = there.last().map_or(0, |last| last + 1);
        if there.len() > OWN_ROWS || first > OWN_KEYS {
            return self.truncate();
        }
        let (shape, has_link) = (&self.state.shape, self.random.chance(0.5));
        let key = match from {
            WIDE => format!("(id - {}) / {}", self.owner, self.tables.owners),
            _ => self.tables.key_column(from).to_owned(),
        };
        let link = match from {
            _ if !has_link => "NULL",
            own if own == to => "link",
            WIDE => "id",
            // A row of the owner's: whether another's is there, nobody knows before.
            _ => &format!("{} * {} + {}", self.tables.key_column(from), self.tables.owners, self.owner),
        };
        let added = self.tables.filtered(from, self.owner, &self.state.rows, &Filter::All).map(|(key, row)| {
            let link = match link {
                "NULL" => None,
                "link" => row.link,
                _ => Some(self.tables.stored(WIDE, self.owner, key)),
            };
            ((to, key + first), Row { link, extras: shape.defaults(), ..row.clone() })
        });
        let added: Vec<_> = added.collect();
        let count = added.len();
        let mut after = self.state.clone();
        after.rows.extend(added);
        let columns = self.tables.columns(to, shape).join(", ");
        let (source, condition) = (self.name(from), self.condition(from, &Filter::All));
        let n = self.tables.n_column(from, shape);
        let text = format!(
            "INSERT INTO {} ({columns}) SELECT {key} + {first}, {n}, tag, pad, {link} FROM {source}{condition}",
            self.name(to)
        );
        self.change(Statement::Sql(text), Some(count), after)
    }

    pub fn truncate(&mut self) -> Change {
        let table = match self.state.shape.has_copy && self.random.chance(0.3) {
            true => self.tables.copy(self.owner),
            false => self.tables.own(self.owner),
        };
        let mut after = self.state.clone();
        after.rows.retain(|(of, _), _| *of != table);
        self.change(Statement::Sql(format!("TRUNCATE {}", self.name(table))), None, after)
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
