//! Changes of what everybody uses.

use saki_base::Random;
use saki_sql::SqlError;

use crate::script::Kind;
use crate::tables::focus::Focus;
use crate::tables::{create_index, drop_index, toggle_constraint};

/// Columns that come and go.
const EXTRAS: u64 = 3;

/// Kinds of changes of what everybody uses.
pub const SHARED: [Kind; 5] =
    [Kind::CreateIndex, Kind::DropIndex, Kind::AddColumn, Kind::DropColumn, Kind::SharedConstraint];

/// Such a change.
pub fn shared_alteration(focus: &Focus, kind: Kind, random: &mut Random) -> String {
    loop {
        let text = any_alteration(kind, random);
        // An index that is dropped does not say of which table it was.
        if kind == Kind::DropIndex || focus.takes(random, &text) {
            return text;
        }
    }
}

fn any_alteration(kind: Kind, random: &mut Random) -> String {
    let (number, column) = (random.below(8) as usize, random.below(EXTRAS));
    match kind {
        Kind::CreateIndex => create_index(number),
        Kind::DropIndex => drop_index(number),
        Kind::AddColumn => {
            let table = any_shared(random);
            format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS extra_{column} int DEFAULT {column}")
        }
        Kind::DropColumn => format!("ALTER TABLE {} DROP COLUMN IF EXISTS extra_{column}", any_shared(random)),
        _ => toggle_constraint(number, random.chance(0.6)),
    }
}

/// Whether somebody else was there first with a change of what everybody uses.
pub fn is_taken(error: &SqlError) -> bool {
    ["42P07", "42701", "42703", "42704", "42710"].contains(&error.sqlstate())
}

fn any_shared(random: &mut Random) -> &'static str {
    ["wide", "heap", "account", "ledger"][random.below(4) as usize]
}
