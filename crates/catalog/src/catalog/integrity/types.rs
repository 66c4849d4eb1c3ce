//! The columns that are of an enumeration, and their types.
//!
//! A column's type says which enumeration it is; what its labels are is the catalog's to say. Whoever reads a table
//! finds both: a table that is put here, or whose enumeration changes, gets its columns' types in the state of this
//! catalog.

use std::sync::Arc;

use saki_base::{Column, DataType, TableId};

use super::dangling::conflict;
use crate::catalog::{Catalog, Difference, EnumType, Table, View};
use crate::error::{Result, SqlError};

impl Catalog {
    pub fn enum_types(&self) -> impl Iterator<Item = &Arc<EnumType>> {
        self.enum_types.values()
    }

    /// The enumeration of a name as [`EnumType::name`].
    pub fn enum_type(&self, name: &str) -> Option<&Arc<EnumType>> {
        self.enum_types.get(name)
    }

    /// The enumeration that a column's type names.
    pub fn enum_type_of(&self, id: TableId) -> Option<&Arc<EnumType>> {
        self.enum_types.values().find(|of| of.id == id)
    }

    pub fn put_enum_type(&mut self, of: EnumType) {
        self.put_shared_enum_type(Arc::new(of));
    }

    pub(crate) fn put_shared_enum_type(&mut self, of: Arc<EnumType>) {
        let state = of.state();
        self.enum_types.insert(of.name.clone(), of);
        let is_other = |found: DataType| matches!(found, DataType::Enum(of) if of == state && !of.is_same_state(state));
        let has = |table: &Table| table.columns.iter().any(|column| is_other(column.data_type));
        let tables: Vec<_> = self.tables.values().filter(|table| has(table)).map(Arc::clone).collect();
        tables.into_iter().for_each(|table| self.put_table(table));
        let has = |view: &View| view.columns.iter().filter_map(|column| column.data_type).any(is_other);
        let views: Vec<_> = self.views.values().filter(|view| has(view)).map(Arc::clone).collect();
        views.into_iter().for_each(|view| self.put_shared_view(view));
    }

    pub fn remove_enum_type(&mut self, name: &str) -> Option<Arc<EnumType>> {
        self.enum_types.remove(name)
    }

    /// A column's type in the state of this catalog; `None`: it is so already.
    fn stale(&self, data_type: DataType) -> Option<DataType> {
        let DataType::Enum(of) = data_type else { return None };
        let state = self.enum_type_of(TableId(of.id()))?.state();
        (!state.is_same_state(of)).then_some(DataType::Enum(state))
    }

    /// A table whose columns' types are in the state of this catalog.
    pub(crate) fn bound(&self, table: Arc<Table>) -> Arc<Table> {
        if table.columns.iter().all(|column| self.stale(column.data_type).is_none()) {
            return table;
        }
        let mut table = Arc::unwrap_or_clone(table);
        for column in &mut table.columns {
            column.data_type = self.stale(column.data_type).unwrap_or(column.data_type);
        }
        Arc::new(table)
    }

    /// The same of a view.
    pub(crate) fn bound_view(&self, view: Arc<View>) -> Arc<View> {
        if view.columns.iter().filter_map(|column| column.data_type).all(|of| self.stale(of).is_none()) {
            return view;
        }
        let mut view = Arc::unwrap_or_clone(view);
        for data_type in view.columns.iter_mut().filter_map(|column| column.data_type.as_mut()) {
            *data_type = self.stale(*data_type).unwrap_or(*data_type);
        }
        Arc::new(view)
    }

