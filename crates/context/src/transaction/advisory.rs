//! Advisory locks: `pg_advisory_lock`, `pg_try_advisory_lock`, `pg_advisory_unlock` and their like.
//!
//! Those with `xact` in their names go with the transaction. A query that is a transaction by itself lets them go at
//! once: nothing of it comes after.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, StringArray};
use arrow_schema::DataType;
use async_trait::async_trait;
use datafusion::common::{Result, exec_err};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use saki_catalog::SqlError;
use saki_store::locks::{AdvisoryKey, LockMark, Policy, Requested};
use tokio::sync::Mutex;

use super::locking::SessionLocks;
use super::shared::SessionTransactions;
use super::state::Transactions;

/// What a function does; those that wait run on their own, so that nobody else's thread waits with them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Action {
    Lock { shared: bool, of_transaction: bool },
    Try { shared: bool, of_transaction: bool },
    Unlock { shared: bool },
    UnlockAll,
}

const FUNCTIONS: [(&str, Action); 11] = [
    ("pg_advisory_lock", Action::Lock { shared: false, of_transaction: false }),
    ("pg_advisory_lock_shared", Action::Lock { shared: true, of_transaction: false }),
    ("pg_advisory_xact_lock", Action::Lock { shared: false, of_transaction: true }),
    ("pg_advisory_xact_lock_shared", Action::Lock { shared: true, of_transaction: true }),
    ("pg_try_advisory_lock", Action::Try { shared: false, of_transaction: false }),
    ("pg_try_advisory_lock_shared", Action::Try { shared: true, of_transaction: false }),
    ("pg_try_advisory_xact_lock", Action::Try { shared: false, of_transaction: true }),
    ("pg_try_advisory_xact_lock_shared", Action::Try { shared: true, of_transaction: true }),
    ("pg_advisory_unlock", Action::Unlock { shared: false }),
    ("pg_advisory_unlock_shared", Action::Unlock { shared: true }),
    ("pg_advisory_unlock_all", Action::UnlockAll),
];

impl SessionTransactions {
    /// Gives a session's queries the functions.
    pub fn register(&self, context: &SessionContext) {
        for (name, action) in FUNCTIONS {
            let (locks, state) = (Arc::clone(&self.locks), self.state());
            let function = Advisory { name, action, signature: action.signature(), locks, state };
            context.register_udf(match action {
                Action::Lock { .. } => AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf(),
                _ => ScalarUDF::from(function),
            });
        }
    }

    /// Lets all advisory locks of the session go: DISCARD ALL.
    pub fn release_advisory(&self) {
        self.locks.owner.release_all_advisory();
    }
}

impl Action {
    fn signature(self) -> Signature {
        let arguments = match self {
            Self::UnlockAll => TypeSignature::Nullary,
            _ => TypeSignature::OneOf(vec![
                TypeSignature::Exact(vec![DataType::Int64]),
                // Numbers that are written are wide here; they have to fit 32 bits.
                TypeSignature::Exact(vec![DataType::Int64, DataType::Int64]),
            ]),
        };
        Signature::new(arguments, Volatility::Volatile)
    }
}

struct Advisory {
    name: &'static str,
    action: Action,
    signature: Signature,
    locks: Arc<SessionLocks>,
    state: Arc<Mutex<Transactions>>,
}

impl Advisory {
    /// Asks for a lock.
    fn ask(&self, key: AdvisoryKey, shared: bool, of_transaction: bool, policy: Policy) -> Result<Requested> {
        // A change that is under way has the transaction to itself: it asks for itself.
        let me = self.state.try_lock().ok().and_then(|mut transactions| transactions.holder());
        Ok(self.locks.owner.lock_advisory(key, shared, !of_transaction, policy, me)?)
    }

    /// Lets go of what was taken after a mark, if it is a transaction's that is only this query.
    fn let_go_of_query(&self, mark: LockMark, of_transaction: bool) {
        if of_transaction && self.state.try_lock().is_ok_and(|transactions| !transactions.is_open()) {
            self.locks.owner.release_to(mark);
        }
    }

    async fn lock(&self, key: AdvisoryKey, shared: bool, of_transaction: bool) -> Result<()> {
        let mark = self.locks.owner.mark();
        if let Requested::Waiting(wait) = self.ask(key, shared, of_transaction, Policy::Wait)? {
            self.locks.patiently(wait).await?;
        }
        self.let_go_of_query(mark, of_transaction);
        Ok(())
    }

    /// What a function that does not wait gives for a row.
    fn answer(&self, key: AdvisoryKey) -> Result<bool> {
        match self.action {
            Action::Try { shared, of_transaction } => {
                let mark = self.locks.owner.mark();
                let requested = self.ask(key, shared, of_transaction, Policy::Now)?;
                self.let_go_of_query(mark, of_transaction);
                Ok(matches!(requested, Requested::Granted))
            }
            Action::Unlock { shared } => Ok(self.locks.owner.release_advisory(key, shared)),
            Action::Lock { .. } | Action::UnlockAll => exec_err!("{} takes no key, or waits", self.name),
        }
    }
}

/// The keys of a function's rows; `None` where an argument is NULL.
fn keys(args: &ScalarFunctionArgs) -> Result<Vec<Option<AdvisoryKey>>> {
    let arrays = args.args.iter().map(|value| value.to_array(args.number_rows)).collect::<Result<Vec<ArrayRef>>>()?;
    let key = |row: usize| {
        if arrays.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let number = |at: usize| arrays[at].as_primitive::<Int64Type>().value(row);
        let half =
            |at: usize| i32::try_from(number(at)).map_err(|_| SqlError::invalid("integer out of range").code("22003"));
        Ok(Some(match arrays.len() {
            1 => AdvisoryKey::One(number(0)),
            _ => AdvisoryKey::Two(half(0)?, half(1)?),
        }))
    };
    (0..args.number_rows).map(key).collect()
}

/// PostgreSQL's `void`, as clients are shown it.
fn nothing(rows: impl Iterator<Item = bool>) -> ColumnarValue {
    let empty: StringArray = rows.map(|is_there| is_there.then_some("")).collect();
    ColumnarValue::Array(Arc::new(empty))
}

impl ScalarUDFImpl for Advisory {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.action {
            Action::Lock { .. } | Action::UnlockAll => DataType::Utf8,
            Action::Try { .. } | Action::Unlock { .. } => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.action == Action::UnlockAll {
            self.locks.owner.release_all_advisory();
            return Ok(nothing((0..args.number_rows).map(|_| true)));
        }
        let answers = keys(&args)?.into_iter().map(|key| key.map(|key| self.answer(key)).transpose());
        Ok(ColumnarValue::Array(Arc::new(answers.collect::<Result<BooleanArray>>()?)))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Advisory {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let keys = keys(&args)?;
        if let Action::Lock { shared, of_transaction } = self.action {
            for key in keys.iter().flatten() {
                self.lock(*key, shared, of_transaction).await?;
            }
        }
        Ok(nothing(keys.iter().map(Option::is_some)))
    }
}

impl fmt::Debug for Advisory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advisory").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for Advisory {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.locks, &other.locks)
    }
}

impl Eq for Advisory {}

impl Hash for Advisory {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
