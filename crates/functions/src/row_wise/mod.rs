//! Functions that are computed row by row, from a table of their names, the types that they take and what they give:
//! those that statements call for a few rows, of which a batch need not cost as little as it could.
//!
//! All are strict: a NULL among the arguments is the result.

mod arrays;
mod bits;
mod definition;
mod degrees;
pub mod overloads;
mod slices;
mod texts;
mod unicode;

use std::sync::LazyLock;

use datafusion::logical_expr::ScalarUDF;

/// The functions.
pub fn functions() -> impl Iterator<Item = ScalarUDF> {
    let groups = [arrays::FUNCTIONS, bits::FUNCTIONS, degrees::FUNCTIONS, texts::FUNCTIONS, unicode::FUNCTIONS];
    groups.into_iter().flatten().map(definition::Definition::function)
}

/// `&&` of arrays.
pub fn overlap() -> ScalarUDF {
    static OVERLAP: LazyLock<ScalarUDF> = LazyLock::new(|| arrays::OVERLAP.function());
    OVERLAP.clone()
}
