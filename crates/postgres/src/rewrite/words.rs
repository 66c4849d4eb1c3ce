//! Functions that SQL writes as words, without parentheses: `current_user` and its like.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments, Ident, VisitorMut};

use super::syntax::function_name;
use saki_catalog::SqlError;
use saki_statement::call;
use saki_system::functions::WORDS;

pub fn is_word(ident: &Ident) -> bool {
    ident.quote_style.is_none() && WORDS.iter().any(|word| ident.value.eq_ignore_ascii_case(word))
}

pub struct Words;

impl VisitorMut for Words {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let word = match &*expr {
            Expr::Identifier(ident) if is_word(ident) => Some(ident.value.to_lowercase()),
            Expr::Function(function) if matches!(function.args, FunctionArguments::None) => {
                function_name(function).filter(|name| WORDS.contains(&name.as_str()))
            }
            _ => None,
        };
        if let Some(word) = word {
            *expr = call(&word, Vec::new());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::passed;
    use super::Words;
    use crate::fixture::{check, library};

    #[test]
    fn words_are_calls_unless_they_are_quoted() {
        check(
            &[
                ("SELECT current_user", "SELECT current_user()"),
                ("SELECT CURRENT_ROLE, Session_User, user", "SELECT current_role(), session_user(), user()"),
                ("SELECT current_catalog, current_schema", "SELECT current_catalog(), current_schema()"),
                ("SELECT \"current_role\", t.a", "SELECT \"current_role\", t.a"),
                ("SELECT a FROM t WHERE b = current_role", "SELECT a FROM t WHERE b = current_role()"),
            ],
            |sql| passed(sql, &mut Words),
        );
        library().check(&[("select user = current_user, current_schema() = current_schema", "true|true")]);
    }
}
