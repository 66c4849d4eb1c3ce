//! What constraints make of an owner's rows.

use std::collections::BTreeSet;

use crate::model::shape::OnDelete;
use crate::model::{Owner, Row, State, TableNumber};
use crate::tables::{Filter, Tables, WIDE};

/// The conditions (SQLSTATE) of the constraints that an owner's rows break.
pub fn broken(tables: Tables, owner: Owner, state: &State) -> Vec<&'static str> {
    let own = || rows_of(tables, owner, state, tables.own(owner));
    let shape = &state.shape;
    let mut broken = Vec::new();
    if shape.below.is_some_and(|bound| own().any(|(_, row)| row.n >= bound)) {
        broken.push("23514");
    }
    let mut pairs = BTreeSet::new();
    if shape.is_unique && !own().all(|(_, row)| pairs.insert((row.n, &row.tag))) {
        broken.push("23505");
    }
    if shape.link.is_some() && !dangling(tables, owner, state).is_empty() {
        broken.push("23503");
    }
    broken
}

/// Rows of `wide` have been deleted: what becomes of those that refer to them.
pub fn follow(tables: Tables, owner: Owner, state: &mut State) {
    let own = tables.own(owner);
    let concerned = dangling(tables, owner, state);
    match state.shape.link {
        Some(OnDelete::Cascade) => concerned.iter().for_each(|key| _ = state.rows.remove(&(own, *key))),
        Some(OnDelete::SetNull) => {
            for key in concerned {
                if let Some(row) = state.rows.get_mut(&(own, key)) {
                    row.link = None;
                }
            }
        }
        Some(OnDelete::Refuse) | None => {}
    }
}

/// Keys of own rows that refer to a row that is not there.
fn dangling(tables: Tables, owner: Owner, state: &State) -> Vec<i64> {
    let there: BTreeSet<i64> =
        rows_of(tables, owner, state, WIDE).map(|(key, _)| tables.stored(WIDE, owner, key)).collect();
    let own = rows_of(tables, owner, state, tables.own(owner));
    own.filter(|(_, row)| row.link.is_some_and(|link| !there.contains(&link))).map(|(key, _)| key).collect()
}

fn rows_of(tables: Tables, owner: Owner, state: &State, table: TableNumber) -> impl Iterator<Item = (i64, &Row)> {
    tables.filtered(table, owner, &state.rows, &Filter::All)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::shape::Constraint;

    const TABLES: Tables = Tables { owners: 2 };

    fn row(n: i64, link: Option<i64>) -> Row {
        Row { n, tag: "t1".into(), pad: String::new(), link, extras: Vec::new() }
    }

    /// Two own rows of owner 1, of which the first refers to its row 3 of `wide`.
    fn state(constraint: Constraint) -> State {
        let own = TABLES.own(1);
        let rows = [((WIDE, 3), row(1, None)), ((own, 0), row(5, Some(7))), ((own, 1), row(5, None))];
        let mut state = State { rows: rows.into(), ..State::default() };
        state.shape.set(constraint, true);
        state
    }

    #[test]
    fn constraints_are_broken_by_what_they_are_against() {
        assert_eq!(broken(TABLES, 1, &State { shape: Default::default(), ..state(Constraint::Unique) }), [""; 0]);
        assert_eq!(broken(TABLES, 1, &state(Constraint::Below(5))), ["23514"]);
        assert_eq!(broken(TABLES, 1, &state(Constraint::Below(6))), [""; 0]);
        assert_eq!(broken(TABLES, 1, &state(Constraint::Unique)), ["23505"]);
        let mut state = state(Constraint::Link(OnDelete::Refuse));
        assert_eq!(broken(TABLES, 1, &state), [""; 0]);
        state.rows.remove(&(WIDE, 3));
        assert_eq!(broken(TABLES, 1, &state), ["23503"]);
    }

    #[test]
    fn rows_follow_those_that_they_refer_to() {
        for (on_delete, left) in [(OnDelete::Cascade, None), (OnDelete::SetNull, Some(row(5, None)))] {
            let mut state = state(Constraint::Link(on_delete));
            state.rows.remove(&(WIDE, 3));
            follow(TABLES, 1, &mut state);
            assert_eq!(state.rows.get(&(TABLES.own(1), 0)), left.as_ref());
            assert_eq!(state.rows.len(), 1 + usize::from(left.is_some()));
        }
    }
}
