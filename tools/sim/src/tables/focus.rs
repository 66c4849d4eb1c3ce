//! What a seed is mostly about: a table or two, and one way to rows. Who changes a table, who reads it and who alters
//! it meet there again and again; spread over all tables and ways, two of them seldom do, and three never.

use saki_base::Random;

use super::{HEAP, SHARED, Tables, WIDE};
use crate::model::{Owner, TableNumber};

/// How many seeds have one.
const SHARE: f64 = 0.5;
/// How often it counts, in a seed that has one.
const OFTEN: f64 = 0.85;
/// Ways to tables' rows.
pub const PATHS: [&str; 5] = ["auto", "rows", "columns", "index", "scan"];

/// Tables and a way that are taken more often than others; or none.
#[derive(Clone, Default, Debug)]
pub struct Focus {
    tables: Vec<TableNumber>,
    path: Option<&'static str>,
}

impl Focus {
    pub fn draw(random: &mut Random, tables: Tables) -> Self {
        if !random.chance(SHARE) {
            return Self::default();
        }
        let mut focus = vec![[WIDE, WIDE, HEAP][random.below(3) as usize]];
        if random.chance(0.5) {
            focus.push(tables.own(random.below(tables.owners as u64) as Owner));
        }
        let path = [PATHS[random.below(PATHS.len() as u64) as usize], "columns"][random.below(2) as usize];
        Self { tables: focus, path: random.chance(0.8).then_some(path) }
    }

    pub fn on(tables: Vec<TableNumber>, path: Option<&'static str>) -> Self {
        Self { tables, path }
    }

    /// All tables that it is about, in any order.
    pub fn all(&self, random: &mut Random) -> Vec<TableNumber> {
        let mut all = self.tables.clone();
        random.shuffle(&mut all);
        all
    }

    /// One of these tables.
    pub fn table(&self, random: &mut Random, among: &[TableNumber]) -> TableNumber {
        let within: Vec<TableNumber> = among.iter().copied().filter(|table| self.tables.contains(table)).collect();
        let counts = !within.is_empty() && random.chance(OFTEN);
        let among = if counts { &within } else { among };
        among[random.below(among.len() as u64) as usize]
    }

    pub fn path(&self, random: &mut Random) -> &'static str {
        match self.path {
            Some(path) if random.chance(OFTEN) => path,
            _ => PATHS[random.below(PATHS.len() as u64) as usize],
        }
    }

    /// Whether an alteration of a shared table is taken that was drawn.
    pub fn takes(&self, random: &mut Random, statement: &str) -> bool {
        let is_about = |name: &str| statement.split(' ').any(|word| word == name);
        let mut shared = self.tables.iter().filter_map(|number| SHARED.get(*number));
        shared.all(|name| is_about(name)) || !random.chance(OFTEN)
    }
}
