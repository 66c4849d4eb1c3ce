//! TRUNCATE: tables get new, empty trees.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, CascadeOption, TruncateIdentityOption};

use super::trees::{clear_table, free_table};
use saki_catalog::{Catalog, Position, Result, Sequence, SequencePosition, SqlError, Table};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::statement::StatementResult;
use saki_postgres::statement::object_name;
use saki_store::locks::{LockMode, Policy};

struct Truncation {
    tables: Vec<(String, Option<Position>)>,
    if_exists: bool,
    restart: bool,
    cascade: bool,
}

pub async fn truncate(cx: &StatementContext<'_>, truncate: &ast::Truncate) -> Result<StatementResult> {
    if truncate.partitions.is_some() || truncate.on_cluster.is_some() {
        return Err(SqlError::unsupported("TRUNCATE of partitions is not supported"));
    }
    let truncation = Truncation {
        tables: truncate.table_names.iter().map(|target| object_name(&target.name)).collect::<Result<_>>()?,
        if_exists: truncate.if_exists,
        restart: truncate.identity == Some(TruncateIdentityOption::Restart),
        cascade: truncate.cascade == Some(CascadeOption::Cascade),
    };
    let truncation = Arc::new(truncation);
    loop {
        let catalog = cx.generation()?.catalog.clone();
        let tables: Vec<String> = truncation.tables(&catalog)?.into_iter().collect();
        for table in tables.iter().filter_map(|name| catalog.get(name)) {
            cx.transactions.refuse_waiting("TRUNCATE", table).await?;
        }
        // Their rows are not looked at: within a transaction they need not be in their bases.
        let _locked = match cx.transactions.outlives_statement() {
            true => {
                let wanted: Vec<_> = tables.into_iter().map(|name| (name, LockMode::AccessExclusive)).collect();
                cx.transactions.lock_tables(&wanted, Policy::Wait).await?
            }
            false => cx.transactions.alone(tables).await?,
        };
        let truncation = Arc::clone(&truncation);
        if cx.try_change_catalog(move |db| publish(db, &truncation)).await?.is_some() {
            return Ok(StatementResult::done("TRUNCATE TABLE", 0));
        }
    }
}

fn publish(db: &Stoppable<'_>, truncation: &Truncation) -> Result<()> {
    db.write(|writer| {
        for name in truncation.tables(&writer.catalog)? {
            let before = writer.catalog.table(&name)?.clone();
            let mut after = Table::clone(&before);
            clear_table(&writer.catalog, &mut after);
            free_table(writer, &before)?;
            if truncation.restart {
                restart(&mut writer.catalog, &before);
            }
            writer.emptied.push(after.id);
            writer.catalog.put(after);
        }
        Ok(())
    })
}

impl Truncation {
    /// Names of all tables to be emptied: those named, and with CASCADE those that refer to them.
    fn tables(&self, catalog: &Catalog) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        let mut pending = Vec::new();
        for (name, position) in &self.tables {
            if self.if_exists && catalog.kind_of(name).is_none() {
                continue;
            }
            pending.push(catalog.table(name).map_err(|error| error.at(*position))?);
            names.insert(name.clone());
        }
        while let Some(table) = pending.pop() {
            for (other, key) in catalog.referencing(table.id) {
                if names.contains(&other.name) {
                    continue;
                }
                if !self.cascade {
                    return Err(SqlError::unsupported(
                        "cannot truncate a table referenced in a foreign key constraint",
                    )
                    .detail(format!("Table {:?} references {:?} by constraint {:?}.", other.name, table.name, key.name))
                    .hint(format!("Truncate table {:?} at the same time, or use TRUNCATE ... CASCADE.", other.name)));
                }
                names.insert(other.name.clone());
                pending.push(other);
            }
        }
        Ok(names)
    }
}

/// Sequences of a table's columns begin again.
fn restart(catalog: &mut Catalog, table: &Table) {
    let owned: Vec<Sequence> = catalog.owned_sequences(table.id).map(|sequence| Sequence::clone(sequence)).collect();
    for sequence in owned {
        let position = SequencePosition { last_value: sequence.start, is_called: false };
        catalog.put_sequence(Sequence { position, version: sequence.version + 1, ..sequence });
    }
}
