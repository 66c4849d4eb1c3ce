//! What reading and planning a text may take, known before it is read.

/// Bytes that a token takes at most: itself, in the tree of the statement, and in the expressions of its plan.
const TOKEN_BYTES: usize = 1 << 10;
/// Texts, literals above all, are copied on their way.
const COPIES: usize = 4;
/// Texts that are not worth a reservation.
const SMALL_BYTES: usize = 64 << 10;

/// Bytes of memory for a text; 0 if it is small.
pub fn weight(sql: &str) -> usize {
    if sql.len() <= SMALL_BYTES {
        return 0;
    }
    tokens(sql).saturating_mul(TOKEN_BYTES).saturating_add(sql.len().saturating_mul(COPIES))
}

/// Tokens at most, blanks among them: a letter after another of its kind begins none, nor does what is in quotes.
fn tokens(sql: &str) -> usize {
    #[derive(PartialEq, Clone, Copy)]
    enum Kind {
        Word,
        Blank,
        Other,
    }
    let (mut count, mut before, mut quote) = (0, Kind::Other, None);
    for byte in sql.bytes() {
        if let Some(open) = quote {
            if byte == open {
                quote = None;
            }
            continue;
        }
        let kind = match byte {
            b'\'' | b'"' => {
                quote = Some(byte);
                Kind::Other
            }
            b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | 128.. => Kind::Word,
            b' ' | b'\t' | b'\r' | b'\n' => Kind::Blank,
            _ => Kind::Other,
        };
        count += usize::from(kind == Kind::Other || kind != before);
        before = kind;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_literals_weigh_little_and_many_tokens_much() {
        assert_eq!(weight("SELECT 1"), 0);
        assert_eq!(tokens("SELECT a.b+1, 'x y z'"), 8);
        let literal = format!("SELECT '{}'", "x".repeat(1 << 20));
        assert!(weight(&literal) < 5 << 20);
        let list = format!("SELECT {}", "1,".repeat(1 << 19));
        assert!(weight(&list) > 1 << 30);
    }
}