    /// Refuses a change of `before` that gives a name to a type that another has, or leaves a column without its type.
    ///
    /// # Errors
    /// 42710 and 40001: somebody else has made or dropped a type at the same time.
    pub(super) fn refuse_untyped(&self, before: &Self, difference: &Difference) -> Result<()> {
        let made = difference.enum_types.iter().filter(|of| of.before.is_none()).filter_map(|of| of.after.as_ref());
        if let Some(of) = made.into_iter().find(|of| before.enum_type(&of.name).is_some()) {
            return Err(SqlError::invalid(format!("type {:?} already exists", of.name)).code("42710"));
        }
        let lacks = |column: &Column| match column.data_type {
            DataType::Enum(of) => self.enum_type_of(TableId(of.id())).is_none(),
            _ => false,
        };
        let changed = difference.tables.iter().filter_map(|table| table.after.as_ref());
        // Of a type that goes anybody may have made a column.
        let goes = difference.enum_types.iter().any(|of| of.after.is_none());
        let all = self.tables().filter(|_| goes).chain(changed);
        match all.into_iter().find_map(|table| Some((table, table.columns.iter().find(|column| lacks(column))?))) {
            None => Ok(()),
            Some((table, column)) => Err(conflict(format!(
                "the type of column {:?} of table {:?} has been dropped",
                column.name, table.name
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use saki_base::types::enumeration::STEP;

    use super::*;
    use crate::PUBLIC;
    use crate::fixture::{column, table};

    fn mood(labels: &[&str]) -> EnumType {
        let labels = EnumType::numbered(labels.iter().map(|label| (*label).to_owned()).collect());
        EnumType { id: TableId(3), name: "mood".into(), schema: PUBLIC.into(), labels }
    }

    #[test]
    fn columns_have_the_labels_that_the_catalog_has_now() {
        let mut catalog = Catalog::default();
        catalog.put_enum_type(mood(&["sad"]));
        let of = DataType::Enum(mood(&["sad"]).state());
        catalog.put(table("t", vec![column("m", of, true)], Vec::new()));
        let label = |catalog: &Catalog| match catalog.get("t").unwrap().columns[0].data_type {
            DataType::Enum(of) => of.label(STEP),
            _ => None,
        };
        let before = catalog.clone();
        let mut renamed = mood(&["sad"]);
        renamed.rename("sad", "blue").unwrap();
        catalog.put_enum_type(renamed);
        assert_eq!((label(&before), label(&catalog)), (Some("sad"), Some("blue")));
        let again = Catalog::from_documents(catalog.documents().unwrap()).unwrap();
        assert_eq!(label(&again), Some("blue"));
    }

    #[test]
    fn a_column_is_not_left_without_its_type() {
        let refused = |change: &dyn Fn(&mut Catalog), own: &dyn Fn(&mut Catalog)| {
            let mut before = Catalog::default();
            before.put_enum_type(mood(&["sad"]));
            // What the change was made of, and what has been published since.
            let (mut newest, mut after) = (before.clone(), before.clone());
            own(&mut after);
            let difference = after.difference(&before);
            change(&mut newest);
            let published = newest.clone();
            newest.change_by(&difference);
            newest.refuse_dangling(&published, &difference).err().map(|error| error.sqlstate().to_owned())
        };
        let of = DataType::Enum(mood(&["sad"]).state());
        let make = |catalog: &mut Catalog| catalog.put(table("t", vec![column("m", of, true)], Vec::new()));
        let remove = |catalog: &mut Catalog| drop(catalog.remove_enum_type("mood"));
        assert_eq!(refused(&remove, &make).as_deref(), Some("40001"));
        assert_eq!(refused(&make, &remove).as_deref(), Some("40001"));
        assert_eq!(refused(&|_| (), &make), None);
        let other = |catalog: &mut Catalog| catalog.put_enum_type(EnumType { name: "hue".into(), ..mood(&["red"]) });
        assert_eq!(refused(&other, &other).as_deref(), Some("42710"));
    }

    #[test]
    fn a_document_whose_labels_are_out_of_order_is_corrupt() {
        let mut catalog = Catalog::default();
        let mut mood = mood(&["sad", "ok"]);
        mood.labels.swap(0, 1);
        catalog.put_enum_type(mood);
        let read = Catalog::from_documents(catalog.documents().unwrap());
        assert_eq!(read.unwrap_err().sqlstate(), "XX001");
    }
}
