//! `nextval`, `currval`, `lastval` and `setval` for the planner.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::session::SessionSequences;

/// Gives a session's queries the functions.
pub fn register(context: &SessionContext, sequences: &Arc<SessionSequences>) {
    for kind in [Kind::Nextval, Kind::Currval, Kind::Lastval, Kind::Setval] {
        context.register_udf(ScalarUDF::from(SequenceFunction::new(kind, Arc::clone(sequences))));
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Nextval,
    Currval,
    Lastval,
    Setval,
}

struct SequenceFunction {
    kind: Kind,
    signature: Signature,
    sequences: Arc<SessionSequences>,
}

impl SequenceFunction {
    fn new(kind: Kind, sequences: Arc<SessionSequences>) -> Self {
        let arguments = match kind {
            Kind::Nextval | Kind::Currval => TypeSignature::Exact(vec![DataType::Utf8]),
            Kind::Lastval => TypeSignature::Nullary,
            Kind::Setval => TypeSignature::OneOf(vec![
                TypeSignature::Exact(vec![DataType::Utf8, DataType::Int64]),
                TypeSignature::Exact(vec![DataType::Utf8, DataType::Int64, DataType::Boolean]),
            ]),
        };
        // Volatile: evaluated for every row.
        Self { kind, signature: Signature::new(arguments, Volatility::Volatile), sequences }
    }

    /// One value; `None` where an argument is NULL.
    fn value(&self, arguments: &[ArrayRef], row: usize) -> saki_catalog::Result<Option<i64>> {
        if arguments.iter().any(|argument| argument.is_null(row)) {
            return Ok(None);
        }
        let name = |at: usize| arguments[at].as_string::<i32>().value(row);
        match (self.kind, arguments.len()) {
            (Kind::Nextval, _) => self.sequences.nextval(name(0)),
            (Kind::Currval, _) => self.sequences.currval(name(0)),
            (Kind::Lastval, _) => self.sequences.lastval(),
            (Kind::Setval, count) => {
                let value = arguments[1].as_primitive::<Int64Type>().value(row);
                let is_called = count < 3 || arguments[2].as_boolean().value(row);
                self.sequences.setval(name(0), value, is_called)
            }
        }
        .map(Some)
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Nextval => "nextval",
            Kind::Currval => "currval",
            Kind::Lastval => "lastval",
            Kind::Setval => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = args.number_rows;
        // Arguments that are all constants have one row, whatever the batch has.
        if arguments.iter().any(|argument| argument.len() != 1 && argument.len() != rows) {
            return exec_err!("{}: arguments of different lengths", self.name());
        }
        let values = (0..rows).map(|row| {
            let row = |argument: &ArrayRef| if argument.len() == 1 { 0 } else { row };
            let at = arguments.first().map_or(0, row);
            self.value(&arguments, at)
        });
        let values = values.collect::<saki_catalog::Result<Int64Array>>()?;
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}

impl std::fmt::Debug for SequenceFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SequenceFunction").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && Arc::ptr_eq(&self.sequences, &other.sequences)
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}
