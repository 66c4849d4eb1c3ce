//! What the backslash commands show of tables and indexes.

use std::io;

use saki::Database;

use super::state::State;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{Align, Grid};
use crate::cli::{progress, size};

/// `\dt`: tables with their sizes.
pub fn tables(state: &State<'_>) -> Outcome {
    let database = state.session.database();
    let generation = database.generation();
    let mut grid = Grid::new([
        ("Table", Align::Left),
        ("Rows", Align::Right),
        ("Size", Align::Right),
        ("Indexes", Align::Right),
        ("Index size", Align::Right),
    ]);
    let mut count = 0;
    for table in generation.catalog.tables() {
        let index_pages: u64 = table.indexes.iter().map(|index| index.root.pages()).sum();
        grid.row([
            table.name.clone(),
            table.root.entries.to_string(),
            pages(database, table.root.pages()),
            table.indexes.len().to_string(),
            pages(database, index_pages),
        ]);
        count += 1;
    }
    write(grid, count, "there are no tables yet; CREATE TABLE makes one")
}

/// `\di`: indexes with their columns.
pub fn indexes(state: &State<'_>) -> Outcome {
    let database = state.session.database();
    let generation = database.generation();
    let mut grid =
        Grid::new([("Index", Align::Left), ("Table", Align::Left), ("Columns", Align::Left), ("Size", Align::Right)]);
    let mut count = 0;
    for table in generation.catalog.tables() {
        let key = format!("{} (primary key)", table.names(&table.key_columns()));
        grid.row([table.primary_key_name(), table.name.clone(), key, pages(database, table.root.pages())]);
        for index in &table.indexes {
            let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
            grid.row([
                index.name.clone(),
                table.name.clone(),
                table.names(&columns),
                pages(database, index.root.pages()),
            ]);
            count += 1;
        }
        count += 1;
    }
    write(grid, count, "there are no indexes yet; CREATE INDEX makes one")
}

/// `\d name`: columns and indexes of a table.
pub fn table(state: &State<'_>, name: &str) -> Outcome {
    let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => name.to_lowercase(),
    };
    let database = state.session.database();
    let generation = database.generation();
    let Some(table) = generation.catalog.get(&name) else {
        return Err(Failure::new(format!("there is no table {name:?}; \\dt lists the tables")));
    };
    say!("Table {}", table.name);
    let mut grid = Grid::new([("Column", Align::Left), ("Type", Align::Left), ("Nullable", Align::Left)]);
    for column in table.visible() {
        let nullable = if column.nullable { "" } else { "not null" };
        grid.row([column.name.clone(), column.data_type.to_string(), nullable.to_owned()]);
    }
    grid.write(&mut io::stdout().lock())?;
    say!("Indexes:");
    if !table.primary_key.is_empty() {
        say!("    {} PRIMARY KEY ({})", table.primary_key_name(), table.names(&table.primary_key));
    }
    for index in &table.indexes {
        let columns: Vec<String> = index
            .columns
            .iter()
            .map(|c| format!("{}{}", table.column_type(c.column).0, if c.descending { " DESC" } else { "" }))
            .collect();
        let unique = if index.unique { " UNIQUE" } else { "" };
        let include = if index.include.is_empty() {
            String::new()
        } else {
            format!(" INCLUDE ({})", table.names(&index.include))
        };
        let condition = index.predicate(table).map(|condition| format!(" WHERE {condition}")).unwrap_or_default();
        say!("    {}{unique} ({}){include}{condition}", index.name, columns.join(", "));
    }
    if !table.bloom.is_empty() {
        say!("Bloom filters: {}", table.names(&table.bloom));
    }
    say!(
        "{} rows, {} in {} pages, {} levels; {}\n",
        progress::short(table.root.entries as f64),
        pages(database, table.root.pages()),
        table.root.pages(),
        table.root.height,
        if table.statistics.is_some() { "analyzed" } else { "not analyzed" }
    );
    Ok(())
}

fn pages(database: &Database, pages: u64) -> String {
    size::display(pages * database.page_size().bytes() as u64)
}

fn write(mut grid: Grid, count: usize, nothing: &str) -> Outcome {
    if count == 0 {
        say!("{nothing}");
        return Ok(());
    }
    grid.write(&mut io::stdout().lock())?;
    say!("");
    Ok(())
}
