//! What reading and planning a text may take, known before it is read.

/// Bytes that a token takes at most: itself, in the tree of the statement, and in the expressions of its plan.
const TOKEN_BYTES: usize = 1 << 10;
/// Texts, literals above all, are copied on their way.
const COPIES: usize = 4;
/// What a statement takes that is kept: its tree's root, its columns and parameters, the query for all of its values.
const KEPT_BYTES: usize = 12 << 10;
/// And for each token: in its tree, and in what was made of it.
const KEPT_TOKEN_BYTES: usize = 448;
/// Texts that are not worth a reservation.
const SMALL_BYTES: usize = 64 << 10;

/// Bytes of memory for a text; 0 if it is small.
pub fn weight(sql: &str) -> usize {
    if sql.len() <= SMALL_BYTES {
        return 0;
    }
    tokens(sql).saturating_mul(TOKEN_BYTES).saturating_add(sql.len().saturating_mul(COPIES))
}

/// Bytes of memory for a statement that is kept as it was read: a prepared one.
pub fn kept_weight(sql: &str) -> usize {
    let of_tokens = tokens(sql).saturating_mul(KEPT_TOKEN_BYTES);
    of_tokens.saturating_add(sql.len().saturating_mul(COPIES)).saturating_add(KEPT_BYTES)
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
        assert!((40 << 20..50 << 20).contains(&kept_weight(&format!("SELECT '{}'", "x".repeat(10 << 20)))));
    }

    /// About what was measured of them.
    #[test]
    fn short_statements_that_are_kept_weigh_what_they_are_made_of() {
        let kib = |sql| kept_weight(sql) >> 10;
        assert_eq!(kib("SELECT 17"), 13);
        assert_eq!(kib("SELECT 17 + v FROM numbers WHERE id = $1"), 20);
        assert!(
            (34..40).contains(&kib("SELECT n.v, m.t FROM numbers n JOIN numbers m ON n.id = m.v WHERE n.id = $1 \
                                        AND m.t > $2 ORDER BY m.id LIMIT 10"))
        );
    }
}
