//! Types `json` and `jsonb` and their functions (PostgreSQL, sections 8.14 and 9.16), over texts in the forms of
//! [`saki_base::json`].
//!
//! In plans a value of `json` is [`JSON`] and one of `jsonb` is [`JSONB`], Arrow types that nothing else has here: so
//! no operator takes one for a text, or for the other.

mod access;
mod build;
mod casts;
mod change;
mod contain;
mod definition;
mod kinds;
mod parse;
mod sets;
mod writer;

use std::sync::LazyLock;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, ScalarUDF};

pub use self::build::{GATHERED, WHOLE_ROW};
pub use self::casts::{AS_JSON, AS_JSONB, key, read, spelled};
use self::definition::Definition;
pub use self::kinds::{JSON, JSONB, is_json};
pub use self::sets::SETS;

/// The functions, and those that operators mean.
pub fn functions() -> impl Iterator<Item = ScalarUDF> {
    let operators = [&access::GET, &access::GET_TEXT, &access::AT, &access::AT_TEXT];
    let groups = [access::FUNCTIONS, change::FUNCTIONS, contain::FUNCTIONS, sets::FUNCTIONS];
    let defined = operators.into_iter().chain(groups.into_iter().flatten());
    defined.map(Definition::function).chain(build::functions()).chain(casts::functions())
}

/// An operator that is called here by a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    Get,
    GetText,
    At,
    AtText,
    Contains,
    Contained,
    Exists,
    ExistsAny,
    ExistsAll,
    Concat,
    DeleteKey,
    DeleteKeys,
    DeleteElement,
    DeletePath,
}

impl Operator {
    /// The operator between two values.
    pub fn call(self, left: Expr, right: Expr) -> Expr {
        static CALLED: LazyLock<Vec<ScalarUDF>> = LazyLock::new(|| functions().collect());
        let name = self.function();
        let found = CALLED.iter().find(|function| function.name() == name);
        found.map_or(Expr::Literal(ScalarValue::Null, None), |function| function.call(vec![left, right]))
    }

    const fn function(self) -> &'static str {
        match self {
            Self::Get => "json_get",
            Self::GetText => "json_get_text",
            Self::At => "json_at_path",
            Self::AtText => "json_at_path_text",
            Self::Contains => "jsonb_contains",
            Self::Contained => "jsonb_contained",
            Self::Exists => "jsonb_exists",
            Self::ExistsAny => "jsonb_exists_any",
            Self::ExistsAll => "jsonb_exists_all",
            Self::Concat => "jsonb_concat",
            Self::DeleteKey => "jsonb_delete_key",
            Self::DeleteKeys => "jsonb_delete_keys",
            Self::DeleteElement => "jsonb_delete_element",
            Self::DeletePath => "jsonb_delete_path",
        }
    }
}
