//! What a change must not leave behind: views and defaults over relations that are gone.
//!
//! Locks keep whoever names a relation apart from whoever drops or changes it. This is looked at once more when a
//! change is published, with the catalog at hand that it makes: what has come about beside it is in there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use saki_base::TableId;

use super::nextval;
use crate::catalog::{Catalog, Changed, Difference, Sequence, Table, View};
use crate::error::{Result, SqlError};

impl Catalog {
    /// Refuses a change of `before` that leaves a view without what its query names, a default without its sequence, or
    /// a column without its type; `difference` is what it has changed. What lay broken before may stay so.
    ///
    /// # Errors
    /// 40001: somebody else has dropped, changed or named it at the same time.
    pub fn refuse_dangling(&self, before: &Self, difference: &Difference) -> Result<()> {
        let touched = difference.tables.iter().filter_map(|table| table.before.as_ref());
        let touched: BTreeSet<u32> = touched.map(|table| table.id.0).collect();
        let mut concerned = self.concerned(difference).into_iter();
        if let Some((view, lost)) = concerned.find_map(|view| Some((view, self.lost(view, before, &touched)?))) {
            let name = &view.name;
            return Err(conflict(format!("what view {name:?} reads of {lost:?} has been dropped or changed")));
        }
        self.refuse_untyped(before, difference)?;
        self.refuse_undrawable(before, difference)
    }

    /// The views that a change may have taken something from: those that have changed themselves, and those over what
    /// has.
    fn concerned<'c>(&'c self, difference: &'c Difference) -> Vec<&'c View> {
        let tables = difference.tables.iter().filter_map(|table| table.before.as_deref());
        let using = tables.clone().flat_map(|table| self.views_using(table.id));
        let names = tables.map(|table| &*table.name);
        let names = names.chain(difference.views.iter().filter_map(|view| Some(&*view.before.as_deref()?.name)));
        let changed = difference.views.iter().filter_map(|view| view.after.as_ref());
        let all = names.flat_map(|name| self.views_naming(name)).chain(using).chain(changed);
        let by_name: BTreeMap<&str, &View> = all.map(|view| (&*view.name, &**view)).collect();
        by_name.into_values().collect()
    }

    /// A relation that a view is over, and has lost by the change.
    fn lost<'v>(&'v self, view: &'v View, before: &'v Self, touched: &BTreeSet<u32>) -> Option<&'v str> {
        let same = |old: &&Arc<View>| old.id == view.id && old.relations == view.relations && old.uses == view.uses;
        let is_new = before.view(&view.name).filter(same).is_none();
        let is_gone = |name: &&String| !self.has_rows(name) && (is_new || before.has_rows(name));
        if let Some(gone) = view.relations.iter().find(is_gone) {
            return Some(gone);
        }
        view.uses.iter().filter(|(id, _)| is_new || touched.contains(id)).find_map(|(id, columns)| {
            let by_id = |catalog: &'v Self| catalog.table_of(TableId(*id));
            let (old, now) = (by_id(before), by_id(self));
            let type_of = |table: Option<&Arc<Table>>, column| type_of(table?, column);
            let is_lost = |column: &u32| match (type_of(old, *column), type_of(now, *column)) {
                // A new view was planned with what there is now.
                (_, now) if is_new => now.is_none(),
                (old, now) => old.is_some() && now != old,
            };
            let name = || now.or(old).map_or("its tables", |table| &*table.name);
            columns.iter().any(is_lost).then(name)
        })
    }

    /// Whether queries can name it.
    fn has_rows(&self, name: &str) -> bool {
        self.get(name).is_some() || self.view(name).is_some()
    }

    fn refuse_undrawable(&self, before: &Self, difference: &Difference) -> Result<()> {
        let gone = difference.sequences.iter().filter_map(|sequence| self.gone(sequence));
        let gone: BTreeSet<String> = gone.map(|sequence| nextval(&sequence.name)).collect();
        let texts = |table: &Arc<Table>| table.details.iter().filter_map(|d| d.default.clone()).collect::<Vec<_>>();
        if let Some(table) = gone.iter().find_map(|text| self.drawing(text).next()) {
            return Err(undrawable(table));
        }
        for changed in &difference.tables {
            let Some(table) = &changed.after else { continue };
            let known = before.table_of(table.id).map(texts).unwrap_or_default();
            let is_new = |text: &String| !known.contains(text);
            let lacks = |text: String| drawn(&text).is_some_and(|sequence| self.sequence(&sequence).is_none());
            if texts(table).into_iter().filter(is_new).any(lacks) {
                return Err(undrawable(table));
            }
        }
        Ok(())
    }

    /// The sequence that was changed, if no other has its name now.
    fn gone<'s>(&self, changed: &'s Changed<Sequence>) -> Option<&'s Arc<Sequence>> {
        changed.before.as_ref().filter(|before| self.sequence(&before.name).is_none())
    }
}

fn type_of(table: &Table, column: u32) -> Option<saki_base::DataType> {
    table.position_of(column).map(|position| table.columns[position].data_type)
}

/// The sequence that a text draws from, if it is [`nextval`] of one.
fn drawn(text: &str) -> Option<String> {
    let name = text.strip_prefix("nextval('")?.strip_suffix("')")?.replace("''", "'");
    let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name,
    };
    (nextval(&name) == text).then_some(name)
}

fn undrawable(table: &Table) -> SqlError {
    conflict(format!("the sequence that a default of table {:?} draws from has been dropped", table.name))
}

