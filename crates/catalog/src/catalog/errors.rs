//! Errors that name a part of a table.

use super::Table;
use crate::error::{Objects, SqlError};

impl SqlError {
    /// Says which constraint of a table is not kept.
    #[must_use]
    pub fn of_constraint(mut self, table: &Table, constraint: &str) -> Self {
        self.objects = Some(Box::new(Objects { constraint: Some(constraint.to_owned()), ..objects_of(table) }));
        self
    }

    /// Says which column of a table has a value that it must not have.
    #[must_use]
    pub fn of_column(mut self, table: &Table, column: &str) -> Self {
        self.objects = Some(Box::new(Objects { column: Some(column.to_owned()), ..objects_of(table) }));
        self
    }
}

fn objects_of(table: &Table) -> Objects {
    Objects { schema: table.schema.clone(), table: table.bare_name().to_owned(), column: None, constraint: None }
}
