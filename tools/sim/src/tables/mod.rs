//! The tables that clients share, and how the model's rows look in them.
//!
//! | number | table | primary key | |
//! |---|---|---|---|
//! | 0 | `wide` | `id`: owners' keys lie among each other | in every range there is somebody else's row |
//! | 1 | `heap` | none | a row is found by its owner and `k` |
//! | then | `own_0` … | `id` | of one owner, who alters it ([`Shape`]) and may empty it |
//! | then | `copy_0` … | none | of one owner, who makes it of a query and drops it |

pub mod bank;
pub mod focus;
pub mod numbers;

use crate::model::shape::Shape;
use crate::model::{Owner, Row, Rows, TableNumber};
use crate::setup::Setup;

pub const WIDE: TableNumber = 0;
pub const HEAP: TableNumber = 1;
/// Names of the tables that lie before the owners' own.
pub const SHARED: [&str; OWN] = ["wide", "heap"];
/// The first owner's own table.
const OWN: TableNumber = 2;

/// Accounts, and what each begins with.
pub const ACCOUNTS: i64 = 8;
pub const BALANCE: i64 = 100;

/// Indexes that come and go: their tables and columns.
const INDEXES: [(&str, &str); 5] =
    [("wide", "n"), ("wide", "tag, n"), ("heap", "k"), ("heap", "tag"), ("wide", "owner, n DESC")];

/// The tables of so many owners.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    pub owners: usize,
}

impl Tables {
    pub fn all(self) -> impl Iterator<Item = TableNumber> {
        0..OWN + 2 * self.owners
    }

    /// The table that is one owner's alone.
    pub fn own(self, owner: Owner) -> TableNumber {
        OWN + owner
    }

    /// The table that one owner makes of queries.
    pub fn copy(self, owner: Owner) -> TableNumber {
        OWN + self.owners + owner
    }

    /// What it is called, if its owner's tables look so.
    pub fn name(self, table: TableNumber, shape: &Shape) -> String {
        match (table, self.owner_of(table)) {
            (WIDE, _) => "wide".into(),
            (_, Some(owner)) if table == self.own(owner) => shape.own_name(owner),
            (_, Some(owner)) => format!("copy_{owner}"),
            (_, None) => "heap".into(),
        }
    }

    /// Whose rows may lie there; `None`: everybody's.
    pub fn owner_of(self, table: TableNumber) -> Option<Owner> {
        table.checked_sub(OWN).map(|number| number % self.owners)
    }

    fn is_own(self, table: TableNumber) -> bool {
        (OWN..OWN + self.owners).contains(&table)
    }

