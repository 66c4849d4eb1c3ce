//! The tables that clients share, and how the model's rows look in them.
//!
//! | number | table | primary key | |
//! |---|---|---|---|
//! | 0 | `wide` | `id`: owners' keys lie among each other | in every range there is somebody else's row |
//! | 1 | `heap` | none | a row is found by its owner and `k` |
//! | 2 … | `own_0` … | `id` | of one owner, who may empty it |

use crate::model::{Owner, Row, Rows, TableNumber};
use crate::script::Setup;

pub const WIDE: TableNumber = 0;
pub const HEAP: TableNumber = 1;
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
        0..OWN + self.owners
    }

    /// The table that is one owner's alone.
    pub fn own(self, owner: Owner) -> TableNumber {
        OWN + owner
    }

    pub fn name(self, table: TableNumber) -> String {
        match table {
            WIDE => "wide".into(),
            HEAP => "heap".into(),
            own => format!("own_{}", own - OWN),
        }
    }

    /// Whose rows may lie there; `None`: everybody's.
    pub fn owner_of(self, table: TableNumber) -> Option<Owner> {
        table.checked_sub(OWN)
    }

    /// The column of the key.
    pub fn key_column(self, table: TableNumber) -> &'static str {
        if table == HEAP { "k" } else { "id" }
    }

    /// What lies in it for a key of an owner.
    pub fn stored(self, table: TableNumber, owner: Owner, key: i64) -> i64 {
        if table == WIDE { key * self.owners as i64 + owner as i64 } else { key }
    }

    fn key_of(self, table: TableNumber, stored: i64) -> i64 {
        if table == WIDE { stored.div_euclid(self.owners as i64) } else { stored }
    }

    /// The columns of an insert, in the order of [`Self::values`].
    pub fn columns(self, table: TableNumber) -> &'static str {
        match table {
            WIDE => "id, owner, n, tag, pad",
            HEAP => "k, owner, n, tag, pad",
            _ => "id, n, tag, pad",
        }
    }

    pub fn values(self, table: TableNumber, owner: Owner, key: i64, row: &Row) -> String {
        let (stored, Row { n, tag, pad }) = (self.stored(table, owner, key), row);
        match self.owner_of(table) {
            None => format!("({stored}, {owner}, {n}, '{tag}', '{pad}')"),
            Some(_) => format!("({stored}, {n}, '{tag}', '{pad}')"),
        }
    }

    /// A query whose rows [`Self::row_of`] reads.
    pub fn select(self, table: TableNumber, filter: &Filter) -> String {
        let (key, name, condition) = (self.key_column(table), self.name(table), self.condition(table, filter));
        let owner = self.owner_of(table).map_or("owner".to_owned(), |owner| owner.to_string());
        format!("SELECT {owner}, {key}, n, tag, pad FROM {name}{condition}")
    }

    /// A row of such a query: its owner, its key, and what it holds.
    pub fn row_of(self, table: TableNumber, cells: &[String]) -> Result<(Owner, i64, Row), String> {
        let [owner, stored, n, tag, pad] = cells else { return Err(format!("a row of {} columns", cells.len())) };
        let number = |text: &String| text.parse::<i64>().map_err(|_| format!("{text:?} is no number"));
        let (owner, stored) = (number(owner)? as Owner, number(stored)?);
        let key = self.key_of(table, stored);
        if owner >= self.owners || self.stored(table, owner, key) != stored {
            return Err(format!("a row of owner {owner} with the key {stored}, which is not its own"));
        }
        Ok((owner, key, Row { n: number(n)?, tag: tag.clone(), pad: pad.clone() }))
    }

    /// ` WHERE …`, or nothing.
    pub fn condition(self, table: TableNumber, filter: &Filter) -> String {
        let key = self.key_column(table);
        match filter {
            Filter::All => String::new(),
            Filter::Owner(owner) => match self.owner_of(table) {
                None => format!(" WHERE owner = {owner}"),
                Some(of) => format!(" WHERE {of} = {owner}"),
            },
            Filter::Keys(first, last) if first == last => format!(" WHERE {key} = {first}"),
            Filter::Keys(first, last) => format!(" WHERE {key} BETWEEN {first} AND {last}"),
            Filter::N(first, last) => format!(" WHERE n BETWEEN {first} AND {last}"),
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
                 (id bigint PRIMARY KEY, src int NOT NULL, dst int NOT NULL, amount bigint NOT NULL){with}"
            ),
        ];
        all.extend((0..self.owners).map(|owner| {
            format!("CREATE TABLE IF NOT EXISTS {} (id int PRIMARY KEY, {rest}){with}", self.name(self.own(owner)))
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
