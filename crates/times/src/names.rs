//! Names of calls within calls.
//!
//! The planner asks for an expression's name at each level of it, in each of its rules, and by its own way of naming
//! each name holds those of the arguments: a chain of 300 operators, each a call around the one before, took it 39
//! seconds. So a call of deeply nested arguments is named by their hash.

use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;

/// Levels of expressions within each other that a name shows.
const LEVELS: usize = 12;

/// What a plan's schema calls a call; equal calls have equal names.
///
/// # Errors
/// If an argument cannot be named.
pub fn call(function: &str, arguments: &[Expr]) -> Result<String> {
    for argument in arguments {
        if is_deeper(argument, LEVELS)? {
            let mut hasher = DefaultHasher::new();
            arguments.hash(&mut hasher);
            return Ok(format!("{function}(#{:016x})", hasher.finish()));
        }
    }
    let names: Vec<String> = arguments.iter().map(|argument| argument.schema_name().to_string()).collect();
    Ok(format!("{function}({})", names.join(",")))
}

/// Whether an expression has more levels than so many.
fn is_deeper(expr: &Expr, levels: usize) -> Result<bool> {
    if levels == 0 {
        return Ok(true);
    }
    let mut found = false;
    expr.apply_children(|child| {
        found = is_deeper(child, levels - 1)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    fn chain(levels: usize) -> Expr {
        (0..levels).fold(col("a"), |chain, _| chain + lit(1))
    }

    #[test]
    fn a_name_shows_its_arguments_or_stands_for_them() {
        assert_eq!(call("f", &[col("a"), lit(1)]).unwrap(), "f(a,Int32(1))");
        let deep = call("f", &[chain(40)]).unwrap();
        assert!(deep.len() < 30, "{deep}");
        assert_eq!(deep, call("f", &[chain(40)]).unwrap());
        assert_ne!(deep, call("f", &[chain(41)]).unwrap());
    }
}
