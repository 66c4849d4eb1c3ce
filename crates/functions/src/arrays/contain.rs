//! Whether an array has all elements of another. Elements that are NULL are in none, as in PostgreSQL; to the planner's
//! own function one NULL is in the other.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray};
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_base::{Element, array};
use saki_catalog::SqlError;
use saki_exec::lists;

/// So many comparisons are made before elements are hashed.
const COMPARED_MAX: usize = 64;

/// `whole @> part`, both of one type that columns have.
pub fn contains(whole: Expr, part: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> =
        LazyLock::new(|| ScalarUDF::from(Contains { signature: Signature::any(2, Volatility::Immutable) }));
    FUNCTION.call(vec![whole, part])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Contains {
    signature: Signature,
}

impl ScalarUDFImpl for Contains {
    fn name(&self) -> &'static str {
        "array_contains"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arrays: &[ArrayRef]| rows(&arrays[0], &arrays[1]), Vec::new())(&args.args)
    }
}

fn rows(wholes: &ArrayRef, parts: &ArrayRef) -> Result<ArrayRef> {
    let element = lists::element_of(wholes.data_type());
    let element = element.ok_or_else(|| SqlError::internal("arrays that no column has are looked through"))?;
    let held = |lists: &ArrayRef| lists::encode(element, lists).map_err(SqlError::data);
    let (wholes, parts): (BinaryViewArray, BinaryViewArray) = (held(wholes)?, held(parts)?);
    let row = |row: usize| {
        let valid = wholes.is_valid(row) && parts.is_valid(row);
        valid.then(|| has_all(element, wholes.value(row), parts.value(row))).transpose()
    };
    let rows: std::result::Result<BooleanArray, SqlError> = (0..wholes.len()).map(row).collect();
    Ok(Arc::new(rows?))
}

fn has_all(element: Element, whole: &[u8], part: &[u8]) -> std::result::Result<bool, SqlError> {
    let elements = |of| array::split(element, of).map_err(|error| SqlError::internal(error.to_string()));
    let (whole, part) = (elements(whole)?, elements(part)?);
    let hashed: Option<HashSet<&[u8]>> =
        (whole.len() * part.len() > COMPARED_MAX).then(|| whole.iter().copied().collect());
    let has = |of: &[u8]| hashed.as_ref().map_or_else(|| whole.contains(&of), |hashed| hashed.contains(of));
    Ok(part.iter().all(|of| !array::is_null(of) && has(of)))
}