    /// The column of the key.
    pub fn key_column(self, table: TableNumber) -> &'static str {
        if table == HEAP { "k" } else { "id" }
    }

    /// The column of `n`.
    pub fn n_column(self, table: TableNumber, shape: &Shape) -> &'static str {
        if self.is_own(table) { shape.n() } else { "n" }
    }

    /// What lies in it for a key of an owner.
    pub fn stored(self, table: TableNumber, owner: Owner, key: i64) -> i64 {
        if table == WIDE { key * self.owners as i64 + owner as i64 } else { key }
    }

    fn key_of(self, table: TableNumber, stored: i64) -> i64 {
        if table == WIDE { stored.div_euclid(self.owners as i64) } else { stored }
    }

    /// The columns of an insert, in the order of [`Self::values`].
    pub fn columns(self, table: TableNumber, shape: &Shape) -> Vec<&'static str> {
        match table {
            WIDE => vec!["id", "owner", "n", "tag", "pad"],
            HEAP => vec!["k", "owner", "n", "tag", "pad"],
            own if self.is_own(own) => vec!["id", shape.n(), "tag", "pad", "link"],
            _ => vec!["id", "n", "tag", "pad"],
        }
    }

    pub fn values(self, table: TableNumber, owner: Owner, key: i64, row: &Row) -> String {
        let (stored, Row { n, tag, pad, link, .. }) = (self.stored(table, owner, key), row);
        match self.owner_of(table) {
            None => format!("({stored}, {owner}, {n}, '{tag}', '{pad}')"),
            Some(_) if self.is_own(table) => {
                let link = link.map_or("NULL".to_owned(), |link| link.to_string());
                format!("({stored}, {n}, '{tag}', '{pad}', {link})")
            }
            Some(_) => format!("({stored}, {n}, '{tag}', '{pad}')"),
        }
    }

    /// A query whose rows [`Self::row_of`] reads, by whoever takes its owner's tables to look so.
    pub fn select(self, table: TableNumber, shape: &Shape, filter: &Filter) -> String {
        let (key, name, condition) =
            (self.key_column(table), self.name(table, shape), self.condition(table, shape, filter));
        match self.owner_of(table) {
            None => format!("SELECT owner, {key}, n, tag, pad FROM {name}{condition}"),
            Some(_) => format!("SELECT * FROM {name}{condition}"),
        }
    }

    /// The columns of such a query's rows, as the tables really look.
    pub fn shown(self, table: TableNumber, shape: &Shape) -> Vec<String> {
        if self.is_own(table) {
            return shape.own_columns();
        }
        let columns = match table {
            WIDE => vec!["owner", "id", "n", "tag", "pad"],
            HEAP => vec!["owner", "k", "n", "tag", "pad"],
            _ => self.columns(table, shape),
        };
        columns.into_iter().map(str::to_owned).collect()
    }

    /// With which condition (SQLSTATE) such a query is refused, as the tables really look.
    pub fn refusal(
        self,
        table: TableNumber,
        taken_for: &Shape,
        filter: &Filter,
        shape: &Shape,
    ) -> Option<&'static str> {
        let owner = self.owner_of(table)?;
        if !self.is_own(table) {
            return (!shape.has_copy).then_some("42P01");
        }
        if taken_for.own_name(owner) != shape.own_name(owner) {
            return Some("42P01");
        }
        (matches!(filter, Filter::N(..)) && taken_for.n() != shape.n()).then_some("42703")
    }

    /// A row of such a query: its owner, its key, and what it holds.
    pub fn row_of(self, table: TableNumber, cells: &[String]) -> Result<(Owner, i64, Row), String> {
        let number = |text: &String| text.parse::<i64>().map_err(|_| format!("{text:?} is no number"));
        let (owner, cells) = match (self.owner_of(table), cells) {
            (Some(owner), cells) => (owner, cells),
            (None, [owner, cells @ ..]) => (number(owner)? as Owner, cells),
            (None, []) => return Err("a row without columns".into()),
        };
        let [stored, n, tag, pad, more @ ..] = cells else { return Err(format!("a row of {} columns", cells.len())) };
        let stored = number(stored)?;
        let key = self.key_of(table, stored);
        if owner >= self.owners || self.stored(table, owner, key) != stored {
            return Err(format!("a row of owner {owner} with the key {stored}, which is not its own"));
        }
        let (link, extras) = match more {
            [link, extras @ ..] if !link.is_empty() => (Some(number(link)?), extras),
            [_, extras @ ..] => (None, extras),
            [] => (None, more),
        };
        let extras = extras.iter().map(number).collect::<Result<_, _>>()?;
        Ok((owner, key, Row { n: number(n)?, tag: tag.clone(), pad: pad.clone(), link, extras }))
    }

    /// ` WHERE …`, or nothing.
    pub fn condition(self, table: TableNumber, shape: &Shape, filter: &Filter) -> String {
        let (key, n) = (self.key_column(table), self.n_column(table, shape));
        match filter {
            Filter::All => String::new(),
            Filter::Owner(owner) => match self.owner_of(table) {
                None => format!(" WHERE owner = {owner}"),
                Some(of) => format!(" WHERE {of} = {owner}"),
            },
            Filter::Keys(first, last) if first == last => format!(" WHERE {key} = {first}"),
            Filter::Keys(first, last) => format!(" WHERE {key} BETWEEN {first} AND {last}"),
            Filter::N(first, last) => format!(" WHERE {n} BETWEEN {first} AND {last}"),
            Filter::Tag(tag) => format!(" WHERE tag = '{tag}'"),
        }
    }

    /// Those of an owner's rows in a table that a filter lets pass.
    pub fn filtered<'r>(
        self,
        table: TableNumber,
        owner: Owner,
        rows: &'r Rows,
        filter: &Filter,
    ) -> impl Iterator<Item = (i64, &'r Row)> {
        rows.range((table, i64::MIN)..=(table, i64::MAX))
            .map(|((_, key), row)| (*key, row))
            .filter(move |(key, row)| filter.passes(owner, self.stored(table, owner, *key), row))
    }

    /// What makes the tables.
    pub fn setup(self, setup: &Setup) -> Vec<String> {
        let with = if setup.columns { "" } else { " WITH (columns = off)" };
        let rest = "n bigint NOT NULL, tag text NOT NULL, pad text NOT NULL";
        let mut all = vec![
            format!("CREATE TABLE IF NOT EXISTS wide (id int PRIMARY KEY, owner int NOT NULL, {rest}){with}"),
            format!("CREATE TABLE IF NOT EXISTS heap (k int NOT NULL, owner int NOT NULL, {rest}){with}"),
            format!("CREATE TABLE IF NOT EXISTS account (id int PRIMARY KEY, balance bigint NOT NULL){with}"),
            format!(
                "CREATE TABLE IF NOT EXISTS ledger \
                 (id bigint PRIMARY KEY, src int NOT NULL, dst int NOT NULL, amount bigint NOT NULL, \
                 line bigint GENERATED ALWAYS AS IDENTITY){with}"
            ),
        ];
        all.extend((0..self.owners).map(|owner| {
            let name = Shape::default().own_name(owner);
            format!("CREATE TABLE IF NOT EXISTS {name} (id int PRIMARY KEY, {rest}, link int){with}")
        }));
        if setup.indexes {
            all.extend((0..INDEXES.len()).map(create_index));
        }
        let accounts: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, {BALANCE})")).collect();
        all.push(format!("INSERT INTO account VALUES {} ON CONFLICT (id) DO NOTHING", accounts.join(", ")));
        all
    }
}

