//! Statements that alter what an owner's own tables are.

use super::{Change, Drawer, Expected, Statement, rules};
use crate::model::shape::{Constraint, EXTRAS_MAX, Extra, OnDelete, names};
use crate::model::{Row, State};
use crate::script::Kind;
use crate::tables::{Filter, HEAP, WIDE};

/// Numbers of columns that come and go.
const EXTRA_NUMBERS: u64 = 5;

/// Kinds of steps that alter.
pub const KINDS: [Kind; 5] = [Kind::Columns, Kind::Rename, Kind::Constraints, Kind::CreateAs, Kind::Truncate];

impl Drawer<'_> {
    /// An alteration of a kind; of any if the kind is none of an alteration.
    pub fn draw_alteration(&mut self, kind: Kind) -> Change {
        match kind {
            Kind::Columns => self.alter_columns(),
            Kind::Rename => self.rename(),
            Kind::Constraints => self.alter_constraints(),
            Kind::CreateAs => self.create_or_drop(),
            Kind::Truncate => self.truncate(),
            Kind::ColumnType => self.alter_type(),
            _ => {
                let kind = KINDS[self.below(KINDS.len() as u64) as usize];
                self.draw_alteration(kind)
            }
        }
    }

    /// `ALTER TABLE` of its own table.
    fn alter(&self, action: &str, outcome: Result<State, &'static str>) -> Change {
        let text = format!("ALTER TABLE {} {action}", self.state.shape.own_name(self.owner));
        expecting(text, outcome)
    }

    fn alter_columns(&mut self) -> Change {
        let extras = &self.state.shape.extras;
        let has_place = extras.len() < EXTRAS_MAX;
        let any = Extra { number: self.random.below(EXTRA_NUMBERS), default: self.random.below(9) as i64 };
        let mut after = self.state.clone();
        let own = self.tables.own(self.owner);
        if has_place && self.random.chance(0.6) {
            let text = format!("ADD COLUMN {} int DEFAULT {}", any.name(), any.default);
            if extras.contains(&any) {
                return self.alter(&text, Err("42701"));
            }
            after.shape.extras.push(any);
            let of_own = after.rows.iter_mut().filter(|((table, _), _)| *table == own);
            of_own.for_each(|(_, row)| row.extras.push(any.default));
            return self.alter(&text, Ok(after));
        }
        let chosen = match extras.len() as u64 {
            0 => any,
            count => extras[self.random.below(count) as usize],
        };
        let text = format!("DROP COLUMN {}", chosen.name());
        let Some(place) = extras.iter().position(|extra| *extra == chosen) else {
            return self.alter(&text, Err("42703"));
        };
        after.shape.extras.remove(place);
        let of_own = after.rows.iter_mut().filter(|((table, _), _)| *table == own);
        of_own.for_each(|(_, row)| _ = row.extras.remove(place));
        self.alter(&text, Ok(after))
    }

    /// Gives a column another type, in which its values look as before.
    fn alter_type(&mut self) -> Change {
        let n = self.state.shape.n();
        let (column, data_type) =
            [(n, "int"), (n, "bigint"), ("tag", "varchar(60)"), ("tag", "text")][self.below(4) as usize];
        self.alter(&format!("ALTER COLUMN {column} TYPE {data_type}"), Ok(self.state.clone()))
    }

    fn rename(&mut self) -> Change {
        let mut after = self.state.clone();
        let [name, other] = names(self.owner);
        if self.random.chance(0.5) {
            after.shape.is_renamed = !after.shape.is_renamed;
            let to = if after.shape.is_renamed { other } else { name };
            return self.alter(&format!("RENAME TO {to}"), Ok(after));
        }
        after.shape.is_n_renamed = !after.shape.is_n_renamed;
        let text = format!("RENAME COLUMN {} TO {}", self.state.shape.n(), after.shape.n());
        self.alter(&text, Ok(after))
    }

    fn alter_constraints(&mut self) -> Change {
        let there = self.state.shape.constraints();
        let on_delete = OnDelete::ALL[self.below(OnDelete::ALL.len() as u64) as usize];
        let bound = 10 + self.number();
        let constraint = match self.below(3) {
            0 => Constraint::Below(bound),
            1 => Constraint::Unique,
            _ => Constraint::Link(on_delete),
        };
        // One of each sort at once.
        let same = there.iter().find(|one| std::mem::discriminant(*one) == std::mem::discriminant(&constraint));
        let mut after = self.state.clone();
        if let Some(constraint) = same {
            after.shape.set(*constraint, false);
            return self.alter(&format!("DROP CONSTRAINT {}", constraint.name(self.owner)), Ok(after));
        }
        after.shape.set(constraint, true);
        if !rules::broken(self.tables, self.owner, &after).is_empty() && self.random.chance(0.7) {
            return self.clear_way(constraint);
        }
        let (name, n) = (constraint.name(self.owner), self.state.shape.n());
        let what = match constraint {
            Constraint::Below(bound) => format!("CHECK ({n} < {bound})"),
            Constraint::Unique => format!("UNIQUE ({n}, tag)"),
            Constraint::Link(on_delete) => {
                format!("FOREIGN KEY (link) REFERENCES wide (id){}", on_delete.clause())
            }
        };
        let text = format!("ALTER TABLE {} ADD CONSTRAINT {name} {what}", self.state.shape.own_name(self.owner));
        self.change(Statement::Sql(text), None, after)
    }

    /// Changes rows so that a constraint may be added.
    fn clear_way(&self, constraint: Constraint) -> Change {
        let own = self.tables.own(self.owner);
        let mut after = self.state.clone();
        let rows = after.rows.iter_mut().filter(|((table, _), _)| *table == own);
        let (count, n) = (self.filtered(own, &Filter::All).len(), self.state.shape.n());
        let set = match constraint {
            Constraint::Below(_) => {
                rows.for_each(|(_, row)| row.n = 0);
                format!("{n} = 0")
            }
            Constraint::Unique => {
                rows.for_each(|((_, key), row)| row.n = *key);
                format!("{n} = id")
            }
            Constraint::Link(_) => {
                rows.for_each(|(_, row)| row.link = None);
                "link = NULL".to_owned()
            }
        };
        let text = format!("UPDATE {} SET {set}", self.state.shape.own_name(self.owner));
        self.change(Statement::Sql(text), Some(count), after)
    }

    /// Makes a table of a query, or drops it.
    fn create_or_drop(&mut self) -> Change {
        let copy = self.tables.copy(self.owner);
        let (name, is_there) = (self.name(copy), self.state.shape.has_copy);
        let mut after = self.state.clone();
        // Seldom what cannot be.
        if is_there != self.random.chance(0.1) {
            after.shape.has_copy = false;
            after.rows.retain(|(table, _), _| *table != copy);
            return expecting(format!("DROP TABLE {name}"), if is_there { Ok(after) } else { Err("42P01") });
        }
        let from = [WIDE, HEAP, self.tables.own(self.owner)][self.below(3) as usize];
        after.shape.has_copy = true;
        let rows = self.tables.filtered(from, self.owner, &self.state.rows, &Filter::All);
        after.rows.extend(rows.map(|(key, row)| {
            let key = self.tables.stored(from, self.owner, key);
            let row = Row { link: None, extras: Vec::new(), ..row.clone() };
            ((copy, key), row)
        }));
        let (key, n) = (self.tables.key_column(from), self.tables.n_column(from, &self.state.shape));
        let (source, condition) = (self.name(from), self.condition(from, &Filter::All));
        let text = format!("CREATE TABLE {name} AS SELECT {key} AS id, {n} AS n, tag, pad FROM {source}{condition}");
        expecting(text, if is_there { Err("42P07") } else { Ok(after) })
    }
}

fn expecting(text: String, outcome: Result<State, &'static str>) -> Change {
    let expected = match outcome {
        Ok(after) => Expected::Done { count: None, after },
        Err(code) => Expected::Refused(vec![code]),
    };
    Change { statement: Statement::Sql(text), expected }
}
