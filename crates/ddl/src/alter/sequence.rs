//! ALTER SEQUENCE.

use crate::create::sequence::set_owner;
use crate::rename;
use saki_catalog::{Result, Sequence, SqlError, undefined};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_postgres::statement::sequence::check;
use saki_postgres::{Action, AlterTable};
use saki_store::locks::{LockMode, Policy};

pub async fn alter_sequence(cx: &StatementContext<'_>, alter: AlterTable) -> Result<()> {
    let mode = match alter.actions.iter().any(|action| matches!(action, Action::Rename(_))) {
        true => LockMode::AccessExclusive,
        false => LockMode::ShareRowExclusive,
    };
    let _locked = cx.transactions.lock_tables(&[(alter.name.name.clone(), mode)], Policy::Wait).await?;
    cx.change_catalog(move |db| publish(db, &alter)).await
}

fn publish(db: &Stoppable<'_>, alter: &AlterTable) -> Result<()> {
    db.write(|writer| {
        for action in &alter.actions {
            let name = &alter.name;
            let found = writer.catalog.sequence(&name.name).ok_or_else(|| undefined(&name.name).at(name.position))?;
            let sequence = Sequence::clone(found);
            match action {
                Action::SetSequence(options) => {
                    let position = db.sequences.take(&sequence);
                    let mut sequence = options.change(Sequence { position, ..sequence })?;
                    check(&sequence)?;
                    set_owner(&writer.catalog, &mut sequence, options)?;
                    writer.catalog.put_sequence(sequence);
                }
                Action::Rename(to) => {
                    rename::rename_sequence(&mut writer.catalog, &sequence, to)?;
                }
                Action::Nothing => {}
                _ => {
                    return Err(SqlError::invalid(format!("{:?} is not a table", name.name))
                        .code("42809")
                        .at(name.position));
                }
            }
        }
        Ok(())
    })
}