pub fn create_index(number: usize) -> String {
    let number = number % INDEXES.len();
    let (table, columns) = INDEXES[number];
    format!("CREATE INDEX IF NOT EXISTS ix_{number} ON {table} ({columns})")
}

/// Constraints of shared tables, which no row breaks, come and go.
pub fn toggle_constraint(number: usize, is_added: bool) -> String {
    let all = [("wide", "CHECK (n >= 0)"), ("wide", "UNIQUE (owner, id)"), ("heap", "UNIQUE (k, owner)")];
    let (table, what) = all[number % all.len()];
    match is_added {
        true => format!("ALTER TABLE {table} ADD CONSTRAINT fair_{number} {what}"),
        false => format!("ALTER TABLE {table} DROP CONSTRAINT IF EXISTS fair_{number}"),
    }
}

pub fn drop_index(number: usize) -> String {
    format!("DROP INDEX IF EXISTS ix_{}", number % INDEXES.len())
}

/// Which rows a statement is about.
#[derive(Clone, Debug)]
pub enum Filter {
    All,
    Owner(Owner),
    /// Of these keys as they are stored, whoever's.
    Keys(i64, i64),
    N(i64, i64),
    Tag(String),
}

impl Filter {
    fn passes(&self, owner: Owner, stored: i64, row: &Row) -> bool {
        match self {
            Self::All => true,
            Self::Owner(of) => *of == owner,
            Self::Keys(first, last) => (*first..=*last).contains(&stored),
            Self::N(first, last) => (*first..=*last).contains(&row.n),
            Self::Tag(tag) => *tag == row.tag,
        }
    }
}
