//! The devices of a database, while it is used: `CALL saki.add_device(path [, size] [, class])`,
//! `CALL saki.drain_device(device)`, `CALL saki.remove_device(device)`, `CALL saki.set_tier_policy(policy)`.

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value};
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::access::expect_superuser;
use saki_context::statement::StatementResult;
use saki_plan::parse_size;
use saki_store::{DeviceClass, DeviceSpec, PolicyKind};

/// What is to be done with a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceCall {
    Add(DeviceSpec),
    Drain(String),
    Remove(String),
    /// What chooses the copies on fast devices.
    SetPolicy(PolicyKind),
}

impl DeviceCall {
    /// Reads a call; `None` if it is of another procedure.
    ///
    /// # Errors
    /// 42883 if the arguments are not what the procedure takes.
    pub fn read(call: &Function) -> Result<Option<Self>> {
        let name = call.name.to_string().to_lowercase();
        let Some(procedure) = name.strip_prefix("saki.") else { return Ok(None) };
        if !["add_device", "drain_device", "remove_device", "set_tier_policy"].contains(&procedure) {
            return Ok(None);
        }
        let mut texts = texts(call).ok_or_else(|| refused(&name))?.into_iter();
        let first = texts.next().ok_or_else(|| refused(&name))?;
        let read = match procedure {
            "add_device" => Self::Add(spec(first, &mut texts).ok_or_else(|| refused(&name))?),
            "drain_device" => Self::Drain(first),
            "set_tier_policy" => {
                Self::SetPolicy(first.parse().map_err(|error: String| SqlError::invalid(error).code("22023"))?)
            }
            _ => Self::Remove(first),
        };
        if texts.next().is_some() {
            return Err(refused(&name));
        }
        Ok(Some(read))
    }
}

/// Path, then a size or a class or both, in this order.
fn spec(path: String, rest: &mut impl Iterator<Item = String>) -> Option<DeviceSpec> {
    let mut spec = DeviceSpec { path: path.into(), bytes: None, class: DeviceClass::Standard };
    let mut next = rest.next();
    if let Some(bytes) = next.as_deref().and_then(parse_size) {
        (spec.bytes, next) = (Some(bytes as u64), rest.next());
    }
    if let Some(text) = next {
        spec.class = text.parse().ok()?;
    }
    Some(spec)
}

fn refused(name: &str) -> SqlError {
    SqlError::invalid(format!("{name} does not take these arguments")).code("42883").hint(
        "saki.add_device('path' [, 'size'] [, 'standard' | 'fast' | 'slow']), saki.drain_device('path or number'), \
         saki.remove_device('path or number'), saki.set_tier_policy('none' | 'static' | 'lru' | 'heat' | 'plan')",
    )
}

/// The arguments, if all are texts or numbers.
pub(super) fn texts(call: &Function) -> Option<Vec<String>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let text = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) | Value::Number(text, _) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    list.args.iter().map(text).collect()
}

/// Carries a call out. Waits for as long as chunks move; others go on reading and writing.
pub async fn change_devices(cx: &StatementContext<'_>, call: DeviceCall) -> Result<StatementResult> {
    expect_superuser(cx, "change the devices of the database")?;
    cx.transactions.outside_of_block("a change of the database's devices")?;
    if let DeviceCall::Add(spec) = &call {
        // A session that may not write a file does not make it a device either.
        cx.files.to_write(&spec.path.display().to_string())?;
    }
    let done = cx.db.blocking(move |db| match call {
        DeviceCall::Add(spec) => db.add_device(&spec).map(drop),
        DeviceCall::Drain(device) => db.drain_device(&device).map(drop),
        DeviceCall::Remove(device) => db.remove_device(&device),
        DeviceCall::SetPolicy(kind) => db.set_tier_policy(kind),
    });
    done.await?;
    Ok(StatementResult::done("CALL", 0))
}