/// 40001.
pub(super) fn conflict(what: String) -> SqlError {
    let message = format!("could not serialize access: {what} meanwhile");
    SqlError::invalid(message).code("40001").hint("repeat the transaction")
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;

    use super::*;
    use crate::fixture::{column, sequence, table, view};

    /// Table `t` with a view over it, a view over that, and a default that draws from sequence `s`.
    fn whole() -> Catalog {
        let mut catalog = Catalog::default();
        let mut t = table("t", vec![column("a", DataType::Int4, false), column("b", DataType::Int4, true)], vec![0]);
        (t.id, t.details[1].default) = (catalog.new_table_id(), Some(nextval("s")));
        let (v, w) = (catalog.new_table_id(), catalog.new_table_id());
        catalog.put_view(View { uses: [(t.id.0, vec![0])].into(), ..view(v, "v", &["t"]) });
        catalog.put_view(View { uses: [(t.id.0, vec![0])].into(), ..view(w, "w", &["v"]) });
        catalog.put(t);
        catalog.put_sequence(sequence(catalog.new_table_id(), "s"));
        catalog
    }

    /// The state that a change ends with; `None` if it is none to refuse.
    fn refused(before: &Catalog, change: impl FnOnce(&mut Catalog)) -> Option<String> {
        let mut after = before.clone();
        change(&mut after);
        let checked = after.refuse_dangling(before, &after.difference(before));
        checked.err().map(|error| error.sqlstate().to_owned())
    }

    fn altered(catalog: &mut Catalog, change: impl FnOnce(&mut Table)) {
        let mut table = Table::clone(catalog.get("t").unwrap());
        change(&mut table);
        catalog.put(table);
    }

    #[test]
    fn views_keep_what_they_are_over() {
        let catalog = whole();
        let conflict = Some("40001".to_owned());
        assert_eq!(refused(&catalog, |catalog| drop(catalog.remove("t"))), conflict);
        assert_eq!(refused(&catalog, |catalog| drop(catalog.remove_view("v"))), conflict);
        assert_eq!(refused(&catalog, |catalog| drop(catalog.remove_view("w"))), None);
        let all = |catalog: &mut Catalog| {
            catalog.remove_view("w");
            catalog.remove_view("v");
            catalog.remove("t");
        };
        assert_eq!(refused(&catalog, all), None);
        let lose = |position: usize| {
            move |table: &mut Table| {
                table.columns.remove(position);
                table.details.remove(position);
            }
        };
        assert_eq!(refused(&catalog, |catalog| altered(catalog, lose(0))), conflict, "it is used");
        assert_eq!(refused(&catalog, |catalog| altered(catalog, lose(1))), None, "it is not");
        let retype = |position: usize| move |table: &mut Table| table.columns[position].data_type = DataType::Int8;
        assert_eq!(refused(&catalog, |catalog| altered(catalog, retype(0))), conflict);
        assert_eq!(refused(&catalog, |catalog| altered(catalog, retype(1))), None);
        let again = |catalog: &mut Catalog| {
            let id = catalog.new_table_id();
            altered(catalog, |table| table.id = id);
        };
        assert_eq!(refused(&catalog, again), conflict, "another table has its name");
    }

    #[test]
    fn a_new_view_is_over_what_there_is() {
        let catalog = whole();
        let add = |relations: &'static [&'static str], uses: &'static [(u32, u32)]| {
            move |catalog: &mut Catalog| {
                let uses = uses.iter().map(|(table, column)| (*table, vec![*column])).collect();
                let view = View { uses, ..view(catalog.new_table_id(), "new", relations) };
                catalog.put_view(view);
            }
        };
        let id = catalog.get("t").unwrap().id.0;
        assert_eq!(id, 1);
        let conflict = Some("40001".to_owned());
        assert_eq!(refused(&catalog, add(&["t"], &[(1, 1)])), None);
        assert_eq!(refused(&catalog, add(&["t"], &[(1, 2)])), conflict, "no such column");
        assert_eq!(refused(&catalog, add(&["gone"], &[])), conflict);
        assert_eq!(refused(&catalog, add(&["t"], &[(77, 0)])), conflict, "no such table");
    }

    /// It came to be before anybody looked; who changes something else is not told of it.
    #[test]
    fn what_was_broken_before_is_passed_by() {
        let mut catalog = whole();
        catalog.remove("t");
        assert_eq!(refused(&catalog, |catalog| drop(catalog.remove_view("w"))), None);
        let say = |catalog: &mut Catalog| {
            let view = View::clone(catalog.view("v").unwrap());
            catalog.put_view(View { comment: Some("broken".to_owned()), ..view });
        };
        assert_eq!(refused(&catalog, say), None);
    }

    #[test]
    fn defaults_keep_their_sequences() {
        let catalog = whole();
        let conflict = Some("40001".to_owned());
        assert_eq!(refused(&catalog, |catalog| drop(catalog.remove_sequence("s"))), conflict);
        let both = |catalog: &mut Catalog| {
            catalog.remove_sequence("s");
            altered(catalog, |table| table.details[1].default = None);
        };
        assert_eq!(refused(&catalog, both), None);
        let draw = |text: &'static str| {
            move |catalog: &mut Catalog| altered(catalog, |table| table.details[0].default = Some(text.to_owned()))
        };
        assert_eq!(refused(&catalog, draw("nextval('none')")), conflict);
        for known in ["nextval('s')", "nextval('none') + 1", "7"] {
            assert_eq!(refused(&catalog, draw(known)), None, "{known}");
        }
    }

    #[test]
    fn names_are_read_back_from_what_draws_from_them() {
        for name in ["s", "x.s", "1a", "S", "it's", "a\"b", "", "x.Odd's"] {
            assert_eq!(drawn(&nextval(name)).as_deref(), Some(name));
        }
        for text in ["", "nextval('a', 'b')", "nextval(x)", "nextval('\"s\"')", "nextval('s') + 1"] {
            assert_eq!(drawn(text), None, "{text}");
        }
    }
}
