//! `a>-3`: an operator of several letters ends before a sign, unless it has one of the letters that no operator of SQL
//! has. Source: PostgreSQL's documentation, section 4.1.3.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::syntax::Syntax;

/// Letters of operators that may end with a sign.
const SPECIAL: [char; 10] = ['~', '!', '@', '#', '%', '^', '&', '|', '`', '?'];

/// The tokens with such operators cut.
pub fn apart(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| cut(&token.token).is_some()) {
        return tokens;
    }
    let mut apart = Vec::with_capacity(tokens.len() + 2);
    for token in tokens {
        match cut(&token.token) {
            Some(parts) => apart.extend(parts.into_iter().map(|part| TokenWithSpan { token: part, span: token.span })),
            None => apart.push(token),
        }
    }
    apart
}

/// The operator and the signs behind it, if there are any.
fn cut(token: &Token) -> Option<Vec<Token>> {
    let Token::CustomBinaryOperator(text) = token else { return None };
    if text.contains(SPECIAL) {
        return None;
    }
    // The first letter is an operator in any case.
    let end = text[1..].trim_end_matches(['+', '-']).len() + 1;
    let (operator, signs) = text.split_at(end);
    if signs.is_empty() {
        return None;
    }
    let mut parts = Tokenizer::new(&Syntax, operator).tokenize().ok()?;
    parts.extend(signs.chars().map(|sign| if sign == '-' { Token::Minus } else { Token::Plus }));
    Some(parts)
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn signs_are_no_part_of_operators() {
        check(
            &[
                ("SELECT a>-3, a<>-3, a>=-3", "SELECT a > -3, a <> -3, a >= -3"),
                ("SELECT -+3, 5-+3, 5*-3", "SELECT -+3, 5 - +3, 5 * -3"),
            ],
            read,
        );
    }
}
